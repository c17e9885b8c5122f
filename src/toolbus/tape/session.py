"""The tapes of one test: each bus that is made meanwhile records one of them, or replays it.

The first bus has the tape itself, the second `NAME.2.jsonl`, and so on. A recorded tape is put
in place when the test has passed.
"""

import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from toolbus.core.values.tape_errors import TapeError, TapeMismatch
from toolbus.tape.matching import Matching, TapeMode

if TYPE_CHECKING:
    from toolbus.tape.format import RecordedCall
    from toolbus.tape.use import BusTapes

_MADE_BY_TESTS = frozenset(("tools/call", "resources/read", "prompts/get", "completion/complete"))
"""The methods of calls that a test makes; the others follow from them."""
_current: "TapeSession | None" = None
"""The session of this process: tests run one after the other, perhaps in several threads and loops."""


def current_session() -> "TapeSession | None":
    """The session that a new bus belongs to."""
    return _current


@contextmanager
def current(session: "TapeSession | None") -> Generator[None]:
    """Let new buses belong to a session, or to none, until the block ends."""
    global _current
    before, _current = _current, session
    try:
        yield
    finally:
        _current = before


class TapeSession:
    """The tapes of a test."""

    def __init__(
        self,
        path: str | Path,
        *,
        mode: TapeMode = "once",
        matching: Matching | None = None,
        step: str = "record it first",
    ) -> None:
        """Tapes at a path; `step` is what to do if there is none to replay."""
        self.path = Path(path)
        self.mode: TapeMode = mode
        self.replays = mode == "none" or (mode == "once" and self.path.exists())
        """Whether nothing is recorded."""
        self.problems: list[TapeError] = []
        """Tapes that are missing."""
        self._matching = matching or Matching()
        self._step = step
        self._buses: list[tuple[BusTapes, Path]] = []
        """The tapes of each bus, and where they come to."""
        self._new: tempfile.TemporaryDirectory[str] | None = None

    def __repr__(self) -> str:
        return f"<TapeSession {self.path}, {'replays' if self.replays else f'mode {self.mode}'}>"

    def next_tapes(self) -> "BusTapes":
        """The tapes of a new bus."""
        from toolbus.tape.use import BusTapes, TapeUse

        number = len(self._buses) + 1
        place = self.path if number == 1 else self._numbered(number)
        if not self.replays:
            tapes = BusTapes(TapeUse(record=self._begun(place), mode=self.mode, matching=self._matching))
        elif place.exists():
            tapes = BusTapes(TapeUse(replay=place, matching=self._matching))
        else:
            tapes = self._missing(place, number)
        self._buses.append((tapes, place))
        return tapes

    def _missing(self, place: Path, number: int) -> "BusTapes":
        from toolbus.tape.use import MissingTapes

        problem = "does not exist" if number == 1 else f"does not exist; this is bus {number} of the test"
        return MissingTapes(TapeError(place, problem, self._step), self.problems)

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.stem}.{number}.jsonl")

    def _begun(self, place: Path) -> Path:
        """The file to record, with the existing tape in it."""
        if self._new is None:
            self._new = tempfile.TemporaryDirectory(prefix="toolbus-tape-", ignore_cleanup_errors=True)
        new = Path(self._new.name, place.name)
        if self.mode == "new_episodes" and place.exists():
            _copy(place, new)
        return new

    # What came of it

    @property
    def mismatches(self) -> list[TapeMismatch]:
        """The calls and answers that are not on the tapes."""
        players = (tapes.player for tapes, _ in self._buses)
        return [error for player in players if player is not None for error in player.mismatches]

    @property
    def unused(self) -> list["RecordedCall"]:
        """The recorded calls that the test did not make."""
        return [call for tapes, place in self._buses for call in _unused(tapes, place)]

    def end(self, *, keeps: bool) -> list[Path]:
        """Put the recorded tapes in place; returns their paths. `TapeError` if that fails."""
        for tapes, _ in self._buses:
            tapes.end()
        if self._new is None:
            return []
        try:
            return self._kept() if keeps else []
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise TapeError(self.path, reason, "make its folder writable") from None
        finally:
            self._new.cleanup()

    def _kept(self) -> list[Path]:
        assert self._new is not None, "something was recorded"
        found = [(Path(self._new.name, place.name), place) for _, place in self._buses]
        made = [(new, place) for new, place in found if new.exists()]
        for new, place in made:
            if problem := _incomplete(new):
                raise TapeError(place, problem, "run the test again")
        for new, place in made:
            _copy(new, place)
        number = len(self._buses) + 1
        while made and self.mode == "all" and self._numbered(number).exists():
            _remove(self._numbered(number))
            number += 1
        return [place for _, place in made]


def _unused(tapes: "BusTapes", place: Path) -> Iterator["RecordedCall"]:
    from toolbus.tape.format import Tape

    if tapes.player is None:
        return
    tape = Tape(place)
    try:
        for call in tape.calls():
            if call.method in _MADE_BY_TESTS and call.resumes is None and not tapes.player.played[call.id]:
                yield call
    finally:
        tape.close()


def _incomplete(path: Path) -> str:
    from toolbus.tape.format import Tape

    tape = Tape(path)
    tape.close()
    return "" if tape.is_complete else "is incomplete: see the log"


def _copy(source: Path, target: Path) -> None:
    """Copy a tape with its contents, so that a reader has the old one or the new one."""
    target.parent.mkdir(parents=True, exist_ok=True)
    files, to = source.with_name(f"{source.stem}.files"), target.with_name(f"{target.stem}.files")
    if files.exists():
        shutil.copytree(files, to, dirs_exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    shutil.copyfile(source, part)
    os.replace(part, target)
    if to.exists():
        kept = {one.name for one in files.iterdir()} if files.exists() else set[str]()
        for one in to.iterdir():
            if one.name not in kept:
                one.unlink()
        with suppress(OSError):  # only if nothing is left
            to.rmdir()


def _remove(tape: Path) -> None:
    shutil.rmtree(tape.with_name(f"{tape.stem}.files"), ignore_errors=True)
    tape.unlink()
