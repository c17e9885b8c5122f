"""The limits of a gateway."""

from dataclasses import dataclass

from toolbus.gateway.calls.queue import CallLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayLimits:
    """The limits of a gateway for its clients: sizes, numbers and times."""

    name: str = "toolbus"
    """Its name for clients."""
    max_sessions: int = 10_000
    """Sessions of legacy clients; one more ends the idlest one of the principal that has the most."""
    session_idle: float = 3600.0
    """Seconds after which a session that is not used ends."""
    calls: CallLimits | None = None
    """The maximum numbers of concurrent and waiting calls; None for one client alone."""
    max_parked: int = 1000
    """Calls that wait for an answer of a modern client, or that clients run as tasks (`max_tasks`)."""
    max_task_bytes: int = 256 * 1024 * 1024
    """Bytes of all of them: of their requests while they run, then of the results of tasks."""
    answer_within: float = 600.0
    """Seconds for a client to answer a question of a server."""
    task_seconds: float = 3600.0
    """Seconds for which a client can ask for a task, unless it wants fewer."""
    max_message: int = 16 * 1024 * 1024
    """Bytes of a message over stdio."""
    max_values: int = 100_000
    """JSON values of a message over stdio."""
    max_subscriptions: int = 10_000
    """Resources that all clients subscribe to."""
    max_streams: int = 10_000
    """Streams of modern clients that listen."""
    list_within: float = 8.0
    """Seconds, from the start, for which lists wait for servers of which nothing is known."""
    first_within: float = 0.0
    """Seconds for a first request: it is answered from known lists, and only then servers are started."""
    page: int = 1000
    """Entries on a page of a list."""
    ttl: float = 60.0
    """Seconds for which a modern client may keep a list, unless a server allows fewer."""
