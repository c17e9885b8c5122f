"""What servers ask, put to the MCP client that an operation is made for."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, Protocol, TypeVar

import mcp_types as types
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, ValidationError

from toolbus.connect.sdk import wire
from toolbus.core.ask.interactions import ClientError, McpClient
from toolbus.core.values.elicitation import ELICITATION
from toolbus.core.values.errors import CallRefused
from toolbus.core.values.records import JSON, JSONObject

T = TypeVar("T")
Kind = Literal["elicitation", "sampling", "roots"]
Asked = types.ElicitRequestParams | types.CreateMessageRequestParams | types.RequestParams | None
NO_ANSWER = object()
"""For a request that nobody answered."""
DECLINED = object()
"""For a request that a guard refused."""
KINDS: dict[str, Kind] = {
    ELICITATION: "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
_MESSAGES: dict[Kind, str] = {
    "sampling": "requests a completion from a model",
    "roots": "requests the folders that it may access",
}


class Handler(Protocol):
    """What is common to all requests of one server."""

    @property
    def server(self) -> str:
        """The alias of the server."""
        ...

    @property
    def client(self) -> McpClient | None:
        """The MCP client that a request belongs to, if there is one."""
        ...

    async def ask(
        self, kind: Kind, message: str, params: Asked, handler: Callable[[T], Any], question: T
    ) -> object:
        """The answer of `handler`, or one of the two constants above."""
        ...

    async def admitted(self, kind: Kind, params: Asked, answer: Callable[[], Awaitable[T]]) -> T:
        """Pass a request through observers and guards; `CallRefused` if one refuses it."""
        ...

    def too_many(self) -> str | None:
        """Why a request is refused: no call needs it, or there were too many; else None."""
        ...

    def refuse(self, kind: Kind, problem: str) -> types.ErrorData: ...

    def emit_answered(self, kind: Kind, action: str) -> None: ...

    def warn_refused(self, kind: Kind, refusal: CallRefused) -> None: ...


class ForwardedRequests:
    """Passes the requests of one server on."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self.asked: list[McpClient] = []
        """The clients that are being asked."""

    async def answer(self, request: types.InputRequest) -> types.InputResponse | types.ErrorData:
        """The client's answer to a request of a legacy server."""
        handler, kind = self._handler, KINDS[request.method]
        params = request.params
        client = handler.client
        if client is None:
            return handler.refuse(
                kind, "it cannot be told which client it is for; set per_session for this server"
            )
        sent = {} if params is None else params.model_dump(by_alias=True, mode="json", exclude_none=True)
        if (missing := _missing(client, kind, sent)) is not None:
            # With what a modern client gets to know, if the server passes the error on.
            modes: JSONObject = {str(sent.get("mode") or "form"): {}} if kind == "elicitation" else {}
            data: JSONObject = {"requiredCapabilities": {kind: modes}}
            return types.ErrorData(code=types.INVALID_REQUEST, message=missing, data=data)
        if (problem := handler.too_many() or _fault(handler.server, params)) is not None:
            return handler.refuse(kind, problem)
        message = sent.get("message") or _MESSAGES[kind]

        async def ask(given: JSONObject) -> JSONObject | ClientError:
            self.asked.append(client)
            try:
                return await client.ask(handler.server, request.method, given)
            except ClientError as error:
                return error
            finally:
                self.asked.remove(client)

        answer = await handler.ask(kind, message, params, ask, sent)
        return self._response(kind, sent, answer)

    def _response(
        self, kind: Kind, sent: JSONObject, answer: object
    ) -> types.InputResponse | types.ErrorData:
        handler = self._handler
        if isinstance(answer, ClientError):
            handler.emit_answered(kind, "cancel")
            return types.ErrorData(code=answer.code, message=answer.message, data=answer.data)
        if isinstance(answer, dict):
            try:
                response = _model(kind, sent).model_validate(answer, by_name=False)
            except ValidationError:
                return handler.refuse(kind, f"the client's answer is not a valid result of {kind}")
            handler.emit_answered(kind, getattr(response, "action", "accept"))
            return response  # pyright: ignore[reportReturnType]  # one of the models below
        declined = answer is DECLINED
        handler.emit_answered(kind, "decline" if declined else "cancel")
        if kind == "elicitation":
            return types.ElicitResult(action="decline" if declined else "cancel")
        return types.ErrorData(code=-1, message=f"{kind} was declined")

    async def refused(self, requests: Mapping[str, types.InputRequest]) -> dict[str, JSON]:
        """Responses to requests of a modern server that guards refuse; `CallRefused` if there is no such."""
        answered: dict[str, JSON] = {}

        async def later() -> None: ...

        for key, request in requests.items():
            kind = KINDS[request.method]
            if (fault := _fault(self._handler.server, request.params)) is not None:
                raise MCPError(types.INVALID_PARAMS, fault)
            try:
                await self._handler.admitted(kind, request.params, later)
            except CallRefused as refusal:
                self._handler.warn_refused(kind, refusal)
                if kind != "elicitation":
                    raise
                answered[key] = {"action": "decline"}
        return answered


def _fault(server: str, params: Any) -> str | None:
    """Why a question must not be shown to a person."""
    if isinstance(params, types.ElicitRequestFormParams | types.ElicitRequestURLParams):
        return wire.elicitation(server, None, params).fault
    return None


def _missing(client: McpClient, kind: Kind, sent: JSONObject) -> str | None:
    """Why a client cannot be asked."""
    declared = client.capabilities.get(kind)
    if not isinstance(declared, dict):
        return f"the client does not support {kind}"
    if sent.get("mode") == "url" and "url" not in declared:
        return "the client does not support elicitation by URL"
    return None


def _model(kind: Kind, sent: JSONObject) -> type[BaseModel]:
    if kind == "elicitation":
        return types.ElicitResult
    if kind == "roots":
        return types.ListRootsResult
    return types.CreateMessageResultWithTools if sent.get("tools") else types.CreateMessageResult
