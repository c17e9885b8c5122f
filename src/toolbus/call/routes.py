"""The routes of operations: to a tool, a resource, a prompt, a completion or a task of a server."""

import inspect
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Protocol, TypeAlias

from toolbus.call.skills import SkillReader, SkillRequests
from toolbus.call.tasks import TaskPoller, TaskRequests
from toolbus.core.operation.operation import (
    CallInFlight,
    ObservedOperation,
    Operation,
    OperationTenant,
    Route,
)
from toolbus.core.values.errors import ArgumentsError, ServerDown, ServerNotFound
from toolbus.core.values.records import (
    OWN,
    Block,
    Completion,
    Embedded,
    Progress,
    PromptResult,
    TaskState,
    Text,
    ToolResult,
    ToolSpec,
    marks_read_only,
)
from toolbus.core.values.skills import READ_SKILL
from toolbus.shape.as_tools import prompt_name, resource_list


class ServerRequests(TaskRequests, SkillRequests, Protocol):
    """The requests to one server, over its link."""

    def call_tool(
        self,
        operation: Operation,
        in_flight: CallInFlight,
        *,
        repeatable: bool,
    ) -> Awaitable[ToolResult | TaskState]: ...

    async def read_resource(
        self, operation: Operation, uri: str, size: Callable[[], int | None]
    ) -> tuple[Embedded, ...]: ...

    async def get_prompt(
        self, operation: Operation, name: str, check: Callable[[], None]
    ) -> PromptResult: ...

    async def complete(self, operation: Operation) -> Completion: ...

    async def forward(self, operation: Operation, in_flight: CallInFlight) -> ToolResult: ...

    @property
    def send_legacy(self) -> "Callable[[Operation, SendOver], Awaitable[ToolResult]]": ...


SendOver: TypeAlias = Callable[[ServerRequests], Awaitable[ToolResult]]
"""Sends an operation over a link of its server."""


class ServerRoutes:
    """The routes to the servers of the tenant of an operation."""

    @property
    def table(self) -> dict[str, Route]:
        """The routes by name: MCP methods, and toolbus's own."""
        return {
            "tools/call": self._call_tool,
            "resources/read": self._read_resource,
            "prompts/get": self._get_prompt,
            "completion/complete": self._complete,
            "tasks/get": self._task_state,
            "tasks/update": self._forward,
            "tasks/cancel": self._cancel_task,
            "toolbus/list_resources": self._list_resources,
            READ_SKILL: SkillReader(self._server).read,
        }

    def _server(self, operation: Operation) -> ServerRequests:
        alias, allowed, servers = operation.server, operation.servers, _tenant(operation).requests
        if allowed is None or alias in allowed:
            with suppress(KeyError):  # not by `in`: a link may be built when it is looked up
                return servers[alias]
        if operation.spec.origin.server == OWN:  # the name comes from a model
            raise ServerNotFound(alias, [known for known in servers if allowed is None or known in allowed])
        raise ServerDown(alias, "closed", "it was removed from the bus")

    async def _call_tool(self, operation: Operation, server: ServerRequests | None = None) -> ToolResult:
        """Call a tool; if the server runs it as a task, poll the task until it is done."""
        spec, resumed = operation.spec, operation.resumed
        assert operation.tenant is not None, "an operation is made through a view"
        if server is None:
            server = operation.tenant.requests.get(spec.origin.server)
            if server is None:
                server = self._server(operation)
            if operation.prefers_legacy:
                return await server.send_legacy(operation, partial(self._call_tool, operation))
        observed = operation.observed
        # What the caller asks for is told to all observers; for those that ignore it, nothing is asked for.
        if observed is not None and operation.on_progress is None and not observed.follows_progress:
            observed = None
        in_flight = CallInFlight(
            tool=spec.origin.tool,
            operation_id=operation.id,
            caller=operation.caller,
            on_progress=None
            if operation.on_progress is None and observed is None
            else _Reporter(operation.on_progress, observed),
            on_log=operation.on_log,
            suspends=operation.on_input == "suspend",
            max_timeout=server.max_timeout if operation.max_timeout is None else operation.max_timeout,
            policies=operation.policies,
            forwarding=operation.forwarding,
            people=operation.people,
            clock=operation.clock,
        )
        if resumed is not None and resumed.pending.task is not None:
            _begin_task(operation)
            return await TaskPoller(server, in_flight, operation).resume(resumed)
        answer = await server.call_tool(operation, in_flight, repeatable=repeatable(spec))
        if isinstance(answer, ToolResult):
            return answer
        _begin_task(operation)
        return await TaskPoller(server, in_flight, operation).poll(answer)

    async def _read_resource(self, operation: Operation) -> ToolResult:
        if operation.forwarding is not None:
            return await self._forward(operation)
        alias, uri, server = operation.server, operation.arguments["uri"], self._server(operation)

        def size() -> int | None:
            listed = _tenant(operation).inventories[alias].resources
            return next((item.size for item in listed if item.uri == uri and item.size), None)

        return ToolResult(content=await server.read_resource(operation, uri, size))

    async def _get_prompt(self, operation: Operation) -> ToolResult:
        if operation.forwarding is not None:
            return await self._forward(operation)
        alias, name, server = operation.server, prompt_name(operation.spec), self._server(operation)

        def check() -> None:
            listed = (
                prompt for prompt in _tenant(operation).inventories[alias].prompts if prompt.name == name
            )
            needed = [a.name for prompt in listed for a in prompt.arguments if a.required]
            missing = [repr(argument) for argument in needed if operation.arguments.get(argument) is None]
            if missing:
                raise ArgumentsError(f"prompt {name!r}", f"no value for {' and '.join(missing)}")

        for argument, value in operation.arguments.items():
            if not isinstance(value, str | None):
                kind = type(value).__name__
                raise ArgumentsError(f"prompt {name!r}", f"{argument!r} must be a string, not {kind}")
        prompt = await server.get_prompt(operation, name, check)
        return ToolResult(
            content=_prompt_blocks(prompt, roles=bool(operation.spec.input_schema)), value=prompt
        )

    async def _complete(self, operation: Operation) -> ToolResult:
        if operation.forwarding is not None:
            return await self._forward(operation)
        return ToolResult(value=await self._server(operation).complete(operation))

    async def _task_state(self, operation: Operation) -> ToolResult:
        if operation.forwarding is not None:
            return await self._forward(operation)
        server = self._server(operation)
        return ToolResult(value=await server.task_state(operation.arguments["task"]))

    async def _cancel_task(self, operation: Operation) -> ToolResult:
        if operation.forwarding is not None:
            return await self._forward(operation)
        await self._server(operation).cancel_task(operation.arguments["task"])
        return ToolResult()

    async def _forward(self, operation: Operation, server: ServerRequests | None = None) -> ToolResult:
        """A request other than a tool call, for an MCP client."""
        if server is None:
            server = self._server(operation)
            if operation.prefers_legacy:
                return await server.send_legacy(operation, partial(self._forward, operation))
        reports = operation.on_progress
        in_flight = CallInFlight(
            tool=None,
            operation_id=operation.id,
            caller=operation.caller,
            on_progress=None if reports is None else _Reporter(reports, None),
            on_log=operation.on_log,
            policies=operation.policies,
            forwarding=operation.forwarding,
            people=operation.people,
            clock=operation.clock,
        )
        return await server.forward(operation, in_flight)

    async def _list_resources(self, operation: Operation) -> ToolResult:
        allowed, server = operation.servers, operation.arguments.get("server")
        inventories = {
            alias: inventory
            for alias, inventory in _tenant(operation).listed(operation).items()
            if allowed is None or alias in allowed
        }
        if server is not None and server not in inventories:
            return ToolResult.failure(f"unknown server {server!r}; known servers: {', '.join(inventories)}")
        found = resource_list(inventories, inventories if server is None else [server])
        return ToolResult(content=(Text(text=json.dumps(found, indent=1)),), structured=found)


def _tenant(operation: Operation) -> OperationTenant:
    assert operation.tenant is not None, "an operation is made through a view"
    return operation.tenant


def _begin_task(operation: Operation) -> None:
    if operation.clock is not None:
        operation.clock.enter("task")


def _prompt_blocks(prompt: PromptResult, *, roles: bool) -> tuple[Block, ...]:
    """The content of the messages; with `roles`, each follows its role unless all are the user's."""
    roles = roles and any(message.role == "assistant" for message in prompt.messages)
    blocks: list[Block] = []
    for message in prompt.messages:
        if roles:
            blocks.append(Text(text=f"[{message.role}]"))
        blocks.append(message.content)
    return tuple(blocks)


def repeatable(spec: ToolSpec) -> bool:
    """Whether the server declares that repeating a call is safe."""
    return marks_read_only(spec.annotations) or spec.annotations.get("idempotentHint") is True


class _Reporter:
    """Reports the progress of a call to its caller and to the observers."""

    def __init__(self, on_progress: Progress | None, observed: ObservedOperation | None) -> None:
        self._on_progress = on_progress
        self._observed = observed

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        if self._observed is not None:
            self._observed.progress(progress, total, message)
        if self._on_progress is not None:
            outcome = self._on_progress(progress, total, message)
            if inspect.isawaitable(outcome):
                await outcome
