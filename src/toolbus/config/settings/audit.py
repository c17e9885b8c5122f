"""The `audit`, the `history` and the `telemetry` of a bus: the records of its calls, and their places."""

import os.path
import re
from pathlib import Path
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import BeforeValidator, WithJsonSchema

from toolbus.config.base import ConfigModel, Count, Text
from toolbus.config.location import Location, near_miss
from toolbus.core.values.records import JSON

Content: TypeAlias = Literal["digest", "full", "none"]
CONTENTS = ("digest", "full", "none")
SMALLEST, LARGEST = 10_000, 1_000_000_000
"""Limits in bytes. A line has about 500, and on Windows the byte that is locked must lie beyond the content.
"""
DEFAULT_FILE = "audit.jsonl"
"""The file of `audit: true`."""
_UNITS = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "KI": 2**10, "MI": 2**20, "GI": 2**30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMG]I?)?B?", re.IGNORECASE)
_EXAMPLE = "write {file: audit.jsonl, content: digest, rotate: 100MB, keep: 20}, or the file alone"


def _size(value: JSON, smallest: int = SMALLEST) -> int:
    """The number of bytes; `100MB` has a hundred million, `100MiB` some more."""
    found = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is not None:
        value = int(float(found[1]) * _UNITS[(found[2] or "").upper()])
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("expected a size such as 100MB, or a number of bytes")
    if not smallest <= value <= LARGEST:
        raise ValueError(f"expected a size from {'10KB' if smallest == SMALLEST else '1MB'} to 1GB")
    return value


def _content(value: JSON) -> JSON:
    if value not in CONTENTS:
        raise ValueError(f"expected digest, full or none{near_miss(value, CONTENTS)}")
    return value


class Audit(ConfigModel):
    """The audit log: its file, the recorded content, and the removal of old files."""

    _expected = f"expected true, a file or a mapping; {_EXAMPLE}"
    _missing = f"is missing; {_EXAMPLE}"
    _keeps_null = True

    file: Text
    """The file; relative to the config's folder. Concurrent processes write files beside it."""
    content: Annotated[Content, BeforeValidator(_content)] = "digest"
    """The recorded form of arguments and answers: their SHA-256, the values themselves, or nothing."""
    rotate: Annotated[
        int,
        BeforeValidator(_size),
        WithJsonSchema({"type": ["integer", "string"], "minimum": SMALLEST, "maximum": LARGEST}),
    ] = 100_000_000
    """The size from which on a new file is begun: a number of bytes, or such as `100MB`."""
    keep: Count | None = None
    """The number of full files to keep, for each concurrent process; by default all."""
    days: Count | None = None
    """The number of days to keep a full file after its last line; by default forever."""

    def within(self, folder: Path | None) -> Self:
        """The setting with the whole path of its file.

        A relative path is relative to the folder of the config, or to the current one if there is no file.
        """
        path = os.path.abspath(os.path.join(folder or "", os.path.expanduser(self.file)))
        return self.model_copy(update={"file": path})

    @classmethod
    def _from_file(cls, value: JSON) -> dict[str, JSON]:
        file = DEFAULT_FILE if value is True else value
        return super()._from_file({"file": file} if isinstance(file, str) else value)

    def _check(self) -> None:
        if problem := file_problem(self.file):
            raise Location().error(problem, "file")


AuditSetting: TypeAlias = Annotated[
    Audit | None, BeforeValidator(lambda value: None if value is False else value)
]


def file_problem(file: str) -> str | None:
    """The problem with a file as the setting; None if there is none."""
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


SMALLEST_HISTORY = 1_000_000
KEPT = ("calls", "everything")


def _kept(value: JSON) -> JSON:
    if value not in KEPT:
        raise ValueError(f"expected calls or everything{near_miss(value, KEPT)}")
    return value


class History(ConfigModel):
    """The calls that the console keeps when it ends, in one file that is bounded in bytes and days."""

    _expected = (
        "expected true, false, calls, everything or a mapping; write {keep: calls, days: 7, size: 50MiB}"
    )

    keep: Annotated[Literal["calls", "everything"], BeforeValidator(_kept)] = "calls"
    """`calls` without their arguments and results, or `everything`; secrets are redacted."""
    days: Count = 7
    """The number of days to keep a call."""
    size: Annotated[
        int,
        BeforeValidator(lambda value: _size(value, SMALLEST_HISTORY)),
        WithJsonSchema({"type": ["integer", "string"], "minimum": SMALLEST_HISTORY, "maximum": LARGEST}),
    ] = 50 * 2**20
    """The most bytes of the file; the oldest calls give way."""

    @classmethod
    def _from_file(cls, value: JSON) -> dict[str, JSON]:
        if value is True:
            return {}
        return super()._from_file({"keep": value} if isinstance(value, str) else value)


HistorySetting: TypeAlias = Annotated[
    History | None, BeforeValidator(lambda value: None if value is False else value)
]


class Telemetry(ConfigModel):
    """The content of spans; nothing is sent unless the program installs an OpenTelemetry SDK."""

    _expected = "expected true, false, or a mapping with content"

    content: bool = False
    """Whether spans have the arguments, results and error messages of calls, without secrets."""

    @classmethod
    def _from_file(cls, value: JSON) -> dict[str, JSON]:
        return {} if value is True else super()._from_file(value)


DEFAULT_TELEMETRY = Telemetry()
TelemetrySetting: TypeAlias = Annotated[
    Telemetry | None, BeforeValidator(lambda value: None if value is False else value)
]
