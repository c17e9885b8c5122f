"""Change values in the text of a YAML, JSON or TOML document; comments, order and layout stay.

The changed text is parsed again: unless it has exactly the content that the changes should come to, it is a
`NotEditable`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from toolbus.config.editing import toml, yaml_json
from toolbus.config.editing.yaml_json import Steps, by_hand
from toolbus.config.hosts.read import document_in
from toolbus.config.location import is_list, is_mapping
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change to the value at a path; `add` adds pairs to a mapping."""

    kind: Literal["add", "replace", "drop"]
    steps: Steps
    value: JSON = None


def edited(text: str, path: Path, changes: list[Change]) -> tuple[str, JSON]:
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


def _changed(text: str, path: Path, change: Change) -> str:
    is_toml = file_format(path) == "toml"
    options = {} if is_toml else {"is_json": file_format(path) == "json"}
    editor = toml if is_toml else yaml_json
    match change.kind:
        case "add":
            return editor.add(text, change.steps, change.value, **options)
        case "replace":
            return editor.replace(text, change.steps, change.value, **options)
        case "drop":
            return editor.drop(text, change.steps, **options)


def _apply(document: JSON, change: Change) -> None:
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
