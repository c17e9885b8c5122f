"""The catalog: an immutable snapshot of every tool; calls are looked up here.

A tool can be looked up by its public name or as `server/tool`. Names are looked up whole, never parsed.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from threading import Lock
from typing import Generic, TypeVar

from toolbus.core.values.errors import ToolNotFound
from toolbus.core.values.records import ToolSpec
from toolbus.schema.values import same_json

S = TypeVar("S")
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
_MISSING = object()
_MOST_KEPT = 100
"""Values of one kind that are kept of one source, unless its user says more."""


class Memo:
    """Values derived from one immutable source, such as a catalog: each is computed once and shared.

    It lives and ends with its source, so that nothing has to be invalidated. Beyond the limit, the oldest
    value is dropped and recomputed when it is needed. Can be used from any thread.
    """

    __slots__ = ("_lock", "_made")

    def __init__(self) -> None:
        self._made: dict[object, dict[Hashable, object]] = {}
        """By what makes them, and the key."""
        self._lock = Lock()

    def __call__(self, make: Callable[[S, K], T], source: S, key: K, most: int = _MOST_KEPT) -> T:
        """The value of `make(source, key)`.

        It is made of nothing but the source and the whole key: a key cannot forget what its value depends on.
        """
        made = self._made.get(make)
        value = _MISSING if made is None else made.get(key, _MISSING)
        if value is not _MISSING:
            return value  # pyright: ignore[reportReturnType]  # it was made by `make`
        value = make(source, key)  # without the lock: it may take long, and use this memo again
        with self._lock:
            made = self._made.setdefault(make, {})
            value = made.setdefault(key, value)
            while len(made) > most:
                del made[next(iter(made))]
        return value  # pyright: ignore[reportReturnType]  # likewise


class Same(Generic[T]):
    """An immutable object as a part of a key, compared by identity: comparing its content takes long."""

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value  # pyright: ignore[reportUnknownMemberType]

    def __hash__(self) -> int:
        return id(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The changes from one catalog to the next, by public name."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


class Catalog:
    """Public name -> `ToolSpec`, in a fixed order."""

    __slots__ = ("_by_name", "_by_origin", "_for_models", "_memo", "instructions")

    def __init__(
        self,
        specs: Iterable[ToolSpec] = (),
        own: Iterable[ToolSpec] = (),
        instructions: Mapping[str, str] | None = None,
    ) -> None:
        """`own` are the tools of the bus itself; no tool of a server has their names."""
        self.instructions: Mapping[str, str] = dict(instructions or {})
        """The instructions that servers sent, by alias."""
        self._by_name = {spec.name: spec for spec in (*specs, *own)}
        self._by_origin = {str(spec.origin): spec for spec in self._by_name.values()}
        has_hidden = any(spec.is_app_only for spec in self._by_name.values())
        self._for_models: Catalog | None = None if has_hidden else self
        self._memo = Memo()

    @property
    def for_models(self) -> "Catalog":
        """The tools that models may call: without those that are for the user interfaces of servers."""
        if self._for_models is None:
            tools = (spec for spec in self if not spec.is_app_only)
            self._for_models = Catalog(tools, instructions=self.instructions)
        return self._for_models

    @property
    def names(self) -> tuple[str, ...]:
        """The public names."""
        return tuple(self._by_name)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools."""
        return tuple(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[ToolSpec]:
        return iter(self._by_name.values())

    def __contains__(self, name: object) -> bool:
        return name in self._by_name or name in self._by_origin

    def __getitem__(self, name: str) -> ToolSpec:
        """The tool with that public name or `server/tool`; `ToolNotFound` names close matches."""
        spec = self.get(name)
        if spec is None:
            raise self.missing(name)
        return spec

    def __repr__(self) -> str:
        return f"Catalog({len(self)} tools)"

    def get(self, name: str) -> ToolSpec | None:
        """The tool with that public name or `server/tool`, or None."""
        return self._by_name.get(name) or self._by_origin.get(name)

    def memo(self, make: "Callable[[Catalog, K], T]", key: K) -> T:
        """The value of `make(catalog, key)`, such as a part: made once, for all who want the same one."""
        return self._memo(make, self, key)

    def missing(self, name: str, down: Sequence[str] = (), likely: str | None = None) -> ToolNotFound:
        """The error for an unknown name: close matches, servers `down`, the `likely` reason."""
        known = list(self._by_origin if "/" in name else self._by_name)
        # A caller who asks for `read_file` most likely means `files_read_file`.
        alike = [spec.name for spec in self if spec.origin.tool == name]
        return ToolNotFound(name, known, alike=alike, down=down, likely=likely)

    def changes_since(self, before: "Catalog") -> Difference:
        """The changes from `before` to this one."""
        old, new = before._by_name, self._by_name
        if old == new:
            return Difference()
        return Difference(
            added=tuple(name for name in new if name not in old),
            removed=tuple(name for name in old if name not in new),
            changed=tuple(name for name, spec in new.items() if name in old and not _same(old[name], spec)),
        )


def _same(a: ToolSpec, b: ToolSpec) -> bool:
    if a is b:
        return True
    if (a.origin, a.description, a.title, a.route) != (b.origin, b.description, b.title, b.route):
        return False
    if a.maps is not b.maps and repr(a.maps) != repr(b.maps):
        return False
    of_a = [a.input_schema, a.server_schema, a.output_schema, a.annotations, a.options, a.meta]
    of_b = [b.input_schema, b.server_schema, b.output_schema, b.annotations, b.options, b.meta]
    # Nearly always the same objects: one of many servers has changed.
    # `==` would call `const: true` and `const: 1` the same schema.
    return all(map(is_, of_a, of_b)) or same_json(of_a, of_b)
