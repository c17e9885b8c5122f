"""Answer the requests of servers: elicitation, sampling and roots, in both eras.

The SDK calls this for both eras: for requests that a legacy server sends, and for those that a modern server
returns. Requests that belong to an MCP client go to that client, the others to the host's handlers. Observers
and guards see each of them as an operation. If a handler fails or takes too long, the request is treated as
cancelled.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import mcp_types as types
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, ValidationError

from toolbus.connect.deadlines import Deadline, Deadlines
from toolbus.connect.in_flight import CallsInFlight
from toolbus.connect.sdk import wire
from toolbus.connect.sdk.input_required import request_text
from toolbus.core.ask.interactions import (
    REFUSED_BY_GUARD,
    ClientError,
    Interactions,
    McpClient,
    SamplingResult,
    asking,
    routing_of,
)
from toolbus.core.operation.events import Emit, InputAnswered, InputAsked, warn
from toolbus.core.operation.operation import PROGRAM, Admit, Caller, Operation, admit_all, request_spec
from toolbus.core.text.text import cleaned
from toolbus.core.values.elicitation import ELICITATION, Answer, Elicitation
from toolbus.core.values.errors import NOBODY_ANSWERS, CallDenied, InputNeeded, ServerRejected
from toolbus.core.values.records import JSON, Audio, Image, JSONObject, Text, ToolResult

T = TypeVar("T")
logger = logging.getLogger("toolbus")
Kind = Literal["elicitation", "sampling", "roots"]
Asked = types.ElicitRequestParams | types.CreateMessageRequestParams | types.RequestParams | None
NO_ANSWER = object()
"""The outcome of a request that nobody answered."""
DECLINED = object()
"""The outcome of a request that a guard refused."""
METHODS: dict[Kind, str] = {
    "elicitation": ELICITATION,
    "sampling": "sampling/createMessage",
    "roots": "roots/list",
}
KINDS: dict[str, Kind] = {method: kind for kind, method in METHODS.items()}
_MESSAGES: dict[Kind, str] = {
    "sampling": "requests a completion from a model",
    "roots": "requests the folders that it may access",
}
USER_DECLINED = -1
"""The code for a request that the user declined, where the protocol has no other way to express it."""


class RequestHandler:
    """Answers the requests of one server."""

    def __init__(self, server: str, interactions: Interactions, emit: Emit, admit: Admit = admit_all) -> None:
        self._server = server
        self._admit = admit
        self.interactions = interactions
        """They determine which capabilities a new connection declares; roots may change later."""
        self._emit = emit
        self._calls_in_flight = CallsInFlight()
        self._deadlines = Deadlines()
        self._asked: list[McpClient] = []
        """The MCP clients that are being asked."""

    def paused(self) -> AbstractContextManager[None]:
        """Pause the deadlines of the requests to the server while a person does something."""
        return self._deadlines.paused()

    def connecting(self, seconds: float) -> Deadline:
        self._deadlines = Deadlines()
        return self._deadlines.limit(seconds)

    def serve(self, session: ClientSession, calls_in_flight: CallsInFlight, deadlines: Deadlines) -> None:
        """Serve a new connection, with its calls in flight and deadlines."""
        self._calls_in_flight, self._deadlines = calls_in_flight, deadlines
        sdk_dispatch = session.dispatch_input_request

        async def dispatch(
            ctx: ClientRequestContext, request: types.InputRequest
        ) -> types.InputResponse | types.ErrorData:
            if routing_of(self.interactions).forwards and not calls_in_flight.are_own:
                return await self._forward(request)
            if request.method in self._answered_here:
                return await sdk_dispatch(ctx, request)
            # A legacy server may ask although nothing was declared; if the call fails, its error explains it.
            if isinstance(request, types.ElicitRequest) and await self._is_denied(request.params):
                return types.ElicitResult(action="decline")
            if (in_flight := calls_in_flight.current) is not None:
                in_flight.unanswered = request_text(request)
            return types.ErrorData(code=types.INVALID_REQUEST, message=NOBODY_ANSWERS)

        session.dispatch_input_request = dispatch

    async def _is_denied(self, params: types.ElicitRequestParams) -> bool:
        """Whether guards refuse a question that nobody can be asked; then it is declined as any other."""

        async def unanswered() -> None:
            raise InputNeeded(self._server, "a question", cleaned(params.message))

        try:
            await self._admit(self._operation("elicitation", params), unanswered)
        except CallDenied as refusal:
            self._warn_refused("elicitation", refusal)
            return True
        except Exception as error:  # of a guard: without a response the server would wait
            if not isinstance(error, InputNeeded):
                logger.exception("a guard raised for a question")
        return False

    @property
    def handled(self) -> frozenset[str]:
        """The methods that have a handler, ours or a client's."""
        return frozenset(METHODS.values()) if routing_of(self.interactions).forwards else self._answered_here

    @property
    def _answered_here(self) -> frozenset[str]:
        """The methods that have a handler of the host, for the call that a message belongs to."""
        reaches = routing_of(self.interactions).reaches
        is_reached = reaches is None or reaches(self._caller.session)
        handlers = {
            METHODS["elicitation"]: self.interactions.elicit if is_reached else None,
            METHODS["sampling"]: self.interactions.sample,
            METHODS["roots"]: self.interactions.roots,
        }
        return frozenset(method for method, handler in handlers.items() if handler is not None)

    @property
    def client_options(self) -> dict[str, Any]:
        """Options for the SDK's client; it declares a capability for each callback."""
        handled = self.handled
        elicits = ELICITATION in handled or self.interactions.declares_elicitation
        return {
            "elicitation_callback": self._elicit if elicits else None,
            "sampling_callback": self._sample if "sampling/createMessage" in handled else None,
            "list_roots_callback": self._roots if "roots/list" in handled else None,
            "input_required_max_rounds": self.interactions.rounds,
        }

    def change_roots(self, roots: Sequence[str | Path] | None) -> None:
        self.interactions = replace(self.interactions, roots=roots)

    @property
    def question_limit(self) -> int:
        return self.interactions.rounds

    async def responses(
        self, session: ClientSession, requests: JSONObject, answers: Mapping[str, Answer]
    ) -> dict[str, types.InputResponse]:
        """The person's answers to requests, and the handlers' answers to the rest.

        ValueError if an answer is invalid; `InputNeeded` if a request has no handler.
        """
        responses: dict[str, types.InputResponse] = {}
        for key, request in wire.inputs.validate_python(dict(requests)).items():
            if key in answers and isinstance(request, types.ElicitRequest):
                responses[key] = wire.elicit_result(await self._given(request.params, answers[key]))
            elif request.method in self.handled:
                context = ClientRequestContext(session=session, request_id=key)
                response = await session.dispatch_input_request(context, request)
                if isinstance(response, types.ErrorData):
                    raise ServerRejected(self._server, request.method, response.code, response.message)
                responses[key] = response
            else:
                raise InputNeeded(self._server, f"question {key!r}", request_text(request))
        return responses

    async def _given(self, params: types.ElicitRequestParams, answer: Answer) -> Answer:
        """A person's answer to a question that was asked before; declined if a guard refuses it now."""
        question = wire.elicitation(self._server, None, params)
        if answer.action == "accept":
            if question.fault is not None:
                raise ValueError(question.fault)
            answer = question.accept(answer.content)

        return question.decline() if await self._refusal("elicitation", params, answer) else answer

    async def declined(self, suspended: ToolResult) -> dict[str, Answer] | None:
        """Answers that decline all questions of a suspended call, if guards refuse to put them to a person.

        None if a person is to answer one of them.
        """
        assert suspended.pending is not None, "it is suspended"
        refused: dict[str, Answer] = {}

        for key, request in wire.inputs.validate_python(dict(suspended.pending.requests)).items():
            if isinstance(request, types.ElicitRequest) and await self._refusal(
                "elicitation", request.params, suspended
            ):
                refused[key] = Answer(action="decline")
        return refused if len(refused) == len(suspended.pending.questions) else None

    async def ask_to_visit(self, session: ClientSession, error: MCPError) -> bool:
        """Ask the user to visit the URLs that a legacy server requires first; True if they accepted."""
        if error.code != types.URL_ELICITATION_REQUIRED or ELICITATION not in self._answered_here:
            return False
        try:
            required = types.ElicitationRequiredErrorData.model_validate(error.data)
        except ValidationError:
            return False
        for number, params in enumerate(required.elicitations):
            context = ClientRequestContext(session=session, request_id=f"visit-{number}")
            answer = await self._elicit(context, params)
            if isinstance(answer, types.ErrorData) or answer.action != "accept":
                return False
        return True

    async def _elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        question = wire.elicitation(self._server, self._tool, params)
        problem = self._too_many() or question.fault
        if problem is not None:
            return self._refuse("elicitation", problem)
        elicit = self.interactions.elicit
        assert elicit is not None, "no handler, no callback"
        question = replace(question, user=self._caller.user, session=self._caller.session)

        async def checked(question: Elicitation) -> Answer:
            given = elicit(question)
            return self._checked(question, await given if inspect.isawaitable(given) else given)

        asked = await self._ask("elicitation", question.message, params, checked, question)
        answer = _answer_of(question, asked)
        self._emit_answered("elicitation", answer.action)
        return wire.elicit_result(answer)

    def _checked(self, question: Elicitation, answer: object) -> Answer:
        """The handler's answer; cancelled if it is invalid."""
        try:
            if not isinstance(answer, Answer):
                raise TypeError(f"it must be an Answer, not {type(answer).__name__}")
            return question.accept(answer.content) if answer.action == "accept" else answer
        except (TypeError, ValueError) as error:
            self._warn(f"the answer to {question.message!r} was not sent: {error}")
            return question.cancel()

    async def _sample(
        self, context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        messages = wire.sampling_messages(params.messages)
        if (problem := self._too_many()) is not None:
            return self._refuse("sampling", problem)
        if not messages:
            return self._refuse("sampling", "its messages must be text, images or audio")
        request = wire.sampling(self._server, self._tool, self._caller, params, messages)
        assert self.interactions.sample is not None, "no handler, no callback"
        message = f"requests up to {params.max_tokens} tokens from a model"
        sampled = await self._ask("sampling", message, params, self.interactions.sample, request)
        if not isinstance(sampled, SamplingResult) or not isinstance(sampled.content, Text | Image | Audio):  # pyright: ignore[reportUnnecessaryIsInstance]  # a handler's
            self._emit_answered("sampling", "decline")
            return types.ErrorData(code=USER_DECLINED, message="sampling was declined")
        self._emit_answered("sampling", "accept")
        return wire.sampled(sampled)

    async def _roots(self, context: ClientRequestContext) -> types.ListRootsResult | types.ErrorData:
        result = await self._ask("roots", _MESSAGES["roots"], None, wire.roots, self.interactions.roots or ())
        if not isinstance(result, types.ListRootsResult):
            self._emit_answered("roots", "decline")
            return types.ErrorData(code=USER_DECLINED, message="the roots were declined")
        self._emit_answered("roots", "accept")
        return result

    # For an MCP client

    async def _forward(self, request: types.InputRequest) -> types.InputResponse | types.ErrorData:
        """The client's answer to a request of a legacy server."""
        kind, params = KINDS[request.method], request.params
        client = self._calls_in_flight.client(self._asked) or routing_of(self.interactions).client
        if client is None:
            return self._refuse(
                kind, "it cannot be told which client it is for; set per_session for this server"
            )
        sent = {} if params is None else params.model_dump(by_alias=True, mode="json", exclude_none=True)
        if (missing := _missing(client, kind, sent)) is not None:
            # With what a modern client gets to know, if the server passes the error on.
            modes: JSONObject = {str(sent.get("mode") or "form"): {}} if kind == "elicitation" else {}
            data: JSONObject = {"requiredCapabilities": {kind: modes}}
            return types.ErrorData(code=types.INVALID_REQUEST, message=missing, data=data)
        if (problem := self._too_many() or _fault(self._server, params)) is not None:
            return self._refuse(kind, problem)
        message = sent.get("message") or _MESSAGES[kind]

        async def ask(given: JSONObject) -> JSONObject | ClientError:
            self._asked.append(client)
            try:
                return await client.ask(self._server, request.method, given)
            except ClientError as error:
                return error
            finally:
                self._asked.remove(client)

        answer = await self._ask(kind, message, params, ask, sent)
        return self._client_response(kind, sent, answer)

    def _client_response(
        self, kind: Kind, sent: JSONObject, answer: object
    ) -> types.InputResponse | types.ErrorData:
        if isinstance(answer, ClientError):
            self._emit_answered(kind, "cancel")
            return types.ErrorData(code=answer.code, message=answer.message, data=answer.data)
        if isinstance(answer, dict):
            try:
                response = _model(kind, sent).model_validate(answer, by_name=False)
            except ValidationError:
                return self._refuse(kind, f"the client's answer is not a valid result of {kind}")
            self._emit_answered(kind, getattr(response, "action", "accept"))
            return response  # pyright: ignore[reportReturnType]  # one of the models below
        declined = answer is DECLINED
        self._emit_answered(kind, "decline" if declined else "cancel")
        if kind == "elicitation":
            return types.ElicitResult(action="decline" if declined else "cancel")
        return types.ErrorData(code=-1, message=f"{kind} was declined")

    async def refused(self, requests: Mapping[str, types.InputRequest]) -> dict[str, JSON]:
        """Responses to requests of a modern server that guards refuse; `CallDenied` if there is no such."""
        answered: dict[str, JSON] = {}

        for key, request in requests.items():
            kind = KINDS[request.method]
            if (fault := _fault(self._server, request.params)) is not None:
                raise MCPError(types.INVALID_PARAMS, fault)
            if refusal := await self._refusal(kind, request.params):
                if kind != "elicitation":
                    raise refusal
                answered[key] = {"action": "decline"}
        return answered

    # For both

    async def _refusal(self, kind: Kind, params: Asked, outcome: object = None) -> CallDenied | None:
        """The refusal of the guards, for a request that nobody is asked now; observers see this outcome."""

        async def later() -> object:
            return outcome

        try:
            await self._admit(self._operation(kind, params), later)
        except CallDenied as refusal:
            self._warn_refused(kind, refusal)
            return refusal
        return None

    async def _ask(
        self,
        kind: Kind,
        message: str,
        params: Asked,
        handler: Callable[[T], Any],
        question: T,
    ) -> object:
        """The handler's answer; `NO_ANSWER` if it fails, takes too long, or the call ends first."""
        self._emit(InputAsked(server=self._server, kind=kind, message=message, **self._about))
        within = asyncio.timeout(self.interactions.answer_within)
        over = False

        def end() -> None:
            nonlocal over
            over = True
            with suppress(RuntimeError):  # already answered
                within.reschedule(asyncio.get_running_loop().time())

        async def handle() -> object:
            answer = handler(question)
            return await cast("Awaitable[object]", answer) if inspect.isawaitable(answer) else answer

        try:
            with self._deadlines.paused(), self._asking(kind):
                async with within:
                    self._calls_in_flight.when_over(end)
                    return await self._admit(self._operation(kind, params), handle)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            self._warn(f"the handler for {kind} was cancelled")
        except CallDenied as refusal:
            self._warn_refused(kind, refusal)
            return DECLINED
        except Exception as error:  # a user's handler: without a response the server would wait
            if isinstance(error, TimeoutError) and within.expired():
                if not over:
                    self._warn(f"no answer within {self.interactions.answer_within:g} s: {message}")
                return NO_ANSWER
            logger.exception("the handler for %s raised", kind)
            self._warn(f"the handler for {kind} raised {type(error).__name__}: {error}")
        return NO_ANSWER

    def _asking(self, kind: Kind) -> AbstractContextManager[None]:
        """Count the time of a question for its call; a model that samples is no person."""
        in_flight = self._calls_in_flight.current
        return asking(None if in_flight is None or kind != "elicitation" else in_flight.people)

    def _operation(self, kind: Kind, params: Asked) -> Operation:
        """The server's request, as observers and guards see it."""
        sent = params.model_dump(by_alias=True, mode="json", exclude_none=True) if params else {}
        in_flight = self._calls_in_flight.current
        return Operation(
            spec=request_spec(METHODS[kind], self._server, self._tool or ""),
            arguments=sent,
            caller=self._caller,
            during=None if in_flight is None else in_flight.operation_id,
            policies=() if in_flight is None else in_flight.policies,
        )

    def _too_many(self) -> str | None:
        """The reason to refuse a request: no call needs it, or there were too many; otherwise None."""
        if not self._deadlines.busy and not self._calls_in_flight.busy:
            return None if routing_of(self.interactions).client is not None else "no request is in flight"
        limit = self.interactions.rounds
        exceeded = self._calls_in_flight.count_question() > limit
        return f"it asked more than {limit} times in one call" if exceeded else None

    def _refuse(self, kind: Kind, problem: str) -> types.ErrorData:
        self._warn(f"its {kind} request was refused: {problem}")
        return types.ErrorData(code=types.INVALID_PARAMS, message=problem)

    @property
    def _tool(self) -> str | None:
        in_flight = self._calls_in_flight.current
        return in_flight.tool if in_flight is not None else None

    @property
    def _caller(self) -> Caller:
        in_flight = self._calls_in_flight.current
        return PROGRAM if in_flight is None else in_flight.caller

    @property
    def _about(self) -> dict[str, Any]:
        in_flight = self._calls_in_flight.current
        return {} if in_flight is None else {"id": in_flight.operation_id, "tool": in_flight.tool}

    def _emit_answered(self, kind: Kind, action: str) -> None:
        self._emit(InputAnswered(server=self._server, kind=kind, action=action, **self._about))

    def _warn_refused(self, kind: Kind, refusal: CallDenied) -> None:
        self._warn(f"its {kind} {REFUSED_BY_GUARD}{refusal.reason}")

    def _warn(self, message: str) -> None:
        warn(self._emit, self._server, message, self._tool)


def _answer_of(question: Elicitation, asked: object) -> Answer:
    """The answer to a question, as the server gets it."""
    if isinstance(asked, Answer):
        return asked
    return question.decline() if asked is DECLINED else question.cancel()


def _fault(server: str, params: Any) -> str | None:
    """The reason why a question must not be shown to a person."""
    if isinstance(params, types.ElicitRequestFormParams | types.ElicitRequestURLParams):
        return wire.elicitation(server, None, params).fault
    return None


def _missing(client: McpClient, kind: Kind, sent: JSONObject) -> str | None:
    """The reason why a client cannot be asked."""
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
