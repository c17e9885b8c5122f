"""The script: keeps all requests, and gives the turn that answers each."""

import json
import time
from collections.abc import Callable, Sequence
from threading import Lock

from tests.wire.answer import Answer, Call
from tests.wire.asked import Asked
from tests.wire.turn import Fault, Say, Turn, spelt_out

REFUSED = 400
"""A status that no client tries again: a retry would play the next turn of the script."""


class Script:
    """Turns played in order, or made by a function; safe to look at from any thread."""

    def __init__(self, turns: Sequence[Turn] | Callable[[Asked], Turn]) -> None:
        self._function = turns if callable(turns) else None
        self._turns = () if callable(turns) else tuple(turns)
        for turn in self._turns:
            spelt_out(turn)  # a mistake shows where the script is written
        self._lock = Lock()
        self._asked: list[Asked] = []
        self._played = 0
        self.called: dict[str, str] = {}
        """The names of the calls made so far, by id."""

    @property
    def asked(self) -> list[Asked]:
        """Every request so far, in order."""
        with self._lock:
            return list(self._asked)

    @property
    def left(self) -> list[Turn]:
        """The turns not yet played."""
        with self._lock:
            return list(self._turns[self._played :])

    def answer(self, asked: Asked) -> Answer | Fault:
        """The next turn, as the answer to this request."""
        with self._lock:
            self._asked.append(asked)
            number = len(self._asked)
        turn = spelt_out(self._function(asked) if self._function else self._next())
        if isinstance(turn, Fault) and not turn.breaks:
            return turn
        return Answer(
            asked=asked,
            number=number,
            created=int(time.time()),
            text=turn.text,
            calls=self._calls(turn) if isinstance(turn, Say) else (),
            breaks=isinstance(turn, Fault),
        )

    def _next(self) -> Turn:
        with self._lock:
            if self._played == len(self._turns):
                scripted = len(self._turns)
                return Fault(REFUSED, f"the script is used up: {scripted} turns were scripted, no more")
            self._played += 1
            return self._turns[self._played - 1]

    def _calls(self, turn: Say) -> tuple[Call, ...]:
        calls: list[Call] = []
        for call in turn.calls:
            text = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
            made = Call(id=f"call_{len(self.called) + 1}", name=call.name, arguments=text)
            self.called[made.id] = made.name
            calls.append(made)
        return tuple(calls)
