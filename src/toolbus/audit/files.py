"""The files of a trail: one for each process that runs at the same time, and the full ones before it.

`audit.jsonl` belongs to the first process, `audit.2.jsonl` to the second. A full file gets the number of its
last line: `audit.jsonl.4711`.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

MOST_SLOTS = 1000
"""How many processes can write a trail at the same time."""


def slot_path(path: Path, slot: int) -> Path:
    """The file of a slot; the first one is 1."""
    return path if slot == 1 else path.with_name(f"{path.stem}.{slot}{path.suffix}")


def full_path(path: Path, seq: int) -> Path:
    """The name of a full file of a slot, by the number of its last line."""
    return path.with_name(f"{path.name}.{seq}")


def full_files(path: Path) -> list[Path]:
    """The full files of a slot, oldest first."""
    pattern = re.compile(re.escape(path.name) + r"\.(\d+)")
    found = ((int(match[1]), name) for name in _names(path.parent) if (match := pattern.fullmatch(name)))
    return [path.with_name(name) for _, name in sorted(found)]


def chains(path: Path) -> dict[Path, list[Path]]:
    """The files of each slot, oldest first, by the path of the slot; slots without any are left out."""
    pattern = re.compile(re.escape(path.stem) + r"(?:\.(\d+))?" + re.escape(path.suffix) + r"(?:\.\d+)?")
    slots = {int(match[1] or 1) for name in _names(path.parent) if (match := pattern.fullmatch(name))}
    found = ((slot_path(path, slot), list(_files(slot_path(path, slot)))) for slot in sorted(slots))
    return {slot: files for slot, files in found if files}


def trail_of(path: Path, slot: Path, name: str) -> str | None:
    """The name of the trail that has `name` as the file of this slot; None if it is that of another slot.

    It is the name of `path`, unless the files were renamed since.
    """
    if slot == path:
        other = re.escape(path.stem) + r"\.\d+" + re.escape(path.suffix)
        return None if re.fullmatch(other, name) else name
    number = slot.name.removeprefix(path.stem).removesuffix(path.suffix)
    found = re.fullmatch(rf"(.*){re.escape(number)}(\.[^.]*)?", name, re.DOTALL)
    return None if found is None else f"{found[1]}{found[2] or ''}"


def _files(slot: Path) -> Iterator[Path]:
    yield from full_files(slot)
    if os.path.lexists(slot):
        yield slot


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
