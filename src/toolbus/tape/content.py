"""Operations, results and failures as a tape has them, and back: JSON in the form of MCP, of no era."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from pydantic import BaseModel

from toolbus.core.ask.interactions import ClientError, SamplingResult
from toolbus.core.operation.operation import Failure, Operation
from toolbus.core.text.encoding import as_sent, block_json, contents_json
from toolbus.core.values.elicitation import Answer
from toolbus.core.values.errors import (
    INTERNAL_ERROR,
    AuthRequired,
    CallTimeout,
    ConnectFailed,
    ConnectionLost,
    InputNeeded,
    LoginRequired,
    ResourceTooLarge,
    ServerDown,
    ServerError,
    ServerRejected,
    SkillRejected,
    ToolbusError,
)
from toolbus.core.values.records import (
    JSON,
    Inventory,
    JSONObject,
    Resource,
    TaskState,
    ToolResult,
    received_of,
)
from toolbus.core.values.skills import entry_of
from toolbus.lock.definitions import prompt_definition, template_definition, tool_definition
from toolbus.shape.as_tools import prompt_name
from toolbus.tape.format import ListName

RECORDED = frozenset(
    (
        *("tools/call", "resources/read", "prompts/get", "completion/complete"),
        *("tasks/get", "tasks/update", "tasks/cancel", "resources/subscribe", "resources/unsubscribe"),
    )
)
"""The methods that a tape records."""
ASKED = frozenset({"elicitation/create", "sampling/createMessage", "roots/list"})
"""The requests of servers."""


# Requests


def request_of(operation: Operation) -> tuple[str, dict[str, JSON]]:
    """The name and the arguments of a request, as its server gets them."""
    given = operation.arguments
    match operation.route:
        case "tools/call":
            return operation.spec.origin.tool, dict(given)
        case "prompts/get":
            return prompt_name(operation.spec), {k: v for k, v in given.items() if v is not None}
        case "resources/read":
            return given["uri"], {}
        case "completion/complete":
            kind = "resource" if given["is_template"] else "prompt"
            known = {"known": dict(given["known"])} if given["known"] else {}
            asked = {"ref": kind, "argument": given["argument"], "value": given["value"]}
            return operation.spec.name, {**asked, **known}
        case "tasks/get" | "tasks/update" | "tasks/cancel":
            answers = given.get("inputResponses")
            task = given.get("taskId", given.get("task"))
            return str(task), {} if answers is None else {"inputResponses": answers}
        case _:
            return operation.spec.name, {}


def request_in(method: str, params: Mapping[str, Any]) -> tuple[str, dict[str, JSON]]:
    """As `request_of`, for a message."""
    match method:
        case "tools/call" | "prompts/get":
            return params["name"], dict(params.get("arguments") or {})
        case "completion/complete":
            ref, argument = params["ref"], params["argument"]
            is_prompt = ref["type"] == "ref/prompt"
            context: dict[str, Any] = params.get("context") or {}
            known = context.get("arguments")
            asked = {
                "ref": "prompt" if is_prompt else "resource",
                "argument": argument["name"],
                "value": argument["value"],
            }
            return ref["name" if is_prompt else "uri"], {**asked, **({"known": known} if known else {})}
        case _ if method.startswith("tasks/"):
            answers = params.get("inputResponses")
            return params["taskId"], {} if answers is None else {"inputResponses": answers}
        case _:
            return params["uri"], {}


# Results


def result_of(operation: Operation, result: ToolResult) -> dict[str, JSON]:
    """A result as MCP has it, without what only one era knows."""
    pending, received = result.pending, received_of(result)
    if received is None and pending is not None:
        if pending.task is not None and not pending.requests:
            return {"taskId": pending.task, "status": "working"}
        return {"inputRequests": dict(pending.requests), **({"taskId": pending.task} if pending.task else {})}
    if received is None and isinstance(result.value, TaskState):
        return task_json(result.value)
    if operation.route == "resources/read":
        found = contents_json(result)
    elif received is None and not (result.content or result.value or operation.route == "tools/call"):
        found = {}
    else:
        found = dict(as_sent(result))
    if found.get("isError") is False:
        del found["isError"]
    found.pop("resultType", None)
    found.pop("requestState", None)  # another one each time; a replay has its own
    return found


def task_json(state: TaskState) -> dict[str, JSON]:
    """The state of a task."""
    more = {
        "statusMessage": state.message,
        "inputRequests": dict(state.requests) or None,
        "error": None if state.error is None else {"code": INTERNAL_ERROR, "message": state.error},
        "result": None if state.result is None else dict(as_sent(state.result)),
    }
    given = {key: value for key, value in more.items() if value is not None}
    return {"taskId": state.id, "status": state.status, **given}


# Answers


def answer_of(value: object) -> JSON:
    """The answer to a request of a server, as it is sent; None if nobody answered."""
    match value:
        case Answer():
            return answer_json(value)
        case SamplingResult():
            more = {} if value.stop_reason is None else {"stopReason": value.stop_reason}
            return {"role": "assistant", "content": block_json(value.content), "model": value.model, **more}
        case ClientError():
            return {"error": {"code": value.code, "message": value.message}}
        case BaseModel():
            return value.model_dump(by_alias=True, mode="json", exclude_none=True)
        case dict():
            return cast("JSONObject", value)  # of an MCP client
        case _:
            return None


def answer_json(answer: Answer) -> dict[str, JSON]:
    """A person's answer."""
    content = {} if answer.content is None or answer.action != "accept" else {"content": dict(answer.content)}
    return {"action": answer.action, **content}


# Failures

_FACTS: dict[type[ServerError], tuple[str, ...]] = {
    ServerRejected: ("what", "code", "message", "status", "data"),
    ConnectionLost: ("what", "reason", "sent"),
    CallTimeout: ("what", "seconds", "stderr"),
    InputNeeded: ("what", "asked"),
    ServerDown: ("state", "reason"),
    LoginRequired: ("reason", "user"),
    AuthRequired: ("phase", "status", "cause", "hint"),
    ConnectFailed: ("phase", "cause", "hint", "exit_code", "status", "stderr"),
    ResourceTooLarge: ("uri", "size", "limit"),
    SkillRejected: ("uri", "reason"),
}
"""The facts of each error of a server."""
CANCELLED = "cancelled"


def failure_json(failure: Failure, error: BaseException | None) -> dict[str, JSON]:
    """The reason of a failed request."""
    kind = next((one for one in _FACTS if type(error) is one), None)
    if kind is None:
        name = CANCELLED if failure.reason == "cancelled" else type(error).__name__ if error else "failure"
        return {"error": name, "message": failure.error or ""}
    facts: dict[str, JSON] = {name: getattr(error, name) for name in _FACTS[kind]}
    facts |= {name: [*facts[name]] for name in ("stderr",) if name in facts}
    given = {name: value for name, value in facts.items() if value not in (None, [])}
    return {"error": kind.__name__, "text": str(error), **given}


def error_in(server: str, failure: JSONObject) -> ToolbusError:
    """The error of a recorded failure."""
    name = failure.get("error")
    for kind, facts in _FACTS.items():
        if kind.__name__ == name:
            given: dict[str, Any] = {fact: failure[fact] for fact in facts if fact in failure}
            missing: dict[str, Any] = {"reason": None} if kind is ServerDown else {}
            missing |= {"status": None} if kind is AuthRequired else {}
            make: Callable[..., ToolbusError] = kind
            try:
                return make(server, **{**missing, **given})
            except TypeError:
                break
    message = str(failure.get("text") or failure.get("message") or "it failed")
    return ServerRejected(server, "the request", INTERNAL_ERROR, message)


# Lists


def lists_of(inventory: Inventory) -> dict[ListName, list[JSON]]:
    """The lists of a server, as MCP definitions in a stable order."""
    instructions: list[JSON] = [inventory.instructions] if inventory.instructions else []
    return {
        "instructions": instructions,
        "tools": [tool_definition(tool) for tool in sorted(inventory.tools, key=lambda one: one.name)],
        "resources": [_resource(one) for one in sorted(inventory.resources, key=lambda one: one.uri)],
        "templates": [
            template_definition(one) | dict(one.extras)
            for one in sorted(inventory.templates, key=lambda one: one.uri_template)
        ],
        "prompts": [
            prompt_definition(one) | dict(one.extras)
            for one in sorted(inventory.prompts, key=lambda one: one.name)
        ],
        "skills": [entry_of(one) for one in sorted(inventory.skills, key=lambda one: one.uri)],
    }


def _resource(one: Resource) -> dict[str, JSON]:
    about = {
        "title": one.title,
        "description": one.description or None,
        "mimeType": one.mime_type,
        "size": one.size,
    }
    given = {key: value for key, value in about.items() if value is not None}
    return {"uri": one.uri, "name": one.name, **given, **one.extras}
