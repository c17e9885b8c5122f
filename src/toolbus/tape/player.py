"""The player of a tape: an index of its calls, and how often each was repeated.

The recorded answers to identical calls come in their order; the last one is repeated. One player serves all
links of a bus.
"""

from array import array
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar, cast

from toolbus.core.values.records import JSON, JSONObject
from toolbus.core.values.tape_errors import NEW_EPISODES, TapeMismatch
from toolbus.tape.format import RecordedCall, Tape
from toolbus.tape.matching import CallTarget, Matching, differences, fits_masked
from toolbus.tape.privacy import Privacy, has_mask

_MOST_COMPARED = 200
"""Calls of a tool that are compared to find the nearest."""
_MOST_DIFFERENCES = 5
_MOST_MISMATCHES = 20
"""Mismatches that are remembered."""
if TYPE_CHECKING:
    from toolbus.tape.live import LiveServers

T = TypeVar("T")


class TapePlayer:
    """Finds the recorded call for each call."""

    def __init__(self, tape: Tape, matching: Matching | None = None, privacy: Privacy | None = None) -> None:
        self.tape = tape
        self.matching = matching or Matching()
        self.privacy = privacy or Privacy()
        self.live: LiveServers | None = None
        """The servers for calls that are not on the tape."""
        self._ids: dict[int, int | array[int]] = {}
        """By key: the id of the call; or how many were played, and the ids."""
        self._masked = array("L")
        """The calls whose arguments had secrets."""
        self._goes_on: dict[int, list[int]] = {}
        """The calls that go on with a suspended one."""
        self._next: dict[str, int] = {}
        """The next call of each server, by position, if they must come in order."""
        self._in_order: dict[str, array[int]] = {}
        self.played = bytearray(tape.last_id + 1)
        """By id: whether a call was played."""
        self.mismatches: deque[TapeMismatch] = deque(maxlen=_MOST_MISMATCHES)
        """The last ones."""
        for call in tape.calls():
            self.add(call)

    def add(self, call: RecordedCall) -> None:
        """Index one more call."""
        if call.resumes is not None:
            self._goes_on.setdefault(call.resumes, []).append(call.id)
            return
        if has_mask(call.arguments):
            self._masked.append(call.id)
        if self.matching.in_order:
            self._in_order.setdefault(call.server, array("L")).append(call.id)
        key = self.matching.key(call.server, call.method, call.name, call.arguments)
        known = self._ids.get(key)
        if known is None:
            self._ids[key] = call.id
        elif isinstance(known, int):
            self._ids[key] = array("L", [0, known, call.id])
        else:
            known.append(call.id)

    def recorded(self, value: T) -> T:
        """A value as a tape has it."""
        return cast("T", self.privacy.recorded(cast("JSON", value)))

    def shown(self, value: T) -> T:
        """A value of the tape as it is on this machine."""
        if not self.tape.has_placeholders:
            return value
        return cast("T", self.privacy.replayed(cast("JSON", value)))

    def find(self, target: CallTarget, arguments: JSONObject) -> RecordedCall | None:
        """The recorded call, played once more; None if the tape has none.

        `TapeMismatch` if the calls must come in order, and it is not the next one.
        """
        found = self._find(target, self.recorded(arguments))
        if found is not None:
            self.played[found.id] = 1
        return found

    def _find(self, target: CallTarget, given: JSONObject) -> RecordedCall | None:
        if self.matching.in_order:
            return self._find_next(target, given)
        id_ = self._take(self.matching.key(*target, given))
        if id_ is not None:
            return self.tape.call(id_)
        for masked in self._masked:
            call = self.tape.call(masked)
            if self._is_of(call, target) and fits_masked(
                self.matching.compared(call.arguments), self.matching.compared(given)
            ):
                taken = self._take(self.matching.key(*target, call.arguments))
                return call if taken is None else self.tape.call(taken)
        return None

    def _take(self, key: int) -> int | None:
        known = self._ids.get(key)
        if known is None or isinstance(known, int):
            return known
        if known[0] < len(known) - 1:
            known[0] += 1
        return known[known[0]]

    def _find_next(self, target: CallTarget, given: JSONObject) -> RecordedCall | None:
        order = self._in_order.get(target.server, array("L"))
        position = self._next.get(target.server, 0)
        if position >= len(order):
            return None
        call = self.tape.call(order[position])
        if not self._is_of(call, target) or not fits_masked(
            self.matching.compared(call.arguments), self.matching.compared(given)
        ):
            what = f"{target} as call {position + 1}"
            raise self._mismatch(
                what,
                target,
                nearest=call.id,
                diff=self._diff(call, target, given),
                step="the calls must come in the recorded order",
            )
        self._next[target.server] = position + 1
        return call

    # Questions

    def going_on(self, call: RecordedCall) -> Iterator[RecordedCall]:
        """The calls that go on with a suspended one."""
        return map(self.tape.call, self._goes_on.get(call.id, ()))

    def alike(self, call: RecordedCall) -> Iterator[RecordedCall]:
        """All calls with the same target and arguments, this one first."""
        yield call
        known = self._ids.get(self.matching.key(call.server, call.method, call.name, call.arguments))
        if known is not None and not isinstance(known, int):
            yield from (self.tape.call(id_) for id_ in known[1:] if id_ != call.id)

    def is_same_answer(self, recorded: JSON, given: JSON) -> bool:
        """Whether an answer is the recorded one; of several answers, those that were recorded count."""
        return fits_masked(recorded, self.privacy.recorded(given))

    # What is not on the tape

    def miss(self, target: CallTarget, arguments: JSONObject) -> TapeMismatch:
        """The error for a call that is not on the tape, with the nearest one that is."""
        given = self.recorded(arguments)
        nearest: tuple[int, int, RecordedCall] | None = None
        compared = 0
        for call in self.tape.calls():
            if call.server != target.server or call.method != target.method or call.resumes is not None:
                continue
            if call.name == target.name:
                compared += 1
            distance = (call.name != target.name) * 1_000 + len(self._diff(call, target, given, most=1_000))
            if nearest is None or distance < nearest[0]:
                nearest = distance, call.id, call
            if compared >= _MOST_COMPARED:
                break
        if nearest is None:
            return self._mismatch(str(target), target)
        call = nearest[2]
        what = f"this call of {target}" if call.name == target.name else str(target)
        diff = self._diff(call, target, given)
        return self._mismatch(what, target, nearest=call.id, diff=diff)

    def wrong_answer(
        self, call: RecordedCall, target: CallTarget, recorded: JSON, given: JSON
    ) -> TapeMismatch:
        """The error for another answer than the recorded one."""
        diff = tuple(differences(recorded, self.privacy.recorded(given)))[:_MOST_DIFFERENCES]
        what = f"this answer to a question of {target}"
        return self._mismatch(what, target, nearest=call.id, diff=diff)

    def _mismatch(
        self,
        what: str,
        target: CallTarget,
        *,
        nearest: int | None = None,
        diff: tuple[str, ...] = (),
        step: str = NEW_EPISODES,
    ) -> TapeMismatch:
        error = TapeMismatch(
            self.tape.path, what, server=target.server, nearest=nearest, diff=diff, step=step
        )
        self.mismatches.append(error)
        return error

    def _diff(
        self, call: RecordedCall, target: CallTarget, given: JSONObject, most: int = _MOST_DIFFERENCES
    ) -> tuple[str, ...]:
        named = (
            () if call.name == target.name else (f"name: {call.name!r} was recorded, not {target.name!r}",)
        )
        found = differences(self.matching.compared(call.arguments), self.matching.compared(given))
        lines = (*named, *found)
        more = len(lines) - most
        return lines if more <= 0 else (*lines[:most], f"{more} more differences")

    def _is_of(self, call: RecordedCall, target: CallTarget) -> bool:
        return (call.server, call.method, call.name) == target
