"""The errors of tapes."""

from collections.abc import Sequence

from toolbus.core.values.errors import ToolbusError

NEW_EPISODES = "record it with mode='new_episodes', or --tape-mode new_episodes"
"""The next step for a call that a tape lacks."""
__all__ = ["TapeError", "TapeMismatch"]


class TapeError(ToolbusError):
    """A tape cannot be read or written; `path` is its file."""

    sent = False

    def __init__(self, path: object, problem: str, step: str) -> None:
        self.path, self.problem = str(path), problem
        super().__init__(f"tape {self.path}: {problem}; {step}")


class TapeMismatch(ToolbusError):
    """A call, or the answer to a question, is not on the tape that is replayed; nothing was sent.

    `nearest` is the id of the nearest recorded call, and `diff` how they differ, one line per difference.
    Fix: correct the call, ignore an argument with `Matching`, or record it with `mode="new_episodes"`.
    """

    sent = False

    def __init__(
        self,
        path: object,
        what: str,
        *,
        server: str,
        nearest: int | None = None,
        diff: Sequence[str] = (),
        step: str = NEW_EPISODES,
    ) -> None:
        self.path, self.what, self.server = str(path), what, server
        self.nearest, self.diff = nearest, tuple(diff)
        near = ""
        if nearest is not None:
            near = f"; the nearest recorded call is {nearest}: {', '.join(self.diff) or 'the same'}"
        super().__init__(f"{what} of server {server!r} is not on the tape {self.path}{near}; {step}")
