"""Calls that are not on the tape, made to the servers after all: the mode `new_episodes`.

A second bus, without the config's shaping and policy, connects to the servers with the first such call. Its
calls are added to the tape. Its answers are given on as they are; a call that waits for answers is kept here
until the answers come.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, METHOD_NOT_FOUND

from toolbus.connect.in_flight import CURRENT
from toolbus.core.operation.events import OnLog
from toolbus.core.operation.operation import OnInput
from toolbus.core.text.encoding import as_sent, contents_json
from toolbus.core.values.elicitation import ELICITATION, Answer, Pending
from toolbus.core.values.records import JSON, Completion, Embedded, Progress, PromptResult, ToolResult
from toolbus.tape.matching import CallTarget

STATE = "live."
"""The beginning of the state of a call that waits for answers."""
_MOST_WAITING = 1_000


class RequestingBus(Protocol):
    """The part of a bus that repeats recorded requests."""

    async def read_resource(self, server: str, uri: str) -> tuple[Embedded, ...]: ...

    async def get_prompt(
        self, server: str, name: str, arguments: Mapping[str, str] | None = None
    ) -> PromptResult: ...

    async def complete(
        self,
        server: str,
        name: str,
        argument: str,
        value: str = "",
        *,
        known: Mapping[str, str] | None = None,
    ) -> Completion: ...


class LiveBus(RequestingBus, Protocol):
    """The part of a bus that makes these calls."""

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def call(
        self,
        name: str,
        arguments: Mapping[str, JSON] | None = None,
        *,
        on_progress: Progress | None = None,
        on_log: OnLog | None = None,
        on_input: OnInput = "ask",
    ) -> ToolResult: ...

    async def resume(
        self, pending: Pending, answers: Mapping[str, Answer] | Answer | None = None
    ) -> ToolResult: ...


class LiveServers:
    """The servers behind a tape."""

    def __init__(self, make: Callable[[], LiveBus]) -> None:
        self._make = make
        self._bus: LiveBus | None = None
        self._starting = asyncio.Lock()
        self._waiting: dict[str, Pending] = {}
        self._count = 0

    async def close(self) -> None:
        """Disconnect, if it is connected."""
        if self._bus is not None:
            await self._bus.close()

    async def _started(self) -> LiveBus:
        async with self._starting:
            if self._bus is None:
                bus = self._make()
                await bus.start()
                self._bus = bus
        return self._bus

    async def send(
        self,
        alias: str,
        target: CallTarget,
        arguments: Mapping[str, Any],
        options: CallOptions,
        on_log: Callable[[Mapping[str, JSON]], Awaitable[None]],
    ) -> dict[str, Any]:
        """Make a call; returns the answer as a modern server would send it."""
        bus, name = await self._started(), target.name
        match target.method:
            case "tools/call":
                in_flight = CURRENT.get()
                waits = in_flight is not None and (in_flight.suspends or in_flight.forwarding is not None)
                return self._answer(
                    await bus.call(
                        f"{alias}/{name}",
                        arguments,
                        on_progress=options.get("on_progress"),
                        on_log=lambda event: on_log(
                            {"level": event.level, "data": event.data, "logger": event.logger}
                        ),
                        on_input="suspend" if waits else "ask",
                    )
                )
            case "resources/read":
                return contents_json(ToolResult(content=await bus.read_resource(alias, name)))
            case "prompts/get":
                prompt = await bus.get_prompt(alias, name, arguments)
                content = tuple(message.content for message in prompt.messages)
                return dict(as_sent(ToolResult(content=content, value=prompt)))
            case "completion/complete":
                known = arguments.get("known")
                found = await bus.complete(
                    alias, name, arguments["argument"], arguments["value"], known=known
                )
                return dict(as_sent(ToolResult(value=found)))
            case _:
                raise MCPError(METHOD_NOT_FOUND, f"{target.method} is not on the tape")

    async def go_on(self, state: str, answers: Mapping[str, JSON]) -> dict[str, Any]:
        """Go on with a call that waits for answers."""
        pending = self._waiting.pop(state, None)
        if pending is None or self._bus is None:
            raise MCPError(INVALID_PARAMS, "this call does not wait for an answer")
        given = {
            key: Answer(action=answer["action"], content=answer.get("content"))
            for key, answer in answers.items()
            if pending.requests.get(key, {}).get("method") == ELICITATION
        }
        return self._answer(await self._bus.resume(pending, given))

    def _answer(self, result: ToolResult) -> dict[str, Any]:
        pending = result.pending
        if pending is None:
            return dict(as_sent(result))
        self._count += 1
        state = f"{STATE}{self._count}"
        self._waiting[state] = pending
        while len(self._waiting) > _MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]
        requests = dict(pending.requests)
        return {"resultType": "input_required", "inputRequests": requests, "requestState": state}
