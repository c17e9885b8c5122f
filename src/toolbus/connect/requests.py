"""The requests to one server over its link: tools, resources, prompts, completion, tasks."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TypeVar, cast

import mcp_types as types

from toolbus.connect.forward import forward
from toolbus.connect.link import Link
from toolbus.connect.sdk import wire
from toolbus.connect.sdk.fast_call import send_raw
from toolbus.connect.session import ServerSession
from toolbus.connect.tool_call import call_tool
from toolbus.core.operation.operation import CallInFlight, Operation
from toolbus.core.values.elicitation import Answer
from toolbus.core.values.errors import CallTimeout, ResourceTooLarge, SkillRejected
from toolbus.core.values.records import (
    JSON,
    Completion,
    Embedded,
    JSONObject,
    PromptResult,
    TaskState,
    ToolResult,
    received_of,
)
from toolbus.core.values.skills import SKILLS, InvalidSkill, Skill, skill_of

T = TypeVar("T")


class LinkRequests:
    """The requests to one server."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self.alias = link.config.alias
        self.timeout = link.config.timeouts.call
        self.max_timeout = link.config.timeouts.max
        self.most_tasks = link.config.limits.tasks
        self.question_limit = link.handler.question_limit
        """The maximum number of questions from the server in one call."""
        self.check: Callable[[Operation], None] | None = None
        """Raises to refuse an operation; it is called once the server has listed what it offers."""
        self.send_legacy: Callable[
            [Operation, Callable[[LinkRequests], Awaitable[ToolResult]]], Awaitable[ToolResult]
        ] = lambda operation, send: send(self)
        """Sends an operation of a legacy client: over another link, if the server has two."""
        self.following = 0
        """The number of tasks being polled."""

    # A plain function: a coroutine less on the way of every call.
    def call_tool(
        self, operation: Operation, in_flight: CallInFlight, *, repeatable: bool
    ) -> Awaitable[ToolResult | TaskState]:
        """Call a tool, or resume a suspended call; the server may turn it into a task."""
        check = self.check

        def send(session: ServerSession, timeout: float) -> Awaitable[ToolResult | TaskState]:
            if check is not None:
                check(operation)
            if in_flight.forwarding is not None:
                return forward(session, in_flight, operation, timeout)
            return call_tool(session, in_flight, operation.arguments, timeout, operation.resumed)

        timeout = self.timeout if operation.timeout is None else operation.timeout
        return self._link.request(
            send, timeout, repeatable=repeatable, reconnect_timeout=operation.reconnect_timeout
        )

    async def forward(self, operation: Operation, in_flight: CallInFlight) -> ToolResult:
        """A request other than a tool call for an MCP client."""

        async def send(session: ServerSession, timeout: float) -> ToolResult:
            if self.check is not None and operation.route == "prompts/get":
                self.check(operation)
            if (kept := session.reads.get(operation)) is not None:
                return kept
            version = session.reads.version
            result = await forward(session, in_flight, operation, timeout)
            assert isinstance(result, ToolResult), "only a tool call becomes a task"
            received = received_of(result)
            if session.era == "modern" and result.pending is None and received is not None:
                session.reads.put(operation, result, received.json, version)
            return result

        return await self._request(send, operation, repeatable=operation.route != "tasks/update")

    async def read_resource(
        self, operation: Operation, uri: str, size: Callable[[], int | None]
    ) -> tuple[Embedded, ...]:
        """Read a resource; `ResourceTooLarge` if it is, or declares to be, larger than the config allows."""

        async def send(session: ServerSession, timeout: float) -> tuple[Embedded, ...]:
            if self.check is not None:
                self.check(operation)
            limit = session.config.resource_limit
            if (declared := size() or 0) > limit:
                raise ResourceTooLarge(session.server, uri, declared, limit)
            if (kept := session.reads.get(operation)) is not None:
                return cast("tuple[Embedded, ...]", kept.content)
            version = session.reads.version
            with session.calls_in_flight.track(_in_flight(operation)):
                result = await session.request(
                    f"resource {uri!r}", lambda client: client.read_resource(uri), timeout
                )
            if (actual := sum(_size(item) for item in result.contents)) > limit:
                raise ResourceTooLarge(session.server, uri, actual, limit)
            contents = wire.contents(result.contents)
            if session.era == "modern":
                hints = {"ttlMs": result.ttl_ms, "cacheScope": result.cache_scope}
                session.reads.put(operation, ToolResult(content=contents), hints, version)
            return contents

        return await self._request(send, operation)

    async def get_skill(self, operation: Operation, uri: str) -> Skill:
        """The entry of a skill that the server may not list; `SkillRejected` if it has none."""

        async def send(session: ServerSession, timeout: float) -> Skill:
            if self.check is not None:
                self.check(operation)
            if SKILLS not in (session.client.server_capabilities.extensions or {}):
                raise SkillRejected(session.server, uri, "the server has no skills")
            what = f"skill {uri!r}"
            params: dict[str, JSON] = {"uri": uri}
            raw = await session.request(
                what, lambda client: send_raw(client, session.result_filter, "skills/get", params), timeout
            )
            try:
                skill = skill_of(session.server, raw.get("skill"))
            except InvalidSkill as error:
                raise SkillRejected(session.server, uri, str(error)) from None
            if skill.uri != uri:
                raise SkillRejected(session.server, uri, f"the server answered with {skill.uri!r}")
            return skill

        return await self._request(send, operation)

    async def get_prompt(self, operation: Operation, name: str, check: Callable[[], None]) -> PromptResult:
        """Fill in a prompt; `check` is called once the server has listed its prompts."""
        given = {key: value for key, value in operation.arguments.items() if value is not None}

        async def send(session: ServerSession, timeout: float) -> PromptResult:
            if self.check is not None:
                self.check(operation)
            check()
            with session.calls_in_flight.track(_in_flight(operation)):
                result = await session.request(
                    f"prompt {name!r}", lambda client: client.get_prompt(name, given), timeout
                )
            return wire.prompt_result(result)

        return await self._request(send, operation)

    async def complete(self, operation: Operation) -> Completion:
        """Suggested values for an argument of a prompt or a template, given its beginning."""
        name, asked = operation.spec.name, operation.arguments

        async def send(session: ServerSession, timeout: float) -> Completion:
            if session.client.server_capabilities.completions is None:
                return Completion()
            ref = (
                types.ResourceTemplateReference(uri=name)
                if asked["is_template"]
                else types.PromptReference(name=name)
            )
            argument = {"name": asked["argument"], "value": asked["value"]}
            result = await session.request(
                f"completing {asked['argument']!r} of {name!r}",
                lambda client: client.complete(ref, argument, dict(asked["known"]) or None),
                timeout,
            )
            return wire.completion(result)

        return await self._request(send, operation)

    async def connect(self) -> None:
        await self._link.request(lambda session, timeout: asyncio.sleep(0), self.timeout, repeatable=True)

    async def notify_roots_changed(self) -> None:
        """Notify a legacy server that the roots changed; a modern one asks when it needs them."""
        session = self._link.session
        if session.era == "legacy":
            await session.request(
                "notifying it of changed roots",
                lambda client: client.session.send_notification(types.RootsListChangedNotification()),
                session.config.timeouts.list,
            )

    # Tasks

    async def task_state(self, task: str) -> TaskState:
        return await self._request(lambda session, timeout: _task_state(session, task, timeout))

    async def answer_task(
        self, in_flight: CallInFlight, task: str, asked: JSONObject, answers: Mapping[str, Answer]
    ) -> None:
        """Answer the requests of a task: with the person's answers, else with the handlers'."""

        async def respond(session: ServerSession, timeout: float) -> dict[str, JSON]:
            with session.calls_in_flight.track(in_flight):
                responses = await session.responses(asked, answers)
            return {
                key: response.model_dump(by_alias=True, mode="json", exclude_none=True)
                for key, response in responses.items()
            }

        # The person is asked once, even if the connection is lost; the server ignores a second answer.
        responses = await self._request(respond, repeatable=False)
        await self._request(
            lambda session, timeout: _about_task(
                session, "tasks/update", task, timeout, inputResponses=responses
            )
        )

    async def decline_task(self, in_flight: CallInFlight, suspended: ToolResult) -> dict[str, Answer] | None:
        """Answers that decline all its questions, if guards refuse them; None if a person is to answer."""

        async def decline(session: ServerSession, timeout: float) -> dict[str, Answer] | None:
            with session.calls_in_flight.track(in_flight):
                return await session.handler.declined(suspended)

        return await self._request(decline, repeatable=False)

    async def listen_to_task(self, in_flight: CallInFlight, task: str) -> None:
        """In the legacy era: wait for a task's result, because the server asks only meanwhile."""

        async def listen(session: ServerSession, timeout: float) -> None:
            if session.era == "legacy":
                with session.calls_in_flight.track(in_flight), suppress(CallTimeout):
                    await _about_task(session, "tasks/result", task, timeout)

        await self._request(listen)

    async def cancel_task(self, task: str, within: float | None = None) -> None:
        """Cancel a task; with `within`, only if the server is connected."""
        if within is not None:
            await _about_task(self._link.session, "tasks/cancel", task, within)
        else:
            await self._request(lambda session, timeout: _about_task(session, "tasks/cancel", task, timeout))

    def _request(
        self,
        send: Callable[[ServerSession, float], Awaitable[T]],
        operation: Operation | None = None,
        *,
        repeatable: bool = True,
    ) -> Awaitable[T]:
        timeout, reconnect_timeout = (
            (operation.timeout, operation.reconnect_timeout) if operation else (None, None)
        )
        timeout = self.timeout if timeout is None else timeout
        return self._link.request(send, timeout, repeatable=repeatable, reconnect_timeout=reconnect_timeout)


def _in_flight(operation: Operation) -> CallInFlight:
    return CallInFlight(
        tool=None,
        operation_id=operation.id,
        caller=operation.caller,
        policies=operation.policies,
        people=operation.people,
        clock=operation.clock,
    )


def _size(item: types.TextResourceContents | types.BlobResourceContents) -> int:
    """Its size in bytes; four characters of base64 are three bytes, fewer at the end."""
    if isinstance(item, types.BlobResourceContents):
        return len(item.blob) * 3 // 4 - item.blob[-2:].count("=")
    return len(item.text.encode(errors="replace"))


async def subscribe(session: ServerSession, uri: str, timeout: float) -> None:
    """In the legacy era: request notifications when a resource changes."""
    request = types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri))
    await _request_empty(session, f"subscribing to {uri!r}", request, timeout)


async def unsubscribe(session: ServerSession, uri: str, timeout: float) -> None:
    """In the legacy era: stop these notifications."""
    request = types.UnsubscribeRequest(params=types.UnsubscribeRequestParams(uri=uri))
    await _request_empty(session, f"unsubscribing from {uri!r}", request, timeout)


async def set_log_level(session: ServerSession, level: types.LoggingLevel) -> None:
    """In the legacy era: set the lowest level that the server logs."""
    request = types.SetLevelRequest(params=types.SetLevelRequestParams(level=level))
    await _request_empty(session, "setting the log level", request, session.config.timeouts.list)


async def _request_empty(
    session: ServerSession, what: str, request: types.ClientRequest, timeout: float
) -> None:
    await session.request(
        what, lambda client: client.session.send_request(request, types.EmptyResult), timeout
    )


async def _task_state(session: ServerSession, task: str, timeout: float) -> TaskState:
    """The state of a task; in the legacy era, its result is a second request."""
    raw = await _about_task(session, "tasks/get", task, timeout)
    state = session.task_state(f"task {task!r}", raw)
    if session.era == "legacy" and state.status in ("completed", "failed"):
        # Also for a failed task: its result, or the error, explains why.
        result = await _about_task(session, "tasks/result", task, timeout)
        return session.task_state(f"task {task!r}", {**raw, "status": "completed", "result": result})
    return state


async def _about_task(
    session: ServerSession, method: str, task: str, timeout: float, **more: JSON
) -> dict[str, JSON]:
    params: dict[str, JSON] = {"taskId": task, **more}
    return await session.request(
        f"{method} of {task!r}",
        lambda client: send_raw(client, session.result_filter, method, params, name=task),
        timeout,
    )
