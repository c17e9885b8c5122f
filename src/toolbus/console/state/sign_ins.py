"""Sign-ins that a page has begun: where the person has to go, and what came of it."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from toolbus.bus.toolbus import Toolbus
from toolbus.connect.auth.browser import is_link
from toolbus.core.ask.interactions import LoginRequest
from toolbus.core.values.errors import ToolbusError, problem_of


@dataclass(slots=True)
class SignIn:
    """One sign-in, from the button to its end."""

    task: "asyncio.Task[None] | None" = None
    request: LoginRequest | None = None
    """Where to sign in; None while the server and its authorization server are asked."""
    problem: str | None = None
    """Why it failed."""
    pasted: "asyncio.Future[str | None]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    @property
    def is_waiting(self) -> bool:
        """Whether it has not ended."""
        return self.task is not None and not self.task.done()


class SignIns:
    """The sign-ins by server, at most one each; one that succeeded is forgotten."""

    def __init__(self, bus: Toolbus, changed: Callable[[], None]) -> None:
        self._bus = bus
        self._changed = changed
        self._by_server: dict[str, SignIn] = {}

    @property
    def now(self) -> Mapping[str, SignIn]:
        """Those that wait for a person, and those that failed."""
        return MappingProxyType(self._by_server)

    def begin(self, alias: str) -> None:
        """Begin to sign in; nothing if somebody already does."""
        known = self._by_server.get(alias)
        if known is not None and known.is_waiting:
            return
        started = self._by_server[alias] = SignIn()
        started.task = asyncio.create_task(self._run(alias, started), name=f"toolbus sign-in {alias}")
        self._changed()

    def paste(self, alias: str, url: str) -> bool:
        """Take the URL that a browser on another machine ended on; False if nobody waits for it."""
        return self._end(alias, url)

    def cancel(self, alias: str) -> bool:
        """End a sign-in; False if there is none."""
        known = self._by_server.get(alias)
        if known is not None and known.is_waiting and known.request is None and known.task is not None:
            return known.task.cancel()
        return self._end(alias, None)

    async def close(self) -> None:
        """Cancel all."""
        tasks = [one.task for one in self._by_server.values() if one.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _end(self, alias: str, url: str | None) -> bool:
        known = self._by_server.get(alias)
        if known is None or not known.is_waiting or known.pasted.done():
            return False
        known.pasted.set_result(url)
        return True

    async def _run(self, alias: str, started: SignIn) -> None:
        async def show(request: LoginRequest) -> str | None:
            if not is_link(request.url):
                started.problem = "its sign-in page is not an http or https URL"
                return None
            started.request = request
            self._changed()
            return await started.pasted

        try:
            await self._bus.sign_in(alias, show)
            del self._by_server[alias]
        except ToolbusError as error:
            started.problem = started.problem or problem_of(error)
        except asyncio.CancelledError:
            self._by_server.pop(alias, None)
            raise
        finally:
            self._changed()
