"""The differences between what a tape has and what a server does now: definitions, and results of calls."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, TypeAlias

from toolbus.core.text.display import shortened
from toolbus.core.values.records import JSON, JSONObject
from toolbus.lock.changes import EFFECTS, DefinitionChange, definition_changes
from toolbus.schema.values import entries_of, is_array, is_object, items_of
from toolbus.tape.format import ListName
from toolbus.tape.matching import Matching, differences

Level: TypeAlias = Literal["schema", "shape", "result"]
"""`schema` compares definitions; `shape` also the fields and types of results; `result` also their values."""
ChangeKind: TypeAlias = Literal[
    "definition", "missing", "shape", "result", "error", "question", "server", "timeout"
]
_KEYS: Mapping[ListName, tuple[str, str]] = {
    "tools": ("tool", "name"),
    "prompts": ("prompt", "name"),
    "templates": ("template", "uriTemplate"),
}
"""By list: the word for an item, and the key of its name."""
_TEXTS = frozenset(("title", "description", "default", "examples", "$comment", "deprecated", "$schema"))
"""Keywords of a schema that forbid no value."""
_TELLING = frozenset(("_meta", "ttlMs", "cacheScope", "resultType"))
"""Parts of a result that are not its content."""
_MOST_SHOWN = 60
_DEEPEST = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class TapeChange:
    """One change since a tape was recorded."""

    kind: ChangeKind
    text: str
    is_breaking: bool = True
    """Whether a caller that worked before may fail now."""

    def to_json(self) -> dict[str, JSON]:
        """The change for a program."""
        return {"kind": self.kind, "text": self.text, "breaking": self.is_breaking}


# Definitions


def offered_changes(
    recorded: Mapping[ListName, list[JSON]], now: Mapping[ListName, list[JSON]]
) -> Iterator[TapeChange]:
    """The changes of definitions."""
    if recorded.get("instructions", []) != now.get("instructions", []):
        yield TapeChange(kind="definition", text="the instructions changed", is_breaking=False)
    for kind, (noun, key) in _KEYS.items():
        before, after = _by_name(recorded.get(kind), key), _by_name(now.get(kind), key)
        for name in sorted({*before, *after}):
            if name not in after:
                yield TapeChange(kind="definition", text=f"{noun} {name}: removed")
            elif name not in before:
                yield TapeChange(kind="definition", text=f"{noun} {name}: new", is_breaking=False)
            else:
                for change in definition_changes(before[name], after[name]):
                    text = f"{noun} {name}: {_told(change)}"
                    yield TapeChange(kind="definition", text=text, is_breaking=is_breaking(change))


def _by_name(items: list[JSON] | None, key: str) -> dict[str, JSONObject]:
    return {str(one.get(key)): _with_schema(one) for one in map(entries_of, items or ())}


def _with_schema(definition: JSONObject) -> JSONObject:
    """A definition whose arguments are a schema; prompts list them."""
    if "arguments" not in definition:
        return definition
    listed = [entries_of(one) for one in items_of(definition["arguments"])]
    properties = {str(one.get("name")): {"description": one.get("description")} for one in listed}
    required = [str(one.get("name")) for one in listed if one.get("required")]
    schema = {"type": "object", "properties": properties, "required": required}
    return {**{k: v for k, v in definition.items() if k != "arguments"}, "inputSchema": schema}


def is_breaking(change: DefinitionChange) -> bool:
    """Whether a caller that knows the old definition may fail with the new one."""
    place, _, keyword = change.at.partition(": ")
    if keyword in _TEXTS:
        return False
    if place.startswith("argument"):
        if keyword and change.effect in ("added", "removed"):
            return change.effect == "added"  # a limit that was not there
        return change.effect not in ("added", "optional", "widened")
    if place.startswith("result"):
        if keyword and change.effect in ("added", "removed"):
            return change.effect == "removed"
        return change.effect not in ("added", "required", "narrowed")
    return place in ("inputSchema", "outputSchema") and change.effect != "added"


def _told(change: DefinitionChange) -> str:
    place, _, keyword = change.at.partition(": ")
    if keyword and change.effect == "changed":
        return f"{change.at} was {_shown(change.before)}, is now {_shown(change.after)}"
    if change.effect in ("widened", "narrowed"):
        return f"{place} {EFFECTS[change.effect]}: {_shown(change.before)}, now {_shown(change.after)}"
    return f"{change.at} {EFFECTS[change.effect]}"


# Results


def result_changes(
    recorded: JSONObject, now: JSONObject, matching: Matching, level: Level
) -> Iterator[TapeChange]:
    """The differences between a recorded result and a new one."""
    if (failed := bool(now.get("isError"))) is not bool(recorded.get("isError")):
        text = f"fails now: {_text_of(now)}" if failed else "does not fail any more"
        yield TapeChange(kind="error", text=text, is_breaking=failed)
        return
    before, after = (matching.compared(_content(one)) for one in (recorded, now))
    places: set[str] = set()
    if not failed:
        for place, text, breaks in _shape_changes(_shape(before), _shape(after)):
            places.add(place)
            yield TapeChange(kind="shape", text=f"{place or 'result'}: {text}", is_breaking=breaks)
    if level == "result":
        for line in differences(before, after):
            if not any(_is_at(_place(line.partition(": ")[0]), place) for place in places):
                yield TapeChange(kind="result", text=line)


def _place(path: str) -> str:
    return ".".join("*" if step.isdigit() else step for step in path.split("."))


def _is_at(place: str, other: str) -> bool:
    return place == other or place.startswith(f"{other}.") or other.startswith(f"{place}.")


def _content(result: JSONObject) -> dict[str, JSON]:
    """A result without its envelope; a text that is JSON is what it stands for."""
    found = {key: value for key, value in result.items() if key not in _TELLING}
    structured = found.get("structuredContent")
    for name in ("content", "contents"):
        if name in found:
            blocks = [_block(one) for one in items_of(found[name])]
            # Many servers send the structured content as a text, too.
            found[name] = [one for one in blocks if structured is None or one.get("text") != structured]
    return found


def _block(block: JSON) -> dict[str, JSON]:
    found = {key: value for key, value in entries_of(block).items() if key != "_meta"}
    text = found.get("text")
    if isinstance(text, str) and text.lstrip()[:1] in ("{", "["):
        with suppress(ValueError, RecursionError):
            found["text"] = json.loads(text)
    return found


def _text_of(result: JSONObject) -> str:
    texts = [str(entries_of(one).get("text", "")) for one in items_of(result.get("content"))]
    return shortened(re.sub(r"\s+", " ", " ".join(texts)) or "without a text", 200)


_Shape: TypeAlias = dict[str, set[str]]
"""The types at each place; `*` is any element of an array."""


def _shape(value: JSON, place: str = "", found: _Shape | None = None, depth: int = 0) -> _Shape:
    found = {} if found is None else found
    found.setdefault(place, set()).add(_type(value))
    if depth > _DEEPEST:
        return found
    if is_object(value):
        for key, item in value.items():
            _shape(item, f"{place}.{key}" if place else key, found, depth + 1)
    elif is_array(value):
        for item in value:
            _shape(item, f"{place}.*" if place else "*", found, depth + 1)
    return found


def _type(value: JSON) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if value is None:
        return "null"
    return "string" if isinstance(value, str) else "array" if is_array(value) else "object"


def _shape_changes(before: _Shape, after: _Shape) -> Iterator[tuple[str, str, bool]]:
    """Each place whose types differ: its path, the difference, and whether it breaks a reader."""
    for place, types in before.items():
        parent = place.rpartition(".")[0] if place else None
        if place in after:
            if new := after[place] - types:
                yield place, f"was {_words(types)}, is now {_words(after[place])}", bool(new)
        elif parent is not None and not _is_empty(parent, place, after):
            yield place, f"{_words(types)} is missing", True
    for place, types in after.items():
        parent = place.rpartition(".")[0]
        if place not in before and not _is_empty(parent, place, before):
            yield place, f"{_words(types)} is new", False


def _is_empty(parent: str, place: str, shape: _Shape) -> bool:
    """Whether nothing can be said about a place: its parent is no object, or an array without elements."""
    return "object" not in shape.get(parent, ()) or place.rpartition(".")[2] == "*"


def _words(types: Sequence[str] | set[str]) -> str:
    return " or ".join(sorted(types))


def _shown(value: JSON) -> str:
    return shortened(json.dumps(value, ensure_ascii=False, default=str), _MOST_SHOWN)
