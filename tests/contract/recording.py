"""Recordings on disk: one JSON object per part, one line per entry."""

import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parent / "recorded"
ADVICE = "if you meant to change it, run python -m tests.contract and commit the difference"

Entries = Mapping[str, Any]


def text_of(entries: Entries) -> str:
    """The file that holds these entries."""
    lines = [f"{json.dumps(key)}: {json.dumps(entries[key], ensure_ascii=False)}" for key in sorted(entries)]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def file_of(part: str) -> Path:
    """The recording of a part."""
    return RECORDED / f"{part}.json"


def write(part: str, entries: Entries) -> None:
    """Replace the recording of a part."""
    file_of(part).write_text(text_of(entries), encoding="utf-8")


def difference(part: str, entries: Entries) -> str:
    """The difference of the entries from the recording, as a diff with advice; empty if there is none."""
    file = file_of(part)
    recorded = file.read_text(encoding="utf-8") if file.exists() else ""
    found = difflib.unified_diff(
        recorded.splitlines(),
        text_of(entries).splitlines(),
        f"recorded {part}",
        f"{part} now",
        n=0,
        lineterm="",
    )
    lines = "\n".join(found)
    return lines and f"the contract changed: {part}\n{lines}\n{ADVICE}"


def shape_of(value: Any) -> Any:
    """The keys and types of a JSON value; a list shows the distinct shapes of its items."""
    match value:
        case dict():
            return {str(key): shape_of(inner) for key, inner in sorted(value.items())}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # any JSON
        case list():
            shapes = {json.dumps(shape_of(inner)) for inner in value}  # pyright: ignore[reportUnknownVariableType]  # any JSON
            return [json.loads(shape) for shape in sorted(shapes)]
        case bool():
            return "bool"
        case int():
            return "int"
        case float():
            return "float"
        case None:
            return "null"
        case _:
            return "str"
