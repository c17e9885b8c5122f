"""Add, remove, enable and disable servers in the text of a config, in any dialect.

Comments, order and layout are preserved; JSON with comments is not edited.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from toolbus.config.editing import toml, yaml_json
from toolbus.config.editing.change import Change, edited, file_format, value_at
from toolbus.config.editing.yaml_json import Steps, by_hand
from toolbus.config.editing.yaml_text import Entries, as_yaml
from toolbus.config.hosts.dialects import alias_of, containers
from toolbus.config.hosts.read import document_in, has_comments
from toolbus.config.load import load_server
from toolbus.config.location import is_list, is_mapping
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON

_HOST_CONTAINER = ("mcpServers",)
_LISTS = ("enabled_servers", "tool_allowlist")
"""Settings that name servers."""


def servers_in(text: str, path: Path) -> Mapping[str, JSON]:
    """The entries in the text of the config at that path, by alias; ConfigError if it cannot be parsed."""
    document = document_in(text.encode(), path)
    return {alias: value_at(document, steps) for alias, steps in _server_steps(document).items()}


def new_document(path: Path, entries: Entries) -> str:
    """The text of a new file at that path with these servers."""
    parent, shaped = _shape(path, None, entries)
    if file_format(path) == "toml":
        return "\n".join(toml.document((*parent, alias), entry) for alias, entry in shaped.items())
    return as_yaml(shaped) if file_format(path) == "yaml" else yaml_json.json_text({str(parent[0]): shaped})


def with_servers(text: str, path: Path, entries: Entries) -> str:
    """The text with these servers added after the others."""
    document = document_in(text.encode(), path)
    known = _server_steps(document)
    for alias in entries:
        if alias in known:
            raise ConfigError("is already in the file; rename one", server=alias)
    parent, shaped = _shape(path, _container(document), entries)
    holder = value_at(document, parent)
    if is_list(holder):
        raise by_hand("its servers are a list")
    is_there = parent[-1] in value_at(document, parent[:-1])
    if not entries:
        changes = []
    elif file_format(path) == "toml" or (is_there and (holder is not None or file_format(path) == "yaml")):
        changes = [Change(kind="add", steps=parent, value=shaped)]
    elif is_there:  # null
        changes = [Change(kind="replace", steps=parent, value=shaped)]
    else:
        changes = [Change(kind="add", steps=parent[:-1], value={str(parent[-1]): shaped})]
    return _edited(text, path, changes)


def without_server(text: str, path: Path, alias: str) -> str:
    """The text without this server, and without its name in other settings."""
    document = document_in(text.encode(), path)
    changes = [Change(kind="drop", steps=_server_steps(document)[alias])]
    for steps, value in _lists(document):
        if is_mapping(value) and alias in value:
            changes.append(Change(kind="drop", steps=(*steps, alias)))
        elif is_list(value) and alias in value:
            changes.append(Change(kind="drop", steps=(*steps, list(value).index(alias))))
    return _edited(text, path, changes)


def with_switch(text: str, path: Path, alias: str, *, on: bool) -> str:
    """The text with this server enabled or disabled."""
    document = document_in(text.encode(), path)
    steps = _server_steps(document)[alias]
    entry = value_at(document, steps)
    default_key = "disabled" if steps[:-1] == _HOST_CONTAINER else "enabled"
    flagged = [key for key in ("enabled", "disabled") if is_mapping(entry) and entry.get(key) is not None]
    flags = {key: on if key == "enabled" else not on for key in flagged or ([] if on else [default_key])}
    if flagged:
        changes = [Change(kind="replace", steps=(*steps, key), value=flag) for key, flag in flags.items()]
    elif not flags:
        changes = []
    elif is_mapping(entry):
        changes = [Change(kind="add", steps=steps, value=flags)]
    else:
        changes = [Change(kind="replace", steps=steps, value={"url": entry, **flags})]
    for where, value in _lists(document):
        if on and where[-1] == "enabled_servers" and is_list(value) and alias not in value:
            changes.append(Change(kind="replace", steps=where, value=[*value, alias]))
    return _edited(text, path, changes)


def _edited(text: str, path: Path, changes: list[Change]) -> str:
    if changes and file_format(path) == "json" and has_comments(text):
        raise by_hand("it is JSON with comments")
    after, expected = edited(text, path, changes)
    if list(_server_steps(document_in(after.encode(), path))) != list(_server_steps(expected)):
        raise by_hand("its layout cannot be kept")
    return after


def _container(document: Mapping[JSON, JSON]) -> Steps | None:
    """The path to the servers; ConfigError if there is more than one."""
    found = [path for path, _ in containers(document)]
    if len(found) > 1:
        raise by_hand(f"it has two lists of servers, {' and '.join(map('.'.join, found))}")
    return found[0] if found else None


def _server_steps(document: JSON) -> dict[str, Steps]:
    """The path to each server, by alias."""
    parent = _container(document)
    entries = None if parent is None else value_at(document, parent)
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
        if (value := value_at(document, steps)) is not None:
            yield steps, value


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
