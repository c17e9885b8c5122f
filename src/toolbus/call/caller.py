"""Take a call to the server its tool comes from, and bring the result back."""

import inspect
import time
from collections.abc import Awaitable, Mapping, Sequence
from itertools import count
from typing import Any

from toolbus.call.hooks import Call, Hook, Progress, onion
from toolbus.connect import Link, Session
from toolbus.errors import ArgumentsError, ServerDown, ToolbusError
from toolbus.events import CallEnded, CallStarted, Hub, Progressed
from toolbus.records import ToolResult, ToolSpec


class Caller:
    """Calls tools; knows the links and the hooks, not the catalog."""

    def __init__(self, links: Mapping[str, Link], hub: Hub, hooks: Sequence[Hook] = ()) -> None:
        self._links = links
        self._hub = hub
        self._ids = count(1)
        self._through = onion(hooks, self._sent)

    async def call(self, call: Call) -> ToolResult:
        """The tool's result; `ToolbusError` if the call could not be made."""
        if not isinstance(call.arguments, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # users pass what they like
            kind = type(call.arguments).__name__
            raise ArgumentsError(
                f"tool {call.spec.name!r}", f"must be a mapping of names to values, not {kind}"
            )
        for key in call.arguments:
            if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # likewise
                raise ArgumentsError(f"tool {call.spec.name!r}", f"names must be strings, not {key!r}")
        result = await self._through(call)
        if not isinstance(result, ToolResult):  # pyright: ignore[reportUnnecessaryIsInstance]  # a hook's
            raise TypeError(f"a hook returned {type(result).__name__}, not a ToolResult")
        return result

    async def _sent(self, call: Call) -> ToolResult:
        if self._hub.heard:
            return await self._told(call)
        progress = call.on_progress
        return await self._through_link(call, None if progress is None else _Reporter(call, progress))

    async def _through_link(self, call: Call, report: "_Reporter | None") -> ToolResult:
        origin = call.spec.origin
        link = self._links.get(origin.server)
        if link is None:
            raise ServerDown(origin.server, "closed", "it was removed from the bus")

        def send(session: Session, timeout: float) -> Awaitable[ToolResult]:
            return session.call_tool(origin.tool, call.arguments, timeout=timeout, on_progress=report)

        timeout = link.config.timeouts.call if call.timeout is None else call.timeout
        return await link.request(send, timeout, repeatable=_repeatable(call.spec))

    async def _told(self, call: Call) -> ToolResult:
        """As `_sent`, with its events."""
        spec, number, began = call.spec, next(self._ids), time.perf_counter()
        facts: Any = {
            "id": number,
            "name": spec.name,
            "server": spec.origin.server,
            "tool": spec.origin.tool,
        }
        self._hub.emit(CallStarted(**facts))
        failed, message = True, "cancelled"
        try:
            result = await self._through_link(call, _Reporter(call, call.on_progress, self._hub, number))
            failed, message = result.is_error, None
        except ToolbusError as error:
            message = str(error)
            raise
        finally:
            elapsed = (time.perf_counter() - began) * 1000
            self._hub.emit(CallEnded(**facts, elapsed_ms=elapsed, is_error=failed, error=message))
        return result


def _repeatable(spec: ToolSpec) -> bool:
    """Whether the server says that a second call does no harm."""
    return spec.annotations.get("readOnlyHint") is True or spec.annotations.get("idempotentHint") is True


class _Reporter:
    """Hands the progress of a call to its caller and to the listeners."""

    def __init__(self, call: Call, report: Progress | None, hub: Hub | None = None, number: int = 0) -> None:
        self._name = call.spec.name
        self._report = report
        self._hub = hub
        self._number = number

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        if self._hub is not None:
            self._hub.emit(
                Progressed(id=self._number, name=self._name, progress=progress, total=total, message=message)
            )
        if self._report is not None:
            waiting = self._report(progress, total, message)
            if inspect.isawaitable(waiting):
                await waiting
