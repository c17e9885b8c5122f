"""Answers that are no results yet: the server wants to know something first, or made a task of the call.

In the modern era a server asks by returning the question. Where nobody can answer, or the answer comes
later, the call ends here; the SDK drives everything else.
"""

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
from toolbus.core.elicitation import ELICITATION
from toolbus.core.operation import CallInFlight
from toolbus.core.records import JSON
from toolbus.core.text import cleaned

TASKS = "io.modelcontextprotocol/tasks"
MISSING_CAPABILITY = -32021
"""How a server says that it would have to ask, and nobody here can be asked."""
SUSPENDING: dict[str, JSON] = {"elicitation": {"form": {}, "url": {}}}
"""What a call that is suspended by a question can answer, whatever handlers there are."""


class Suspended(Exception):
    """The call waits for a person."""

    def __init__(self, requests: dict[str, JSON], state: str | None) -> None:
        super().__init__("the call waits for an answer")
        self.requests = requests
        self.state = state


class Unanswered(Exception):
    """The server asks what nobody here answers."""

    def __init__(self, asked: str) -> None:
        super().__init__(asked)
        self.asked = asked


class Started(Exception):
    """The server made a task of the call."""

    def __init__(self, task: dict[str, JSON]) -> None:
        super().__init__("the call became a task")
        self.task = task


class TaskResult(Result):
    """The answer of a server that works on a call by itself; the rest of it is read at the border."""

    model_config = ConfigDict(extra="allow")
    result_type: Literal["task"]


class Tasks(ClientExtension):
    """Says to servers that a call may become a task."""

    identifier = TASKS

    def claims(self) -> list[ResultClaim[TaskResult]]:
        """The answer that is a task."""
        return [ResultClaim(result_type="task", model=TaskResult, resolve=_started)]


async def _started(result: TaskResult, context: ClaimContext) -> CallToolResult:
    raise Started(result.model_dump(by_alias=True, mode="json"))


def look(
    result: InputRequiredResult, server: str, in_flight: CallInFlight | None, handled: frozenset[str]
) -> None:
    """Let a question pass to its handler; raises where it has to wait for a person, or has none."""
    requests = result.input_requests or {}
    suspends = in_flight is not None and in_flight.suspends
    asked = [request for request in requests.values() if isinstance(request, ElicitRequest)]
    for request in requests.values():
        if request.method not in handled and not (suspends and request in asked):
            raise Unanswered(wording(request))
    if suspends and asked:
        for request in asked:
            if (fault := wire.elicitation(server, None, request.params).fault) is not None:
                raise MCPError(INVALID_PARAMS, fault)
        raise Suspended(wire.requests_json(requests), result.request_state)


_WORDING = {
    "elicitation": "has to ask the user something",
    "sampling": "wants a model to write something",
    "roots": "wants to know which folders it may look at",
}


def wording(request: Any) -> str:
    """What a server asks, after its name."""
    if request.method == ELICITATION:
        return f"asks the user: {cleaned(request.params.message)}"
    return _WORDING[request.method.partition("/")[0]]


def wanting(error: MCPError) -> str | None:
    """What a server would have asked that refuses a request because nobody here answers; None for others."""
    said: object = error.data
    data = cast("dict[str, Any]", said) if isinstance(said, dict) else {}
    if error.code == MISSING_CAPABILITY:
        required: Any = data.get("requiredCapabilities")
        known = cast("dict[str, Any]", required) if isinstance(required, dict) else {}
        return next((text for name, text in _WORDING.items() if name in known), None)
    if error.code == URL_ELICITATION_REQUIRED:
        asked: Any = data.get("elicitations")
        found = cast("list[Any]", asked) if isinstance(asked, list) else []
        addresses = [cast("dict[str, Any]", one).get("url") for one in found if isinstance(one, dict)]
        return f"wants the user to visit {' and '.join(map(str, addresses)) or 'an address'}"
    return None
