"""Put one entry into another host's file, and take it out again; everything else in the file stays.

Unlike our own config, JSON with comments is edited, too: many hosts create their file with some. An edit that
would lose a comment raises `NotEditable`.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from toolbus.config.editing import toml
from toolbus.config.editing.change import Change, edited, file_format, value_at
from toolbus.config.editing.yaml_json import Steps, by_hand, json_text
from toolbus.config.editing.yaml_text import to_yaml
from toolbus.config.hosts.read import comments, document_in, without_comments
from toolbus.config.location import is_mapping
from toolbus.core.values.records import JSON


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
    changes: list[Change] = []
    if holder is not None and name in holder:
        changes.append(Change(kind="drop", steps=(*container, name)))
    if holder is not None or file_format(path) == "toml":
        changes.append(Change(kind="add", steps=container, value={name: entry}))
    else:
        changes += _with_container(document, path, container, {name: entry})
    return _kept(text, path, changes)


def without_entry(text: str, path: Path, container: Steps, name: str) -> str:
    """The text without this entry, which must be there."""
    return _kept(text, path, [Change(kind="drop", steps=(*container, name))])


def _with_container(
    document: Mapping[JSON, JSON], path: Path, container: Steps, pairs: Mapping[str, JSON]
) -> list[Change]:
    """Add the mapping that the entry goes into, with its parents."""
    depth = 0
    while is_mapping(value_at(document, container[: depth + 1])):
        depth += 1
    value: JSON = pairs
    for step in reversed(container[depth + 1 :]):
        value = {step: value}
    is_null = container[depth] in value_at(document, container[:depth])
    if not is_null:
        return [Change(kind="add", steps=container[:depth], value={str(container[depth]): value})]
    kind = "add" if file_format(path) == "yaml" else "replace"
    return [Change(kind=kind, steps=container[: depth + 1], value=value)]


def _kept(text: str, path: Path, changes: list[Change]) -> str:
    after, _ = edited(text, path, changes)
    if file_format(path) == "json" and Counter(comments(after)) != Counter(comments(text)):
        raise by_hand("it has a comment in the way")
    return after


def _is_blank(text: str, path: Path) -> bool:
    """Whether nothing is in it but comments."""
    text = text.removeprefix("\ufeff")
    if file_format(path) == "json":
        return not without_comments(text).strip()
    return all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines())
