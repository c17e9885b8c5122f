"""Check the chains of a trail: every line unchanged, none missing, none added, in their order.

Each chain has to be one of this trail, and no copy of another one.

Missing lines at the end of a chain cannot be detected. So the result has the end of each chain, to be
compared with an earlier note of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from toolbus.audit.lines import (
    BEGINNING,
    Position,
    chains,
    fields_of,
    is_incomplete,
    position_of,
    prev_of,
    trail_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditProblem:
    """Something wrong in a file."""

    file: Path
    line: int
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstLine:
    """The first line of a file."""

    file: Path
    line: int
    hash: str
    name: str
    """The name of the file, as the line has it."""


@dataclass(slots=True, kw_only=True)
class ChainReport:
    """The findings in the files of one chain."""

    file: Path
    """The file that is written now, or was last."""
    files: list[Path]
    lines: int = 0
    first: int | None = None
    """The number of the first line; more than 1 if an older file was removed."""
    end: Position = field(default_factory=Position)
    problems: list[AuditProblem] = field(default_factory=list[AuditProblem])
    notes: list[str] = field(default_factory=list[str])
    """Findings that are not damage: removed files, and incomplete lines of killed processes."""
    contains: set[str] = field(default_factory=set[str])
    """The expected digests that were found."""
    openings: list[FirstLine] = field(default_factory=list[FirstLine])


def verify(path: Path, expected: frozenset[str] = frozenset()) -> list[ChainReport]:
    """Check all chains of a trail; `expected` are digests of lines that it must contain."""
    reports = [_Checker(slot, files, expected).report for slot, files in chains(path).items()]
    _check_set(path, reports)
    return reports


def _check_set(path: Path, reports: list[ChainReport]) -> None:
    """Find chains that repeat another one, or that belong to another trail.

    A trail may have been renamed, so the first chain may have another name; then the others need that one.
    """
    names = [{trail_of(path, report.file, one.name) for one in report.openings} for report in reports]
    known = {path.name, *(names[0] if names else ())} - {None}
    # Whatever is copied begins with the first line of a file, or does not fit the line before.
    first: dict[str, Path] = {}
    for report in reports:
        for one in report.openings:
            if (original := first.setdefault(one.hash, one.file)) != one.file:
                problem = f"a copy of {original.name}, which has the same line"
            elif trail_of(path, report.file, one.name) not in known:
                problem = f"it does not belong here: it was written to {one.name}"
            else:
                continue
            report.problems.append(AuditProblem(file=one.file, line=one.line, problem=problem))


class _Checker:
    """Goes through the files of one chain."""

    def __init__(self, slot: Path, files: list[Path], expected: frozenset[str]) -> None:
        self.report = ChainReport(file=slot, files=files)
        self._expected = expected
        self._removed: set[str] = set()
        """The files that the trail says were removed."""
        for file in files:
            self._check_file(file, is_last=file is files[-1])
        self._explain_beginning()

    def _check_file(self, file: Path, *, is_last: bool) -> None:
        self._file, self._number, self._rest, self._has_lines = file, 0, b"", False
        with file.open("rb") as content:
            for line in content:
                self._number += 1
                if line.endswith(b"\n") or position_of(line) is not None:  # only the line break is missing
                    self._check_line(line.removesuffix(b"\n"))
                else:
                    self._rest += line
        if self._rest:
            self._check_end(is_last=is_last)

    def _check_line(self, line: bytes) -> None:
        position = position_of(line)
        if position is None:
            self._rest += line + b"\n"  # perhaps an incomplete one, if the next line says so
            return
        fields = fields_of(line) or {}
        is_damaged = bool(self._rest) and not self._is_recorded(fields)
        if fields.get("event") == "recovered" and not self._rest:
            self._found("the incomplete line that it records is not there")
        if not self._has_lines and "file" not in fields and not is_damaged:
            self._found("lines before it are missing: a file does not begin like this")
        if fields.get("event") == "removed":
            self._removed.add(str(fields.get("file")))
        if not self._has_lines:
            opening = FirstLine(
                file=self._file, line=self._number, hash=position.hash, name=str(fields.get("file"))
            )
            self.report.openings.append(opening)
        self._rest, self._has_lines = b"", True
        self._check_order(position, prev_of(line), after_damage=is_damaged)

    def _is_recorded(self, fields: Mapping[str, Any]) -> bool:
        """Whether the line after an incomplete one records it as it is."""
        rest, line = self._rest, self._number - self._rest.count(b"\n")
        if fields.get("event") != "recovered":
            self._found("changed", line)
            return False
        if fields.get("incomplete") != f"sha256:{sha256(rest).hexdigest()}":
            self._found(f"changed: it is not what line {self._number} records", line)
            return False
        note = f"{self._file.name}:{line}: incomplete: its process was killed; line {self._number} records it"
        self.report.notes.append(note)
        return True

    def _check_end(self, *, is_last: bool) -> None:
        line = self._number - self._rest.rstrip(b"\n").count(b"\n")
        if is_last and is_incomplete(self._rest, self.report.end.seq + 1):
            note = f"{self._file.name}:{line}: incomplete: its process was killed, or is writing"
            self.report.notes.append(note)
        else:
            self._found("changed", line)

    def _check_order(self, position: Position, prev: str | None, *, after_damage: bool) -> None:
        report = self.report
        end, report.end = report.end, position
        report.lines += 1
        if position.hash in self._expected:
            report.contains.add(position.hash)
        if report.first is None:
            report.first = position.seq
            if position.seq == 1 and prev != BEGINNING:
                self._found("it is the first line, but refers to one before")
        elif not after_damage and (prev != end.hash or position.seq != end.seq + 1):
            self._found(_gap(end.seq, position.seq))

    def _explain_beginning(self) -> None:
        first = self.report.first
        if first is None or first == 1:
            return
        file = f"{self.report.file.name}.{first - 1}"
        known = "as its settings say" if file in self._removed else "it is not recorded who removed it"
        note = f"{self.report.files[0].name}: begins with line {first}, after a removed file ({known})"
        self.report.notes.insert(0, note)

    def _found(self, problem: str, line: int | None = None) -> None:
        number = self._number if line is None else line
        self.report.problems.append(AuditProblem(file=self._file, line=number, problem=problem))


def _gap(before: int, seq: int) -> str:
    if seq > before + 1:
        missing = f"line {before + 1} is" if seq == before + 2 else f"lines {before + 1} to {seq - 1} are"
        return f"{missing} missing before it"
    if seq == before + 1:
        return "it does not refer to the line before: that one was replaced"
    return f"it is out of order, or a copy: its seq is {seq}, after {before}"
