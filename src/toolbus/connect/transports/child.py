"""What the process of a server is to its owner, however it was started."""

import asyncio
from typing import Protocol


class ChildEvents(Protocol):
    """Receives what happens to a process, as `asyncio.SubprocessProtocol` does."""

    def pipe_data_received(self, fd: int, data: bytes) -> None: ...

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None: ...

    def process_exited(self, code: int | None) -> None:
        """It ended, with its exit code, or with the negative signal that killed it."""
        ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


class Child(Protocol):
    """A process that was started, and its descendants."""

    @property
    def pid(self) -> int: ...

    @property
    def stdin(self) -> asyncio.WriteTransport: ...

    def terminate(self) -> bool:
        """Ask it and its descendants to end; returns whether any may be left."""
        ...

    def kill(self) -> bool:
        """Kill it and its descendants; returns whether any may be left."""
        ...

    async def wait_gone(self) -> None:
        """Wait until none is left; the caller sets a timeout."""
        ...

    def close(self) -> None:
        """Close its pipes; what is left of it is no longer observed."""
        ...
