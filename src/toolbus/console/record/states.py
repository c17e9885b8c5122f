"""The states of servers over the last 24 hours, and which of them crash again and again."""

import time
from collections import deque
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import NamedTuple, get_args

from toolbus.audit.history.read import RecordedState
from toolbus.core.operation.events import StateChanged
from toolbus.core.values.records import State

DAY = 86_400.0
MOST_CHANGES = 500
"""Changes that are kept of a server; one that crashes all the time has more."""
MOST_SERVERS = 1_000
CRASHES, CRASHED_WITHIN = 3, 600.0
"""The number of crashes, and the seconds, that make a crash loop, even if the server is ready now."""
LONGEST_ERROR = 300
_LOST = ("retrying", "failed")
_STATES: dict[str, State] = {state: state for state in get_args(State)}


class StateChange(NamedTuple):
    """A server entered a state."""

    at: float
    state: State | None
    """None if nobody knows what followed: the process that watched it ended."""
    is_crash: bool = False
    """Whether it was ready, and was lost."""
    error: str = ""


def changes_of(recorded: Iterable[RecordedState]) -> list[StateChange]:
    """The changes of one server that a history has, oldest first."""
    changes, previous = list[StateChange](), ""
    for one in recorded:
        state = _STATES.get(one.state)
        is_crash = previous == "ready" and one.state in _LOST and bool(one.error)
        changes.append(StateChange(one.at, state, is_crash, one.error))
        previous = one.state
    return changes


class StateSpan(NamedTuple):
    """A server was in a state from then to then."""

    start: float
    end: float
    state: State | None


class ServerStates:
    """The changes of each server, the oldest first."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._changes: dict[str, deque[StateChange]] = {}

    def note(self, event: StateChanged) -> StateChange:
        """Remember that a link entered another state."""
        is_crash = event.previous == "ready" and event.state in _LOST and bool(event.error)
        change = StateChange(event.at, event.state, is_crash, (event.error or "")[:LONGEST_ERROR])
        self._of(event.server).append(change)
        return change

    def begin(self, server: str, state: State, since: float) -> None:
        """The state in which a server is found."""
        self._of(server).append(StateChange(since, state))

    def add_earlier(self, server: str, earlier: Iterable[StateChange]) -> None:
        """Put changes that a history has before those that are known."""
        known = self._of(server)
        first = known[0].at if known else self._clock()
        before = [change for change in earlier if change.at < first]
        room = MOST_CHANGES - len(known)
        known.extendleft(reversed(before[-room:] if room else []))

    def crashes(self, server: str, within: float = 3600.0) -> list[StateChange]:
        """The crashes of the last seconds, the oldest first."""
        since = self._clock() - within
        return [one for one in self._changes.get(server, ()) if one.is_crash and one.at >= since]

    def is_crash_looping(self, server: str) -> bool:
        """Whether a server crashed 3 times within the last 10 minutes; then it is not fine, though ready."""
        return len(self.crashes(server, CRASHED_WITHIN)) >= CRASHES

    def spans(self, server: str, within: float = DAY) -> list[StateSpan]:
        """The states of the last seconds, the oldest first; what nobody knows has the state None."""
        now = self._clock()
        since = now - within
        changes = list(self._changes.get(server, ()))
        ends = [after.at for _, after in pairwise(changes)] + [now] * bool(changes)
        spans = [
            StateSpan(max(change.at, since), end, change.state)
            for change, end in zip(changes, ends, strict=True)
            if end > since
        ]
        begins = spans[0].start if spans else now
        return [StateSpan(since, begins, None), *spans] if begins > since else spans

    def forget_others(self, servers: Iterable[str]) -> None:
        """Forget servers that are not in the config any more."""
        for gone in self._changes.keys() - set(servers):
            del self._changes[gone]

    def _of(self, server: str) -> deque[StateChange]:
        found = self._changes.get(server)
        if found is None:
            if len(self._changes) >= MOST_SERVERS:
                del self._changes[next(iter(self._changes))]
            found = self._changes[server] = deque(maxlen=MOST_CHANGES)
        return found
