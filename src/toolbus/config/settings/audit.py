"""The `audit` of a bus: the file in which every decision and every call is recorded, and for how long."""

import os.path
import re
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from toolbus.config.base import ConfigModel
from toolbus.config.location import Location, is_mapping, near_miss
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON

Content: TypeAlias = Literal["digest", "full", "none"]
CONTENTS = ("digest", "full", "none")
SMALLEST, LARGEST = 10_000, 1_000_000_000
"""In bytes. A line has about 500, and on Windows the byte that is locked must lie beyond the content."""
DEFAULT_FILE = "audit.jsonl"
"""The file of `audit: true`."""
_UNITS = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "KI": 2**10, "MI": 2**20, "GI": 2**30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMG]I?)?B?", re.IGNORECASE)
_EXAMPLE = "write {file: audit.jsonl, content: digest, rotate: 100MB, keep: 20}, or the file alone"
_Count = Annotated[int, Field(ge=1)]


class Audit(ConfigModel):
    """Where calls are recorded, what is recorded of their content, and when old files are removed."""

    file: str = Field(min_length=1)
    """The file; relative to the config's folder. Concurrent processes write files beside it."""
    content: Content = "digest"
    """What is recorded of arguments and answers: their SHA-256, the values themselves, or nothing."""
    rotate: int = Field(default=100_000_000, ge=SMALLEST, le=LARGEST)
    """The size from which on a new file is begun: a number of bytes, or such as `100MB`."""
    keep: _Count | None = None
    """How many full files to keep, of each process that runs at the same time; by default all."""
    days: _Count | None = None
    """How many days to keep a full file after its last line; by default forever."""

    def _check(self) -> None:
        if problem := _file_problem(self.file):
            raise Location().error(problem, "file")


def read_audit(value: JSON, location: Location, folder: Path | None) -> Audit | None:
    """The setting, with the whole path of its file; None for `false`, ConfigError if it is invalid.

    A relative path is relative to the folder of the config, or to the current one if there is no file.
    """
    if value is False:
        return None
    fields = _fields(value, location)
    if "rotate" in fields:
        fields["rotate"] = _size(fields["rotate"], location)
    try:
        audit = Audit(**fields)
    except ConfigError as error:
        raise location.relocated(error, lambda key: f"audit.{key}" if key else "audit") from None
    path = os.path.abspath(os.path.join(folder or "", os.path.expanduser(audit.file)))
    return audit.model_copy(update={"file": path})


def is_audit(value: object) -> bool:
    """Whether the value is our `audit`: other hosts may use that key for something else."""
    if isinstance(value, str):
        return _file_problem(value) is None
    return isinstance(value, Audit | bool) or (is_mapping(value) and "file" in value)


def _fields(value: JSON, location: Location) -> dict[str, JSON]:
    if isinstance(value, Audit):
        return value.model_dump()
    if isinstance(value, str) or value is True:
        return {"file": DEFAULT_FILE if value is True else value}
    if not is_mapping(value):
        raise location.error(f"expected true, a file or a mapping; {_EXAMPLE}", "audit")
    content = value.get("content", "digest")
    if content not in CONTENTS:
        raise location.error(f"expected digest, full or none{near_miss(content, CONTENTS)}", "audit.content")
    if "file" not in value:
        raise location.error(f"is missing; {_EXAMPLE}", "audit.file")
    return {str(key): field for key, field in value.items()}


def _size(value: JSON, location: Location) -> int:
    """The number of bytes; `100MB` has a hundred million, `100MiB` some more."""
    found = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is not None:
        size = int(float(found[1]) * _UNITS[(found[2] or "").upper()])
    elif isinstance(value, int) and not isinstance(value, bool):
        size = value
    else:
        raise location.error("expected a size such as 100MB, or a number of bytes", "audit.rotate")
    if not SMALLEST <= size <= LARGEST:
        raise location.error("expected a size from 10KB to 1GB", "audit.rotate")
    return size


def _file_problem(file: str) -> str | None:
    if "${" in file:
        return "cannot contain a reference; write the path, with ~ for your home"
    if "\0" in file or os.path.expanduser(file).startswith("~"):
        return "is not a path that can be used; write a whole path"
    if not file.strip() or file.endswith(("/", os.sep)):
        return "names no file; write such as audit.jsonl"
    # Numbers stand for further files: audit.2.jsonl, audit.jsonl.4711.
    if not re.fullmatch(r"\.[A-Za-z]\w*", os.path.splitext(file)[1]):
        return "needs an extension, such as audit.jsonl"
    return None
