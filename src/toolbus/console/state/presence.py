"""Whether somebody has the console open: then questions that have nobody else wait for that person."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from toolbus.core.ask.question_router import Switchboard

RECENT_SECONDS = 120.0
"""How long a request counts as somebody's presence, for browsers that follow no stream."""


class Presence:
    """Sets `is_watched` of a switchboard."""

    def __init__(self, board: Switchboard, recent_seconds: float = RECENT_SECONDS) -> None:
        self._board = board
        self._recent_seconds = recent_seconds
        self._streams = 0
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def note_request(self) -> None:
        """Somebody who was let in asked for something."""
        if self._is_closed:
            return
        self._board.is_watched = True
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._recent_seconds, self._forget)

    @contextmanager
    def following(self) -> Generator[None]:
        """A block in which a page is open and follows its stream."""
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1
            self.note_request()

    def close(self) -> None:
        """Nobody can answer any more."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._board.is_watched = False

    def _forget(self) -> None:
        self._timer = None
        self._board.is_watched = self._streams > 0
