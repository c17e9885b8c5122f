"""Add, remove, enable and disable servers in the text of a config, in any dialect.

Comments, order and layout are preserved; JSON with comments is not edited. The edited text is parsed again:
unless it has exactly the requested content, the edit raises a ConfigError.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from toolbus.config.dialects import alias_of, containers
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
"""Settings that name servers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """A change to the value at a path; `add` adds pairs to a mapping."""

    kind: Literal["add", "replace", "drop"]
    steps: Steps
    value: JSON = None


def servers_in(text: str, path: Path) -> Mapping[str, JSON]:
    """The entries in the text of the config at that path, by alias; ConfigError if it cannot be parsed."""
    document = document_in(text.encode(), path)
    return {alias: _at(document, steps) for alias, steps in _server_steps(document).items()}


def new_document(path: Path, entries: Entries) -> str:
    """The text of a new file at that path with these servers."""
    parent, shaped = _shape(path, None, entries)
    if _format(path) == "toml":
        return "\n".join(toml.document((*parent, alias), entry) for alias, entry in shaped.items())
    return as_yaml(shaped) if _format(path) == "yaml" else yaml_json.json_text({str(parent[0]): shaped})


def with_servers(text: str, path: Path, entries: Entries) -> str:
    """The text with these servers added after the others."""
    document = document_in(text.encode(), path)
    known = _server_steps(document)
    for alias in entries:
        if alias in known:
            raise ConfigError("is already in the file; rename one", server=alias)
    parent, shaped = _shape(path, _container(document), entries)
    holder = _at(document, parent)
    if is_list(holder):
        raise by_hand("its servers are a list")
    is_there = parent[-1] in _at(document, parent[:-1])
    if not entries:
        changes = []
    elif _format(path) == "toml" or (is_there and (holder is not None or _format(path) == "yaml")):
        changes = [_Change(kind="add", steps=parent, value=shaped)]
    elif is_there:  # null
        changes = [_Change(kind="replace", steps=parent, value=shaped)]
    else:
        changes = [_Change(kind="add", steps=parent[:-1], value={str(parent[-1]): shaped})]
    return _edited(text, path, changes)


def without_server(text: str, path: Path, alias: str) -> str:
    """The text without this server, and without its name in other settings."""
    document = document_in(text.encode(), path)
    changes = [_Change(kind="drop", steps=_server_steps(document)[alias])]
    for steps, value in _lists(document):
        if is_mapping(value) and alias in value:
            changes.append(_Change(kind="drop", steps=(*steps, alias)))
        elif is_list(value) and alias in value:
            changes.append(_Change(kind="drop", steps=(*steps, list(value).index(alias))))
    return _edited(text, path, changes)


def with_switch(text: str, path: Path, alias: str, *, on: bool) -> str:
    """The text with this server enabled or disabled."""
    document = document_in(text.encode(), path)
    steps = _server_steps(document)[alias]
    entry = _at(document, steps)
    default_key = "disabled" if steps[:-1] == _HOST_CONTAINER else "enabled"
    flagged = [key for key in ("enabled", "disabled") if is_mapping(entry) and entry.get(key) is not None]
    flags = {key: on if key == "enabled" else not on for key in flagged or ([] if on else [default_key])}
    if flagged:
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
    if changes and _format(path) == "json" and has_comments(text):
        raise by_hand("it is JSON with comments")
    expected = _copied(document_in(text.encode(), path))
    for change in changes:
        text = _changed(text, path, change, expected)
        _apply(expected, change)
    try:
        after = document_in(text.encode(), path)
    except ConfigError:
        raise by_hand("its layout cannot be kept") from None
    if after != expected or list(_server_steps(after)) != list(_server_steps(expected)):
        raise by_hand("its layout cannot be kept")
    return text


def _changed(text: str, path: Path, change: _Change, document: JSON) -> str:
    steps, value = change.steps, change.value
    if _format(path) == "toml":
        if isinstance(steps[-1], int):  # a list is written as a whole
            rest = [item for index, item in enumerate(_at(document, steps[:-1])) if index != steps[-1]]
            return toml.replace(text, steps[:-1], rest)
        match change.kind:
            case "add":
                return toml.add(text, steps, value)
            case "replace":
                return toml.replace(text, steps, value)
            case "drop":
                return toml.drop(text, steps)
    is_json = _format(path) == "json"
    match change.kind:
        case "add":
            return yaml_json.add(text, steps, value, is_json=is_json)
        case "replace":
            return yaml_json.replace(text, steps, value, is_json=is_json)
        case "drop":
            return yaml_json.drop(text, steps, is_json=is_json)


def _apply(document: JSON, change: _Change) -> None:
    """Make the same change to the parsed document."""
    *parent, last = change.steps if change.kind != "add" else (*change.steps, "")
    holder = document
    for step in parent:
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
    # Not `deepcopy`: a value shared by a YAML alias becomes two, so that changing one of them is detected.
    if is_mapping(value):
        return {key: _copied(inner) for key, inner in value.items()}
    return [_copied(inner) for inner in value] if is_list(value) else value


def _container(document: Mapping[JSON, JSON]) -> Steps | None:
    """The path to the servers; ConfigError if there is more than one."""
    found = [path for path, _ in containers(document)]
    if len(found) > 1:
        raise by_hand(f"it has two lists of servers, {' and '.join(map('.'.join, found))}")
    return found[0] if found else None


def _server_steps(document: JSON) -> dict[str, Steps]:
    """The path to each server, by alias."""
    parent = _container(document)
    entries = None if parent is None else _at(document, parent)
    if is_mapping(entries):
        return {str(alias): (*(parent or ()), str(alias)) for alias in entries}
    if is_list(entries):
        return {str(alias_of(one)): (*(parent or ()), index) for index, one in enumerate(entries)}
    return {}


def _lists(document: Mapping[JSON, JSON]) -> Iterator[tuple[Steps, JSON]]:
    """Settings that name servers, at the top or beside the servers."""
    parent = _container(document) or ("servers",)
    for steps in dict.fromkeys(
        (name,) if level == 0 else (*parent[:-1], name) for level in (0, 1) for name in _LISTS
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


def _shape(path: Path, parent: Steps | None, entries: Entries) -> tuple[Steps, dict[str, Mapping[str, JSON]]]:
    """The path for new servers, and their entries in the format used there."""
    if parent is None:
        parent = _HOST_CONTAINER if path.name in (".mcp.json", "mcp.json") else ("servers",)
    shaped = {
        alias: _for_host(entry) if parent == _HOST_CONTAINER else entry for alias, entry in entries.items()
    }
    return parent, shaped


def _for_host(entry: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """The entry with the `type` that Claude Code requires beside a URL."""
    if "url" not in entry:
        return entry
    transport = load_server(entry).transport
    rest = {key: value for key, value in entry.items() if key != "transport"}
    return {"type": "sse" if transport == "sse" else "http", **rest}


def _format(path: Path) -> Literal["yaml", "json", "toml"]:
    suffix = path.suffix.lower()
    return "yaml" if suffix in (".yaml", ".yml") else "toml" if suffix == ".toml" else "json"
