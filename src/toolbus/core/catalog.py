"""The catalog: an immutable snapshot of every tool, and the only door to a call.

A tool can be asked for by its public name or as `server/tool`. Neither is ever taken apart:
both are looked up as a whole.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from toolbus.core.errors import ToolNotFound
from toolbus.core.records import ToolSpec
from toolbus.schema.values import same_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What changed from one catalog to the next, by public name."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


class Catalog:
    """Public name -> `ToolSpec`, in a fixed order."""

    __slots__ = ("_by_name", "_by_origin", "instructions")

    def __init__(
        self,
        specs: Iterable[ToolSpec] = (),
        own: Iterable[ToolSpec] = (),
        instructions: Mapping[str, str] | None = None,
    ) -> None:
        """`own` are tools of the bus itself, whose names no tool of a server has."""
        self.instructions: Mapping[str, str] = dict(instructions or {})
        """What servers say about how to use them, by alias."""
        self._by_name = {spec.name: spec for spec in (*specs, *own)}
        self._by_origin = {str(spec.origin): spec for spec in self._by_name.values()}

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
        """The tool of that public name or `server/tool`; `ToolNotFound` names the near misses."""
        spec = self.get(name)
        if spec is None:
            raise self.missing(name)
        return spec

    def __repr__(self) -> str:
        return f"Catalog({len(self)} tools)"

    def get(self, name: str) -> ToolSpec | None:
        """The tool of that public name or `server/tool`, if there is one."""
        return self._by_name.get(name) or self._by_origin.get(name)

    def missing(self, name: str, down: Sequence[str] = (), likely: str | None = None) -> ToolNotFound:
        """The error for a name that is not here: near misses, servers `down`, the `likely` reason."""
        known = list(self._by_origin if "/" in name else self._by_name)
        # Most likely meant by who says `read_file` where the tool is `files_read_file`.
        alike = [spec.name for spec in self if spec.origin.tool == name]
        return ToolNotFound(name, known, alike=alike, down=down, likely=likely)

    def since(self, before: "Catalog") -> Difference:
        """What changed from `before` to this one."""
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
    # `==` would call `const: true` and `const: 1` the same schema.
    return repr(a.maps) == repr(b.maps) and same_json(
        [a.input_schema, a.server_schema, a.output_schema, a.annotations, a.options, a.meta],
        [b.input_schema, b.server_schema, b.output_schema, b.annotations, b.options, b.meta],
    )
