"""The changes between two definitions: words in texts, arguments in schemas.

Every change names its place, such as `argument path`, and its effect on callers. Examples are a new argument,
a newly required one, and a type that accepts more or less than before.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal, TypeAlias

from toolbus.core.text.canonical import NotCanonical, digest
from toolbus.core.values.records import JSON, JSONObject
from toolbus.lock.definitions import changed_fields, locked_meta
from toolbus.lock.drift import SINGULAR, HeldKind, label_of
from toolbus.lock.file import LockedServer
from toolbus.schema.values import entries_of, is_array, is_object, items_of

Effect: TypeAlias = Literal["added", "removed", "required", "optional", "widened", "narrowed", "changed"]
EFFECTS: Mapping[Effect, str] = {
    "added": "new",
    "removed": "removed",
    "required": "now required",
    "optional": "no longer required",
    "widened": "accepts more",
    "narrowed": "accepts less",
    "changed": "changed",
}
"""The text for each effect."""
Words: TypeAlias = tuple[Literal["same", "removed", "added"], str]
_SCHEMAS = {"inputSchema": "argument", "outputSchema": "result"}
_DEEPEST = 30
_WORD = re.compile(r"\s+|\w+|[^\w\s]")
_GAP = 3
"""The maximum number of unchanged words, spaces included, between two changes that are shown as one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionChange:
    """One change in a definition."""

    at: str
    """`description`, `argument path`, `annotations.readOnlyHint`."""
    effect: Effect
    before: JSON = None
    after: JSON = None

    @property
    def is_text(self) -> bool:
        """Whether words can be compared: both are texts, and not just words such as a version."""
        both = isinstance(self.before, str) and isinstance(self.after, str)
        return both and len(self.before.split()) > 1 and len(self.after.split()) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LockDifference:
    """A tool, prompt, template, or part of a server, that differs between two locks."""

    server: str
    kind: HeldKind | Literal["package", "hook"]
    name: str
    """Its own name; empty for a part of the server."""
    status: Literal["added", "removed", "changed"]
    changes: tuple[DefinitionChange, ...] = ()
    """For something new, everything that it says."""

    @property
    def label(self) -> str:
        return label_of(self.server, self.kind, self.name)


def server_differences(server: str, old: LockedServer | None, new: LockedServer) -> list[LockDifference]:
    """The differences between two locks of one server; everything, if there is no old one."""
    before = old or LockedServer(launch={})
    was, now = before.digests, new.digests
    found: list[LockDifference] = []
    for kind in ("launch", "package"):
        if was[kind] != now[kind]:
            changes = tuple(_value_changes(kind, getattr(before, kind), getattr(new, kind)))
            status = "changed" if getattr(before, kind) else "added"
            found.append(LockDifference(server=server, kind=kind, name="", status=status, changes=changes))
    if was["instructions"] != now["instructions"]:
        changed = tuple(_value_changes("instructions", before.instructions or None, new.instructions or None))
        status = "added" if not before.instructions else "changed" if new.instructions else "removed"
        found.append(
            LockDifference(server=server, kind="instructions", name="", status=status, changes=changed)
        )
    for kind, singular in SINGULAR.items():
        first, last = before.definitions[kind], new.definitions[kind]
        for name in sorted({*first, *last}):
            if was[kind].get(name) != now[kind].get(name):
                found.append(_difference(server, singular, name, first.get(name), last.get(name)))
    return found


def _difference(
    server: str, kind: HeldKind, name: str, old: JSONObject | None, new: JSONObject | None
) -> LockDifference:
    if new is None:
        return LockDifference(server=server, kind=kind, name=name, status="removed")
    nothing = {"uri": name} if kind == "skill" else {"name": name, "inputSchema": {"type": "object"}}
    before = nothing if old is None else old
    changes = definition_changes(before, new)
    if old is not None and not changes:  # such as an enum that has a value twice: nothing changed in secret
        fields = changed_fields(old, new)
        changes = [
            DefinitionChange(at=at, effect="changed", before=old.get(at), after=new.get(at)) for at in fields
        ]
    status = "added" if old is None else "changed"
    return LockDifference(server=server, kind=kind, name=name, status=status, changes=tuple(changes))


def definition_changes(old: JSONObject, new: JSONObject) -> list[DefinitionChange]:
    """The changes from one definition to another."""
    found: list[DefinitionChange] = []
    for name in sorted({*old, *new}):
        before, after = old.get(name), new.get(name)
        if name == "_meta":
            old_meta, new_meta = locked_meta(before), locked_meta(after)
            for key in sorted({*old_meta, *new_meta}):
                found += _value_changes(f"_meta.{key}", old_meta.get(key), new_meta.get(key))
        elif name == "resources":
            found += _value_changes("file", _digests(before), _digests(after))
        elif name in _SCHEMAS and is_object(before) and is_object(after):
            found += _schema_changes(before, after, _SCHEMAS[name], ())
        else:
            found += _value_changes(name, before, after)
    return found


def _digests(files: JSON) -> dict[str, JSON]:
    """The files of a skill: their digests by URI."""
    return {str(file.get("uri")): file.get("digest") for file in map(entries_of, items_of(files))}


def word_changes(before: str, after: str) -> list[Words]:
    """The words of both texts in order: the same, removed or added."""
    old, new = _WORD.findall(before), _WORD.findall(after)
    # Ends that are the same stay so; a matcher might take them for words in the middle.
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    middle = _middle_changes(old[start : len(old) - end], new[start : len(new) - end])
    parts: list[Words] = [("same", "".join(old[:start])), *middle, ("same", "".join(old[len(old) - end :]))]
    return [part for part in parts if part[1]]


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = zip(one, other, strict=False)
    return next((index for index, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _middle_changes(old: list[str], new: list[str]) -> Iterator[Words]:
    removed, added = "", ""
    matcher = SequenceMatcher(None, old, new, autojunk=len(old) * len(new) > 4_000_000)
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag != "equal" or _is_gap(old[a:b]):
            # A few words between two changes belong to the change: phrases are easier to read.
            removed, added = removed + "".join(old[a:b]), added + "".join(new[c:d])
            continue
        yield "removed", removed
        yield "added", added
        yield "same", "".join(old[a:b])
        removed, added = "", ""
    yield "removed", removed
    yield "added", added


def _is_gap(words: Sequence[str]) -> bool:
    return len(words) <= _GAP and "\n" not in "".join(words)


def _value_changes(at: str, before: JSON, after: JSON) -> Iterator[DefinitionChange]:
    if is_object(before) and is_object(after):
        for name in sorted({*before, *after}):
            yield from _value_changes(f"{at}.{name}", before.get(name), after.get(name))
    elif is_array(before) and is_array(after) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _value_changes(f"{at}[{index}]", old, new)
    elif not _same(before, after):
        effect: Effect = "added" if before is None else "removed" if after is None else "changed"
        yield DefinitionChange(at=at, effect=effect, before=before, after=after)


def _schema_changes(
    old: JSONObject, new: JSONObject, noun: str, path: tuple[str, ...]
) -> Iterator[DefinitionChange]:
    """The changes of an object's properties, and of every other keyword."""
    here = f"{noun} {'.'.join(path)}" if path else f"{noun}s"
    if len(path) > _DEEPEST:
        yield from _value_changes(here, old, new)
        return
    was, now = entries_of(old.get("properties")), entries_of(new.get("properties"))
    needed, needs = set(map(str, items_of(old.get("required")))), set(map(str, items_of(new.get("required"))))
    for name in [*was, *(name for name in now if name not in was)]:
        at, inner = f"{noun} {'.'.join([*path, name])}", (*path, name)
        if name not in now:
            yield DefinitionChange(at=at, effect="removed", before=was[name])
        elif name not in was:
            yield DefinitionChange(at=at, effect="required" if name in needs else "added", after=now[name])
        else:
            if (name in needs) is not (name in needed):
                yield DefinitionChange(at=at, effect="required" if name in needs else "optional")
            yield from _node_changes(was[name], now[name], noun, inner)
    for name in sorted((needed ^ needs) - {*was, *now}):  # without a schema of its own
        effect: Effect = "required" if name in needs else "optional"
        yield DefinitionChange(at=f"{noun} {'.'.join([*path, name])}", effect=effect)
    yield from _keyword_changes(old, new, here, noun, path)


def _node_changes(old: JSON, new: JSON, noun: str, path: tuple[str, ...]) -> Iterator[DefinitionChange]:
    if is_object(old) and is_object(new):
        yield from _schema_changes(old, new, noun, path)
    elif not _same(old, new):
        yield DefinitionChange(at=f"{noun} {'.'.join(path)}", effect="changed", before=old, after=new)


def _keyword_changes(
    old: JSONObject, new: JSONObject, here: str, noun: str, path: tuple[str, ...]
) -> Iterator[DefinitionChange]:
    for key in sorted({*old, *new} - {"properties", "required"}):
        before, after = old.get(key), new.get(key)
        if _same(before, after):
            continue
        if key == "items" and is_object(before) and is_object(after):
            yield from _schema_changes(before, after, noun, (*path[:-1], f"{path[-1] if path else ''}[]"))
        elif key in ("type", "enum"):
            yield from _set_change(f"{here}: {key}", before, after)
        else:
            yield from _value_changes(f"{here}: {key}", before, after)


def _set_change(at: str, before: JSON, after: JSON) -> Iterator[DefinitionChange]:
    """A type or an enum: whether it accepts more or less; none at all accepts everything."""
    old, new = _members(before), _members(after)
    if old == new:
        return
    if before is None or (after is not None and new < old):
        effect: Effect = "narrowed"
    elif after is None or new > old:
        effect = "widened"
    else:
        effect = "changed"
    yield DefinitionChange(at=at, effect=effect, before=before, after=after)


def _members(value: JSON) -> set[str]:
    try:
        return {digest(item) for item in (value if is_array(value) else [value])}
    except NotCanonical:
        return {repr(value)}


def _same(a: JSON, b: JSON) -> bool:
    try:
        return digest(a) == digest(b)
    except NotCanonical:
        return repr(a) == repr(b)
