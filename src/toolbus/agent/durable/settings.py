"""The store of durable runs, and the way its workers share them."""

import re
from dataclasses import dataclass, field
from pathlib import Path

JOURNAL_VERSION = "toolbus-journal-2"
"""Changes when a run that one version of toolbus began cannot be continued by another one."""
_QUEUE = "toolbus."
_POSTGRES = re.compile(r"postgres(ql)?(\+\w+)?://")


@dataclass(frozen=True, slots=True, kw_only=True)
class Durable:
    """The settings of durable runs; `Agent(durable="runs.db")` is short for `Durable(store="runs.db")`."""

    store: str = field(repr=False)  # a URL may hold a password
    """The path of a SQLite file, or a `postgresql://` URL."""
    agent: str = "agent"
    """The name of the agent: only workers with an agent of this name continue its runs."""
    version: str | None = None
    """If set, only workers with the same version continue the agent's runs."""
    beat: float = 5.0
    """Seconds between two heartbeats of a worker."""
    missed: int = 4
    """The number of missed heartbeats after which a worker is declared dead, and others continue its runs."""
    poll: float = 0.2
    """Seconds between two looks for new runs."""
    at_once: int | None = None
    """The maximum number of concurrent runs of a worker, including waiting ones; None for no limit."""
    answer_within: float | None = None
    """Seconds to wait for an answer, None for any time; then the call is refused, and the run continues."""
    drain: float = 30.0
    """Seconds that a worker that is closed waits for calls in flight; then their outcome is unknown."""

    def __post_init__(self) -> None:
        if not self.store:
            raise ValueError("durable needs the path of a SQLite file, or a postgresql:// URL")
        if not re.fullmatch(r"[\w.-]+", self.agent):
            raise ValueError(
                f"the name of a durable agent has letters, digits, '.', '_' and '-', not {self.agent!r}"
            )
        if self.answer_within is not None and not self.answer_within > 0:
            raise ValueError("answer_within must be more than 0 seconds, or None")
        if self.version is not None and not re.fullmatch(r"[\w.+-]+", self.version):
            raise ValueError(
                f"the version of a durable agent has letters, digits, '.', '_', '+' and '-', "
                f"not {self.version!r}"
            )
        if not self.beat > 0 or not self.poll > 0 or self.missed < 1:
            raise ValueError("beat and poll must be more than 0 seconds, and missed 1 or more")

    @property
    def url(self) -> str:
        """The store as a URL."""
        if _POSTGRES.match(self.store):
            return _POSTGRES.sub("postgresql+psycopg://", self.store, count=1)
        path = self.store.removeprefix("sqlite:///")
        if "://" in path:
            raise ValueError(
                f"durable must be a path or a postgresql:// URL, not {path.partition('://')[0]}://"
            )
        return f"sqlite:///{Path(path).expanduser().absolute()}"

    @property
    def file(self) -> Path | None:
        """The SQLite file; None if the store is a server."""
        return None if _POSTGRES.match(self.store) else Path(self.url.removeprefix("sqlite:///"))

    @property
    def queue(self) -> str:
        """The queue for all runs of this agent, or for its version's runs."""
        return queue_of(self.agent, self.version)


def queue_of(agent: str, version: str | None) -> str:
    """The queue of an agent's runs; those that are pinned to a version have a queue of their own."""
    return f"{_QUEUE}{agent}" if version is None else f"{_QUEUE}{agent}@{version}"


def named(queue: str) -> str:
    """The agent of a queue, and its version if it has one: `orders`, or `orders@2`."""
    return queue.removeprefix(_QUEUE)
