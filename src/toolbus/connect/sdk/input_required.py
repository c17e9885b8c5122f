"""Responses without a result yet: the server needs input first, or started a task.

A modern server returns its requests for input instead of the result. If one has no handler, or the user
answers later, the call ends here; the SDK drives everything else.
"""

from dataclasses import dataclass
from typing import Any, Literal, cast

from mcp.client import ClientExtension, ResultClaim
from mcp.client.extension import ClaimContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    URL_ELICITATION_REQUIRED,
    CallToolResult,
    ElicitRequest,
    InputRequiredResult,
    Result,
)
from pydantic import ConfigDict

from toolbus.connect.sdk import wire
from toolbus.core.operation.operation import CallInFlight
from toolbus.core.text.text import cleaned
from toolbus.core.values.elicitation import ELICITATION
from toolbus.core.values.records import JSON

TASKS = "io.modelcontextprotocol/tasks"
MISSING_CAPABILITY = -32021
"""The error of a server that needs input that this client did not declare it can provide."""
SUSPENDING: dict[str, JSON] = {"elicitation": {"form": {}, "url": {}}}
"""The capabilities declared with a call that can be suspended, whether or not there are handlers."""


@dataclass(eq=False)
class InputRequired(Exception):
    """The call waits for input from the user."""

    requests: dict[str, JSON]
    state: str | None


@dataclass(eq=False)
class HandlerMissing(Exception):
    """The server makes a request that has no handler."""

    request: str


@dataclass(eq=False)
class TaskStarted(Exception):
    """The server started a task for the call."""

    task: dict[str, JSON]


class TaskResult(Result):
    """The response of a server that started a task; `wire.task_state` reads its fields."""

    model_config = ConfigDict(extra="allow")
    result_type: Literal["task"]


class TasksExtension(ClientExtension):
    """Declares that a call may become a task."""

    identifier = TASKS

    def claims(self) -> list[ResultClaim[TaskResult]]:
        return [ResultClaim(result_type="task", model=TaskResult, resolve=_raise_started)]


async def _raise_started(result: TaskResult, context: ClaimContext) -> CallToolResult:
    raise TaskStarted(result.model_dump(by_alias=True, mode="json"))


def check_input_required(
    result: InputRequiredResult, server: str, in_flight: CallInFlight | None, handled: frozenset[str]
) -> None:
    """Raise `InputRequired` if the user has to answer later, `HandlerMissing` if a request has no handler.

    A question during a call goes on to the request handler even so: the policy may deny it.
    """
    requests = result.input_requests or {}
    suspends = in_flight is not None and in_flight.suspends
    elicitations = [request for request in requests.values() if isinstance(request, ElicitRequest)]
    for request in requests.values():
        if request.method not in handled and not (in_flight is not None and request in elicitations):
            raise HandlerMissing(request_text(request))
    if suspends and elicitations:
        for request in elicitations:
            if (fault := wire.elicitation(server, None, request.params).fault) is not None:
                raise MCPError(INVALID_PARAMS, fault)
        raise InputRequired(wire.requests_json(requests), result.request_state)


_REQUEST_TEXTS = {
    "elicitation": "has to ask the user something",
    "sampling": "wants a model to write something",
    "roots": "needs to know which folders it may access",
}


def request_text(request: Any) -> str:
    """The request of a server, as the rest of a sentence that begins with its name."""
    if request.method == ELICITATION:
        return f"asks the user: {cleaned(request.params.message)}"
    return _REQUEST_TEXTS[request.method.partition("/")[0]]


def missing_input(error: MCPError) -> str | None:
    """The input that a server needs before it accepts a request; None for other errors."""
    given: object = error.data
    data = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    if error.code == MISSING_CAPABILITY:
        required: Any = data.get("requiredCapabilities")
        names = cast("dict[str, Any]", required) if isinstance(required, dict) else {}
        return next((text for name, text in _REQUEST_TEXTS.items() if name in names), None)
    if error.code == URL_ELICITATION_REQUIRED:
        listed: Any = data.get("elicitations")
        items = cast("list[Any]", listed) if isinstance(listed, list) else []
        urls = [cast("dict[str, Any]", item).get("url") for item in items if isinstance(item, dict)]
        return f"wants the user to visit {' and '.join(map(str, urls)) or 'a URL'}"
    return None
