"""Problems as REST clients get them: a status, and a JSON document of the type `application/problem+json`."""

from http import HTTPStatus
from math import ceil
from typing import NamedTuple

from toolbus.core.operation.quota import OverQuota
from toolbus.core.values.errors import (
    ArgumentsError,
    AuditFailed,
    BusClosed,
    CallDenied,
    CallTimeout,
    ConnectionLost,
    LoginRequired,
    ServerDown,
    ServerError,
    ServerRejected,
    StoreError,
    ToolbusError,
    ToolNotFound,
    TooManySessions,
)
from toolbus.core.values.records import JSON, JSONObject
from toolbus.gateway.http.request import Headers, HttpRequest, encoded
from toolbus.gateway.protocol.words import (
    BUSY,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    ProtocolError,
    is_object,
)

PROBLEM_TYPE = (b"content-type", b"application/problem+json")
PROBLEM_KINDS: tuple[tuple[type[ToolbusError], int, str], ...] = (
    (ToolNotFound, 404, "unknown_tool"),
    (ArgumentsError, 400, "invalid_arguments"),
    (OverQuota, 429, "over_quota"),
    (CallDenied, 403, "denied"),
    (CallTimeout, 504, "timeout"),
    (ConnectionLost, 502, "connection_lost"),
    (LoginRequired, 502, "sign_in_required"),
    (ServerDown, 503, "server_down"),
    (TooManySessions, 503, "unavailable"),
    (ServerError, 502, "server_error"),
    (BusClosed, 503, "unavailable"),
    (AuditFailed, 503, "unavailable"),
    (StoreError, 503, "unavailable"),
    (ToolbusError, 500, "failed"),
)
"""The first class that fits decides."""


class RestAnswer(NamedTuple):
    """The response to a REST request."""

    status: int
    body: bytes = b""
    headers: Headers = ()
    code: str | None = None
    """The kind of the problem, if it is one."""
    is_made: bool = True
    """False if nothing was sent to a server: the request may be repeated."""


class CallProblem(ProtocolError):
    """A request that has no result; `facts` are more members of the problem."""

    def __init__(self, status: int, code: str, detail: str, **facts: JSON) -> None:
        super().__init__(INTERNAL_ERROR, detail, {"status": status, "code": code, **facts})


def problem_of(error: ToolbusError) -> CallProblem:
    """The problem for one of our errors."""
    status, code = next((status, code) for kind, status, code in PROBLEM_KINDS if isinstance(error, kind))
    facts: dict[str, JSON] = {"sent": error.sent}
    if isinstance(error, ToolNotFound) and error.close_matches:
        facts["near"] = list(error.close_matches)
    if isinstance(error, ServerRejected):
        facts["error"] = {"code": error.code, "message": error.message}
        if error.code == INVALID_PARAMS:
            status, code = 400, "invalid_arguments"
    if isinstance(error, OverQuota):
        facts["retryAfter"] = max(1, ceil(error.retry_after))
    elif status == 503:
        facts["retryAfter"] = 1
    return CallProblem(status, code, error.public, **facts)


def problem_json(error: ProtocolError) -> JSONObject:
    """The document about an error."""
    data = error.data if is_object(error.data) else {}
    if "status" not in data:
        status, code = {BUSY: (429, "busy"), INVALID_PARAMS: (400, "invalid_request")}.get(
            error.code, (502, "failed")
        )
        data = {"status": status, "code": code, **({**data, "sent": False} if status == 429 else {})}
    status = data["status"]
    return {"title": HTTPStatus(status).phrase, "detail": error.message, **data}


def problem_answer(error: ProtocolError, headers: Headers = ()) -> RestAnswer:
    """The response about an error."""
    document = problem_json(error)
    retry: JSON = document.get("retryAfter")
    more = () if retry is None else ((b"retry-after", str(retry).encode()),)
    return RestAnswer(
        document["status"],
        encoded(document),
        (PROBLEM_TYPE, *more, *headers),
        document["code"],
        is_made=document.get("sent") is not False,
    )


async def respond(http: HttpRequest, answer: RestAnswer) -> None:
    """Send a response."""
    await http.respond(answer.status, answer.body, answer.headers)


def tool_problem(sent: JSONObject) -> CallProblem:
    """The problem that a tool reports in its result."""
    blocks: list[JSON] = sent.get("content") or []
    texts = [text for one in blocks if is_object(one) and isinstance(text := one.get("text"), str)]
    structured = {"structuredContent": sent["structuredContent"]} if "structuredContent" in sent else {}
    detail = "\n".join(texts) or "the tool reported an error without a text"
    return CallProblem(422, "tool_error", detail, content=blocks, **structured)
