"""What is asked of a server besides its tools: resources, prompts, completion, tasks."""

from collections.abc import Mapping
from contextlib import suppress

import mcp_types as types

from toolbus.connect.in_flight import CallInFlight
from toolbus.connect.sdk import wire
from toolbus.connect.sdk.fast_call import send_raw
from toolbus.connect.session import Session
from toolbus.core.elicitation import Answer
from toolbus.core.errors import CallTimeout, ResourceTooLarge
from toolbus.core.records import JSON, Completion, Embedded, JSONObject, PromptResult, TaskState


async def read_resource(session: Session, uri: str, timeout: float) -> tuple[Embedded, ...]:
    """Read a resource; `ResourceTooLarge` if it is more than the config allows."""
    with session.calls_in_flight.under_way(CallInFlight(tool=None)):
        result = await session.request(f"resource {uri!r}", lambda client: client.read_resource(uri), timeout)
    size, limit = sum(_size(item) for item in result.contents), session.config.resource_limit
    if size > limit:
        raise ResourceTooLarge(session.server, uri, size, limit)
    return wire.contents(result.contents)


def _size(item: types.TextResourceContents | types.BlobResourceContents) -> int:
    """The bytes that it takes; base64 has three in four characters, fewer at the end."""
    if isinstance(item, types.BlobResourceContents):
        return len(item.blob) * 3 // 4 - item.blob[-2:].count("=")
    return len(item.text.encode(errors="replace"))


async def get_prompt(
    session: Session, name: str, arguments: Mapping[str, str], timeout: float
) -> PromptResult:
    """Fill in a prompt."""
    filled = dict(arguments)
    with session.calls_in_flight.under_way(CallInFlight(tool=None)):
        result = await session.request(
            f"prompt {name!r}", lambda client: client.get_prompt(name, filled), timeout
        )
    return wire.prompt_result(result)


async def complete(
    session: Session,
    of: tuple[str, bool],
    so_far: tuple[str, str],
    known: Mapping[str, str],
    timeout: float,
) -> Completion:
    """What an argument may be, given its beginning; `of` is a prompt, or a template (True)."""
    if session.client.server_capabilities.completions is None:
        return Completion()
    (name, is_template), (argument, value) = of, so_far
    ref = types.ResourceTemplateReference(uri=name) if is_template else types.PromptReference(name=name)
    asked, context = {"name": argument, "value": value}, dict(known) or None
    result = await session.request(
        f"completing {argument!r} of {name!r}", lambda client: client.complete(ref, asked, context), timeout
    )
    return wire.completion(result)


async def subscribe(session: Session, uri: str, timeout: float, *, on: bool = True) -> None:
    """In the legacy era: have the server tell when a resource changes, or stop."""
    asked = (
        types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri))
        if on
        else types.UnsubscribeRequest(params=types.UnsubscribeRequestParams(uri=uri))
    )
    what = f"{'' if on else 'un'}subscribing to {uri!r}"
    await session.request(what, lambda client: client.session.send_request(asked, types.EmptyResult), timeout)


async def set_log_level(session: Session, level: types.LoggingLevel) -> None:
    """In the legacy era: say what the server is to log."""
    asked = types.SetLevelRequest(params=types.SetLevelRequestParams(level=level))
    await session.request(
        "setting the log level",
        lambda client: client.session.send_request(asked, types.EmptyResult),
        session.config.timeouts.list,
    )


async def tell_roots(session: Session) -> None:
    """Say that the roots changed, in the legacy era; a modern server asks whenever it needs them."""
    if session.era == "legacy":
        await session.request(
            "telling the roots",
            lambda client: client.session.send_notification(types.RootsListChangedNotification()),
            session.config.timeouts.list,
        )


# Tasks


async def task_state(session: Session, task: str, timeout: float) -> TaskState:
    """How a task is doing; in the legacy era the result of one that is over is asked for as well."""
    raw = await _of_task(session, "tasks/get", task, {}, timeout)
    state = session.task_state(f"task {task!r}", raw)
    if session.era == "legacy" and state.status in ("completed", "failed"):
        # Also the result of one that failed: it says why, as a result or as an error.
        result = await _of_task(session, "tasks/result", task, {}, timeout)
        return session.task_state(f"task {task!r}", {**raw, "status": "completed", "result": result})
    return state


async def listen_to_task(session: Session, in_flight: CallInFlight, task: str, timeout: float) -> None:
    """In the legacy era: wait for the result of a task, because a server asks only meanwhile."""
    if session.era == "legacy":
        with session.calls_in_flight.under_way(in_flight), suppress(CallTimeout):
            await _of_task(session, "tasks/result", task, {}, timeout)


async def responses(
    session: Session, in_flight: CallInFlight, requests: JSONObject, answers: Mapping[str, Answer]
) -> dict[str, JSON]:
    """What is to be said to what a task asked: what a person said, else what the handlers say."""
    with session.calls_in_flight.under_way(in_flight):
        said = await session.responses(requests, answers)
    return {
        key: response.model_dump(by_alias=True, mode="json", exclude_none=True)
        for key, response in said.items()
    }


async def update_task(session: Session, task: str, said: JSONObject, timeout: float) -> None:
    """Answer what a task asked."""
    await _of_task(session, "tasks/update", task, {"inputResponses": dict(said)}, timeout)


async def cancel_task(session: Session, task: str, timeout: float) -> None:
    """Tell the server that nobody wants the result any more."""
    await _of_task(session, "tasks/cancel", task, {}, timeout)


async def _of_task(
    session: Session, method: str, task: str, more: dict[str, JSON], timeout: float
) -> dict[str, JSON]:
    params: dict[str, JSON] = {"taskId": task, **more}
    return await session.request(
        f"{method} of {task!r}",
        lambda client: send_raw(client, session.result_filter, method, params, name=task),
        timeout,
    )
