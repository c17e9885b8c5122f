"""Add, remove and switch servers in the text of a config, whatever host it was written for.

Comments, order and layout stay; JSON with comments is left alone. The edited text is parsed again before it
is returned: it reads as exactly what was asked for, or the edit is refused with a ConfigError.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from toolbus.config.dialects import CONTAINERS, alias_of
from toolbus.config.editing import toml, yaml_json
from toolbus.config.editing.yaml_json import Steps, by_hand
from toolbus.config.editing.yaml_text import Entries, as_yaml
from toolbus.config.load import load_server
from toolbus.config.location import is_list, is_mapping
from toolbus.config.read import document_in, has_comments
from toolbus.core.errors import ConfigError
from toolbus.core.records import JSON

_HOST_CONTAINER = ("mcpServers",)
_LISTS = ("enabled_servers", "tool_allowlist")
"""Where servers are named again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """What happens to the value at the end of the way; `add` puts new pairs into a mapping."""

    kind: Literal["add", "replace", "drop"]
    steps: Steps
    value: JSON = None


def servers_in(text: str, path: Path) -> Mapping[str, JSON]:
    """The entries in the text of the config at that path, by alias; ConfigError if they cannot be found."""
    document = document_in(text.encode(), path)
    return {alias: _at(document, steps) for alias, steps in _places(document).items()}


def new_document(path: Path, entries: Entries) -> str:
    """The text of a new file of that name with these servers."""
    way, shaped = _shape(path, None, entries)
    if _form(path) == "toml":
        return "\n".join(toml.document((*way, alias), entry) for alias, entry in shaped.items())
    return as_yaml(shaped) if _form(path) == "yaml" else yaml_json.json_text({str(way[0]): shaped})


def with_servers(text: str, path: Path, entries: Entries) -> str:
    """The text with these servers behind the others."""
    document = document_in(text.encode(), path)
    known = _places(document)
    for alias in entries:
        if alias in known:
            raise ConfigError("is in the file already; rename one", server=alias)
    way, shaped = _shape(path, _container(document), entries)
    holder = _at(document, way)
    if is_list(holder):
        raise by_hand("its servers are a list")
    is_there = way[-1] in _at(document, way[:-1])
    if not entries:
        changes = []
    elif _form(path) == "toml" or (is_there and (holder is not None or _form(path) == "yaml")):
        changes = [_Change(kind="add", steps=way, value=shaped)]
    elif is_there:  # null
        changes = [_Change(kind="replace", steps=way, value=shaped)]
    else:
        changes = [_Change(kind="add", steps=way[:-1], value={str(way[-1]): shaped})]
    return _edited(text, path, changes)


def without_server(text: str, path: Path, alias: str) -> str:
    """The text without this server, also where it is named again."""
    document = document_in(text.encode(), path)
    changes = [_Change(kind="drop", steps=_places(document)[alias])]
    for steps, value in _lists(document):
        if is_mapping(value) and alias in value:
            changes.append(_Change(kind="drop", steps=(*steps, alias)))
        elif is_list(value) and alias in value:
            changes.append(_Change(kind="drop", steps=(*steps, list(value).index(alias))))
    return _edited(text, path, changes)


def with_switch(text: str, path: Path, alias: str, *, on: bool) -> str:
    """The text with this server switched on or off."""
    document = document_in(text.encode(), path)
    steps = _places(document)[alias]
    entry = _at(document, steps)
    word = "disabled" if steps[:-1] == _HOST_CONTAINER else "enabled"
    said = [key for key in ("enabled", "disabled") if is_mapping(entry) and entry.get(key) is not None]
    flags = {key: on if key == "enabled" else not on for key in said or ([] if on else [word])}
    if said:
        changes = [_Change(kind="replace", steps=(*steps, key), value=flag) for key, flag in flags.items()]
    elif not flags:
        changes = []
    elif is_mapping(entry):
        changes = [_Change(kind="add", steps=steps, value=flags)]
    else:
        changes = [_Change(kind="replace", steps=steps, value={"url": entry, **flags})]
    for where, value in _lists(document):
        if on and where[-1] == "enabled_servers" and is_list(value) and alias not in value:
            changes.append(_Change(kind="replace", steps=where, value=[*value, alias]))
    return _edited(text, path, changes)


def _edited(text: str, path: Path, changes: list[_Change]) -> str:
    if changes and _form(path) == "json" and has_comments(text):
        raise by_hand("it is JSON with comments")
    expected = _copied(document_in(text.encode(), path))
    for change in changes:
        text = _changed(text, path, change, expected)
        _apply(expected, change)
    try:
        after = document_in(text.encode(), path)
    except ConfigError:
        raise by_hand("its layout cannot be kept") from None
    if after != expected or list(_places(after)) != list(_places(expected)):
        raise by_hand("its layout cannot be kept")
    return text


def _changed(text: str, path: Path, change: _Change, document: JSON) -> str:
    steps, value = change.steps, change.value
    if _form(path) == "toml":
        if isinstance(steps[-1], int):  # a list is written anew
            rest = [item for place, item in enumerate(_at(document, steps[:-1])) if place != steps[-1]]
            return toml.replace(text, steps[:-1], rest)
        match change.kind:
            case "add":
                return toml.add(text, steps, value)
            case "replace":
                return toml.replace(text, steps, value)
            case "drop":
                return toml.drop(text, steps)
    is_json = _form(path) == "json"
    match change.kind:
        case "add":
            return yaml_json.add(text, steps, value, is_json=is_json)
        case "replace":
            return yaml_json.replace(text, steps, value, is_json=is_json)
        case "drop":
            return yaml_json.drop(text, steps, is_json=is_json)


def _apply(document: JSON, change: _Change) -> None:
    """Make the same change to the values."""
    *way, last = change.steps if change.kind != "add" else (*change.steps, "")
    holder = document
    for step in way:
        if isinstance(step, str) and holder.get(step) is None:
            holder[step] = {}
        holder = holder[step]
    match change.kind:
        case "add":
            holder.update(change.value)
        case "replace":
            holder[last] = change.value
        case "drop":
            del holder[last]


def _copied(value: JSON) -> JSON:
    # Not `deepcopy`: what YAML shares by an alias is two values here, and changing one must not look right.
    if is_mapping(value):
        return {key: _copied(inner) for key, inner in value.items()}
    return [_copied(inner) for inner in value] if is_list(value) else value


def _container(document: Mapping[JSON, JSON]) -> Steps | None:
    """The way to the servers; ConfigError if there is more than one."""
    found = [way for way in CONTAINERS if is_mapping(holder := _at(document, way[:-1])) and way[-1] in holder]
    if len(found) > 1:
        raise by_hand(f"it has two lists of servers, {' and '.join('.'.join(way) for way in found)}")
    return found[0] if found else None


def _places(document: JSON) -> dict[str, Steps]:
    """The way to each server by its alias."""
    way = _container(document)
    entries = None if way is None else _at(document, way)
    if is_mapping(entries):
        return {str(alias): (*(way or ()), str(alias)) for alias in entries}
    if is_list(entries):
        return {str(alias_of(one)): (*(way or ()), place) for place, one in enumerate(entries)}
    return {}


def _lists(document: Mapping[JSON, JSON]) -> Iterator[tuple[Steps, JSON]]:
    """Where servers are named again: at the top, or beside them."""
    way = _container(document) or ("servers",)
    for steps in dict.fromkeys(
        (name,) if level == 0 else (*way[:-1], name) for level in (0, 1) for name in _LISTS
    ):
        if (value := _at(document, steps)) is not None:
            yield steps, value


def _at(document: JSON, steps: Steps) -> JSON:
    for step in steps:
        if is_mapping(document):
            document = document.get(step)
        elif is_list(document) and isinstance(step, int):
            document = document[step]
        else:
            return None
    return document


def _shape(path: Path, way: Steps | None, entries: Entries) -> tuple[Steps, dict[str, Mapping[str, JSON]]]:
    """Where new servers go, and how they are written there."""
    if way is None:
        way = _HOST_CONTAINER if path.name in (".mcp.json", "mcp.json") else ("servers",)
    shaped = {
        alias: _for_host(entry) if way == _HOST_CONTAINER else entry for alias, entry in entries.items()
    }
    return way, shaped


def _for_host(entry: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """The entry with the `type` that Claude Code asks for where there is a URL."""
    if "url" not in entry:
        return entry
    transport = load_server(entry).transport
    rest = {key: value for key, value in entry.items() if key != "transport"}
    return {"type": "sse" if transport == "sse" else "http", **rest}


def _form(path: Path) -> Literal["yaml", "json", "toml"]:
    suffix = path.suffix.lower()
    return "yaml" if suffix in (".yaml", ".yml") else "toml" if suffix == ".toml" else "json"
