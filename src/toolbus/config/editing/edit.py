"""Change servers in the text of a config or of another host's file: YAML, JSON or TOML.

Comments, order and layout stay. The changed text is parsed again, and `NotEditable` is raised unless it has
exactly the intended content. JSON with comments is edited only in the files of other hosts, many of which
create it. An edit that would lose a comment is refused.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from toolbus.config.editing import toml, yaml_json
from toolbus.config.editing.yaml_json import Entries, NotEditable, Steps, as_yaml, by_hand, json_text, to_yaml
from toolbus.config.hosts.dialects import alias_of, containers
from toolbus.config.hosts.entry import SPELLINGS
from toolbus.config.hosts.read import comments, document_in, has_comments, without_comments
from toolbus.config.load import load_server
from toolbus.config.location import is_list, is_mapping
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class TextChange:
    """A change to the value at a path; `add` adds pairs to a mapping, `append` an item to a list."""

    kind: Literal["add", "append", "replace", "drop"]
    steps: Steps
    value: JSON = None


def edited(text: str, path: Path, changes: list[TextChange]) -> tuple[str, JSON]:
    """The changed text of the document at that path, and the document that it contains."""
    expected = _copied(document_in(text.encode(), path))
    for change in changes:
        text = _changed(text, path, change)
        _apply(expected, change)
    try:
        after = document_in(text.encode(), path)
    except ConfigError:
        raise by_hand("its layout cannot be kept") from None
    if after != expected:
        raise by_hand("its layout cannot be kept")
    return text, expected


def value_at(document: JSON, steps: Steps) -> JSON:
    """The value at a path; None if there is none."""
    for step in steps:
        if is_mapping(document):
            document = document.get(step)
        elif is_list(document) and isinstance(step, int):
            document = document[step]
        else:
            return None
    return document


def file_format(path: Path) -> Literal["yaml", "json", "toml"]:
    """The format of the file at that path."""
    suffix = path.suffix.lower()
    return "yaml" if suffix in (".yaml", ".yml") else "toml" if suffix == ".toml" else "json"


def _changed(text: str, path: Path, change: TextChange) -> str:
    is_toml = file_format(path) == "toml"
    options = {} if is_toml else {"is_json": file_format(path) == "json"}
    editor = toml if is_toml else yaml_json
    match change.kind:
        case "add":
            return editor.add(text, change.steps, change.value, **options)
        case "append":
            return editor.append(text, change.steps, change.value, **options)
        case "replace":
            return editor.replace(text, change.steps, change.value, **options)
        case "drop":
            return editor.drop(text, change.steps, **options)


def _apply(document: JSON, change: TextChange) -> None:
    *parent, last = change.steps if change.kind != "add" else (*change.steps, "")
    holder = document
    for step in parent:
        if isinstance(step, str) and holder.get(step) is None:
            holder[step] = {}
        holder = holder[step]
    match change.kind:
        case "add":
            holder.update(change.value)
        case "append":
            holder[last] = [*holder[last], change.value]
        case "replace":
            holder[last] = change.value
        case "drop":
            del holder[last]


def _copied(value: JSON) -> JSON:
    # Not `deepcopy`: a value shared by a YAML alias becomes two, so that changing one of them is detected.
    if is_mapping(value):
        return {key: _copied(inner) for key, inner in value.items()}
    return [_copied(inner) for inner in value] if is_list(value) else value


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
        changes = [TextChange(kind="add", steps=parent, value=shaped)]
    elif is_there:  # null
        changes = [TextChange(kind="replace", steps=parent, value=shaped)]
    else:
        changes = [TextChange(kind="add", steps=parent[:-1], value={str(parent[-1]): shaped})]
    return _edited(text, path, changes)


def without_server(text: str, path: Path, alias: str) -> str:
    """The text without this server, and without its name in other settings."""
    document = document_in(text.encode(), path)
    changes = [TextChange(kind="drop", steps=_server_steps(document)[alias])]
    for steps, value in _lists(document):
        if is_mapping(value) and alias in value:
            changes.append(TextChange(kind="drop", steps=(*steps, alias)))
        elif is_list(value) and alias in value:
            changes.append(TextChange(kind="drop", steps=(*steps, list(value).index(alias))))
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
        changes = [TextChange(kind="replace", steps=(*steps, key), value=flag) for key, flag in flags.items()]
    elif not flags:
        changes = []
    elif is_mapping(entry):
        changes = [TextChange(kind="add", steps=steps, value=flags)]
    else:
        changes = [TextChange(kind="replace", steps=steps, value={"url": entry, **flags})]
    for where, value in _lists(document):
        if on and where[-1] == "enabled_servers" and is_list(value) and alias not in value:
            changes.append(TextChange(kind="replace", steps=where, value=[*value, alias]))
    return _edited(text, path, changes)


def with_texts(text: str, path: Path, alias: str, texts: Mapping[Steps, str]) -> str:
    """The text with other texts in the entry of this server, by their steps in it: `("args", 1)`."""
    steps = _server_steps(document_in(text.encode(), path))[alias]
    changes = [TextChange(kind="replace", steps=(*steps, *at), value=one) for at, one in texts.items()]
    return _edited(text, path, changes)


def with_changed_entry(text: str, path: Path, alias: str, entry: JSON) -> str:
    """The text with another entry for this server; equal parts keep their lines and comments."""
    document = document_in(text.encode(), path)
    steps = _server_steps(document)[alias]
    before = value_at(document, steps)
    try:
        return _edited(text, path, list(_entry_changes(before, entry, steps)))
    except NotEditable:  # a list or mapping in a layout of its own is written anew, at the end of its entry
        return _edited(text, path, list(_entry_changes(before, entry, steps, is_anew=True)))


def _entry_changes(before: JSON, after: JSON, steps: Steps, *, is_anew: bool = False) -> Iterator[TextChange]:
    """The changes that turn one value into the other."""
    if before == after:
        return
    if is_mapping(before) and is_mapping(after) and before and after:
        yield from (TextChange(kind="drop", steps=(*steps, str(key))) for key in before if key not in after)
        for key, value in after.items():
            if key in before:
                yield from _entry_changes(before[key], value, (*steps, str(key)), is_anew=is_anew)
        new = {str(key): value for key, value in after.items() if key not in before}
        if new:
            yield TextChange(kind="add", steps=steps, value=new)
    elif is_list(before) and is_list(after) and before and not is_anew and len(before) <= len(after):
        for index, value in enumerate(before):
            yield from _entry_changes(value, after[index], (*steps, index))
        yield from (TextChange(kind="append", steps=steps, value=one) for one in after[len(before) :])
    elif is_anew and isinstance(steps[-1], str):
        yield TextChange(kind="drop", steps=steps)
        yield TextChange(kind="add", steps=steps[:-1], value={steps[-1]: after})
    else:
        yield TextChange(kind="replace", steps=steps, value=after)


def tool_patterns(entry: JSON, field: Literal["include", "exclude"]) -> tuple[str, list[JSON]]:
    """The patterns that an entry includes or excludes, and the key it has them under, or would have."""
    spelled = (field, *(key for key, name in SPELLINGS.items() if name == field))
    given = [key for key in spelled if is_mapping(entry) and entry.get(key) is not None]
    key = given[0] if given else field
    patterns: JSON = entry[key] if given else []
    if not is_list(patterns):
        raise by_hand(f"its {key} is not a list")
    return key, list(patterns)


def with_pattern(
    text: str, path: Path, alias: str, field: Literal["include", "exclude"], pattern: str
) -> str:
    """The text with another pattern on the server's tools."""
    document = document_in(text.encode(), path)
    steps = _server_steps(document)[alias]
    entry = value_at(document, steps)
    key, patterns = tool_patterns(entry, field)
    if not is_mapping(entry):
        change = TextChange(kind="replace", steps=steps, value={"url": entry, key: [pattern]})
    elif patterns:
        change = TextChange(kind="append", steps=(*steps, key), value=pattern)
    else:
        kind = "replace" if key in entry else "add"
        where = (*steps, key) if kind == "replace" else steps
        change = TextChange(kind=kind, steps=where, value=[pattern] if key in entry else {key: [pattern]})
    return _edited(text, path, [change])


def without_exclude(text: str, path: Path, alias: str, pattern: str) -> str:
    """The text without this pattern in what the server's entry excludes."""
    document = document_in(text.encode(), path)
    steps = _server_steps(document)[alias]
    key, patterns = tool_patterns(value_at(document, steps), "exclude")
    places = [index for index, one in enumerate(patterns) if one == pattern]
    if len(places) == len(patterns):
        return _edited(text, path, [TextChange(kind="drop", steps=(*steps, key))])
    drops = [TextChange(kind="drop", steps=(*steps, key, index)) for index in reversed(places)]
    return _edited(text, path, drops)


def _edited(text: str, path: Path, changes: list[TextChange]) -> str:
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


def host_document(text: str, path: Path) -> Mapping[JSON, JSON]:
    """The content of the file; ConfigError if it cannot be parsed."""
    return {} if _is_blank(text, path) else document_in(text.encode(), path, top="the host's settings")


def entry_text(path: Path, container: Steps, name: str, entry: Mapping[str, JSON]) -> str:
    """A document for that file with this one entry."""
    if file_format(path) == "toml":
        return toml.document((*container, name), entry)
    document: JSON = {name: entry}
    for step in reversed(container):
        document = {step: document}
    return to_yaml(document) if file_format(path) == "yaml" else json_text(document)


def with_entry(text: str, path: Path, container: Steps, name: str, entry: Mapping[str, JSON]) -> str:
    """The text with this entry, instead of one of the same name if there is one."""
    if _is_blank(text, path):
        gap = "" if not text or text.endswith("\n") else "\n"
        return text + gap + entry_text(path, container, name, entry)
    document = host_document(text, path)
    holder = value_at(document, container)
    if holder is not None and not is_mapping(holder):
        raise by_hand(f"its {'.'.join(map(str, container))} is not a mapping")
    changes: list[TextChange] = []
    if holder is not None and name in holder:
        changes.append(TextChange(kind="drop", steps=(*container, name)))
    if holder is not None or file_format(path) == "toml":
        changes.append(TextChange(kind="add", steps=container, value={name: entry}))
    else:
        changes += _with_container(document, path, container, {name: entry})
    return _kept(text, path, changes)


def without_entry(text: str, path: Path, container: Steps, name: str) -> str:
    """The text without this entry, which must be there."""
    return _kept(text, path, [TextChange(kind="drop", steps=(*container, name))])


def _with_container(
    document: Mapping[JSON, JSON], path: Path, container: Steps, pairs: Mapping[str, JSON]
) -> list[TextChange]:
    """Add the mapping that the entry goes into, with its parents."""
    depth = 0
    while is_mapping(value_at(document, container[: depth + 1])):
        depth += 1
    value: JSON = pairs
    for step in reversed(container[depth + 1 :]):
        value = {step: value}
    is_null = container[depth] in value_at(document, container[:depth])
    if not is_null:
        return [TextChange(kind="add", steps=container[:depth], value={str(container[depth]): value})]
    kind = "add" if file_format(path) == "yaml" else "replace"
    return [TextChange(kind=kind, steps=container[: depth + 1], value=value)]


def _kept(text: str, path: Path, changes: list[TextChange]) -> str:
    after, _ = edited(text, path, changes)
    if file_format(path) == "json" and Counter(comments(after)) != Counter(comments(text)):
        raise by_hand("it has a comment in the way")
    return after


def _is_blank(text: str, path: Path) -> bool:
    text = text.removeprefix("\ufeff")
    if file_format(path) == "json":
        return not without_comments(text).strip()
    return all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines())
