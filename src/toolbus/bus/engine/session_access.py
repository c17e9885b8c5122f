"""The way of one session to a bus: that of its user, until the session ends."""

from collections.abc import Coroutine
from typing import Any, TypeVar

from toolbus.bus.engine.engine import Access
from toolbus.config import BusConfig
from toolbus.core.loop import OwnerLoop
from toolbus.core.values.errors import BusClosed

T = TypeVar("T")


class SessionAccess:
    """Runs work on the loop of a bus until the session ends."""

    def __init__(self, name: str, parent: Access) -> None:
        """`parent` is the way of the user, or of the bus itself."""
        self._name = name
        self._parent = parent
        self.ended = False

    @property
    def config(self) -> BusConfig:
        """The config in use."""
        return self._parent.config

    @property
    def installed(self) -> bool:
        """Whether the links exist that are not built when they are first needed."""
        return self._parent.installed

    @property
    def running(self) -> bool:
        """Whether calls can be made."""
        return self._parent.running and not self.ended

    @property
    def loop(self) -> OwnerLoop:
        """The loop of the bus; `BusClosed` if the bus is not running or the session has ended."""
        loop = self._parent.loop
        if self.ended:
            raise BusClosed(f"the session {self._name!r}")
        return loop

    def check_process(self) -> None:
        """Raise `BusClosed` if the bus was started before this process was forked."""
        self._parent.check_process()

    def check_running(self) -> None:
        """Raise `BusClosed` if the bus is not running or the session has ended."""
        _ = self.loop

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop of the bus, from any task, thread or loop."""
        self._check(work)
        return await self._parent.run(work)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine from a thread without a loop; RuntimeError if it would never return."""
        self._check(work)
        return self._parent.wait(work)

    def _check(self, work: Coroutine[Any, Any, Any]) -> None:
        try:
            self.check_running()
        except BusClosed:
            work.close()
            raise
