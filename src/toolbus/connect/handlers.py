"""Answer what servers ask: elicitation, sampling and roots, alike in both eras.

The SDK brings both eras here: the requests that a server of the legacy era sends, and the questions that
one of the modern era returns. Observers and guards see each of them as an operation. A handler that fails,
or takes too long, counts as a canceled question.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import mcp_types as types
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from toolbus.connect.deadlines import Deadlines
from toolbus.connect.in_flight import CallsInFlight
from toolbus.connect.sdk import wire
from toolbus.connect.sdk.input_required import request_text
from toolbus.core.elicitation import ELICITATION, Answer, Elicitation
from toolbus.core.errors import CallRefused, CallRejected, InputNeeded
from toolbus.core.events import Emit, InputAnswered, InputAsked, Warned
from toolbus.core.interactions import Interactions, Sampled, Sampling
from toolbus.core.operation import PROGRAM, Admit, Operation, admit_all, request_spec
from toolbus.core.records import Audio, Image, JSONObject, PromptMessage, Text

T = TypeVar("T")
logger = logging.getLogger("toolbus")
Kind = Literal["elicitation", "sampling", "roots"]
NO_ANSWER = object()
DECLINED = object()
METHODS: dict[Kind, str] = {
    "elicitation": ELICITATION,
    "sampling": "sampling/createMessage",
    "roots": "roots/list",
}
REFUSED = -1
"""The code for a person's no, where the protocol has no other way to say it."""


class RequestHandler:
    """Answers what one server asks."""

    def __init__(self, server: str, interactions: Interactions, emit: Emit, admit: Admit = admit_all) -> None:
        self._server = server
        self._admit = admit
        self._handlers = interactions
        """What is declared follows from them when a connection is made; roots may change after that."""
        self._emit = emit
        self._calls_in_flight = CallsInFlight()
        self._deadlines = Deadlines()

    def serve(self, session: ClientSession, calls_in_flight: CallsInFlight, deadlines: Deadlines) -> None:
        """From now on the server asks over another connection, in the midst of these calls."""
        self._calls_in_flight, self._deadlines = calls_in_flight, deadlines
        answered = session.dispatch_input_request

        async def dispatch(
            ctx: ClientRequestContext, request: types.InputRequest
        ) -> types.InputResponse | types.ErrorData:
            if request.method in self.handled:
                return await answered(ctx, request)
            # A server of the legacy era may ask although nothing was declared: the call tells, if it fails.
            asked = request_text(request)
            if (in_flight := calls_in_flight.current) is not None:
                in_flight.unanswered = asked
            return types.ErrorData(code=types.INVALID_REQUEST, message="nobody here answers that")

        session.dispatch_input_request = dispatch

    @property
    def handled(self) -> frozenset[str]:
        """The methods that have a handler."""
        handlers = {
            METHODS["elicitation"]: self._handlers.elicit,
            METHODS["sampling"]: self._handlers.sample,
            METHODS["roots"]: self._handlers.roots,
        }
        return frozenset(method for method, handler in handlers.items() if handler is not None)

    @property
    def callbacks(self) -> dict[str, Any]:
        """What the SDK's client takes; a callback is also how it knows what to declare."""
        handled = self.handled
        elicits = ELICITATION in handled or self._handlers.declares_elicitation
        return {
            "elicitation_callback": self._elicit if elicits else None,
            "sampling_callback": self._sample if "sampling/createMessage" in handled else None,
            "list_roots_callback": self._roots if "roots/list" in handled else None,
            "input_required_max_rounds": self._handlers.rounds,
        }

    def change_roots(self, roots: Sequence[str | Path] | None) -> None:
        """Answer with other folders from now on."""
        self._handlers = replace(self._handlers, roots=roots)

    @property
    def rounds(self) -> int:
        """How often a server may ask in one call."""
        return self._handlers.rounds

    async def responses(
        self, session: ClientSession, requests: JSONObject, answers: Mapping[str, Answer]
    ) -> dict[str, types.InputResponse]:
        """What a person said to requests, and what the handlers say to the rest.

        ValueError if an answer does not fit; `InputNeeded` if nobody answers.
        """
        said: dict[str, types.InputResponse] = {}
        for key, request in wire.inputs.validate_python(dict(requests)).items():
            if key in answers and isinstance(request, types.ElicitRequest):
                question = wire.elicitation(self._server, None, request.params)
                answer = answers[key]
                if answer.action == "accept" and question.fault is not None:
                    raise ValueError(question.fault)
                said[key] = wire.elicit_result(
                    question.accept(answer.content) if answer.action == "accept" else answer
                )
            elif request.method in self.handled:
                context = ClientRequestContext(session=session, request_id=key)
                response = await session.dispatch_input_request(context, request)
                if isinstance(response, types.ErrorData):
                    raise CallRejected(self._server, request.method, response.code, response.message)
                said[key] = response
            else:
                raise InputNeeded(self._server, f"question {key!r}", request_text(request))
        return said

    async def visited(self, session: ClientSession, error: MCPError) -> bool:
        """Whether a request was refused until a person has been to an address, and the person has been there.

        So do servers of the legacy era ask before a call begins.
        """
        if error.code != types.URL_ELICITATION_REQUIRED or ELICITATION not in self.handled:
            return False
        try:
            wanted = types.ElicitationRequiredErrorData.model_validate(error.data)
        except ValidationError:
            return False
        for number, params in enumerate(wanted.elicitations):
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
            return self._refused(problem)
        assert self._handlers.elicit is not None, "no handler, no callback"
        answer = await self._asked("elicitation", question.message, params, self._handlers.elicit, question)
        answer = self._checked(question, answer)
        self._tell("elicitation", answer.action)
        return wire.elicit_result(answer)

    def _checked(self, question: Elicitation, answer: object) -> Answer:
        """What the handler said, as far as it can be sent."""
        if answer is NO_ANSWER:
            return question.cancel()
        if answer is DECLINED:
            return question.decline()
        try:
            if not isinstance(answer, Answer):
                raise TypeError(f"an answer is an Answer, not {type(answer).__name__}")
            return question.accept(answer.content) if answer.action == "accept" else answer
        except (TypeError, ValueError) as error:
            self._warn(f"the answer to {question.message!r} was not sent: {error}")
            return question.cancel()

    async def _sample(
        self, context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        messages = wire.sampling_messages(params.messages)
        problem = self._too_many() or (
            None if messages else "what it gives a model to read is no text or picture"
        )
        if problem is not None or messages is None:
            return self._refused(problem or "")
        wanted = self._sampling(params, messages)
        assert self._handlers.sample is not None, "no handler, no callback"
        message = f"a model is to write up to {params.max_tokens} tokens"
        sampled = await self._asked("sampling", message, params, self._handlers.sample, wanted)
        if not isinstance(sampled, Sampled) or not isinstance(sampled.content, Text | Image | Audio):  # pyright: ignore[reportUnnecessaryIsInstance]  # a handler's
            self._tell("sampling", "decline")
            return types.ErrorData(code=REFUSED, message="sampling was declined")
        self._tell("sampling", "accept")
        return wire.sampled(sampled)

    def _sampling(
        self, params: types.CreateMessageRequestParams, messages: tuple[PromptMessage, ...]
    ) -> Sampling:
        preferences = params.model_preferences
        hints = (hint.name for hint in (preferences.hints if preferences else None) or ())
        return Sampling(
            server=self._server,
            tool=self._tool,
            messages=messages,
            max_tokens=params.max_tokens,
            system=params.system_prompt,
            temperature=params.temperature,
            stop=tuple(params.stop_sequences or ()),
            hints=tuple(name for name in hints if name),
        )

    async def _roots(self, context: ClientRequestContext) -> types.ListRootsResult | types.ErrorData:
        async def answer() -> types.ListRootsResult:
            roots = [
                {"uri": as_uri(root), "name": Path(str(root)).name} for root in self._handlers.roots or ()
            ]
            return types.ListRootsResult.model_validate({"roots": roots})

        try:
            result = await self._admit(self._operation("roots", None), answer)
        except CallRefused as refusal:
            self._tell("roots", "decline")
            return self._refused(refusal.reason)
        self._tell("roots", "accept")
        return result

    async def _asked(
        self,
        kind: Kind,
        message: str,
        params: types.ElicitRequestParams | types.CreateMessageRequestParams,
        handler: Callable[[T], Any],
        question: T,
    ) -> object:
        """The handler's answer; none if it fails, takes too long, or the call is over meanwhile."""
        self._emit(InputAsked(server=self._server, kind=kind, message=message, **self._about))
        within = asyncio.timeout(self._handlers.answer_within)
        over = False

        def end() -> None:
            nonlocal over
            over = True
            with suppress(RuntimeError):  # it is answered already
                within.reschedule(asyncio.get_running_loop().time())

        async def handle() -> object:
            answer = handler(question)
            return await cast("Awaitable[object]", answer) if inspect.isawaitable(answer) else answer

        try:
            with self._deadlines.paused():
                async with within:
                    self._calls_in_flight.when_over(end)
                    return await self._admit(self._operation(kind, params), handle)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            self._warn(f"the handler for {kind} was cancelled")
        except CallRefused as refusal:
            self._warn(f"its {kind} request was refused: {refusal.reason}")
            return DECLINED
        except Exception as error:  # a user's handler: without an answer the server would wait
            if isinstance(error, TimeoutError) and within.expired():
                if not over:
                    self._warn(f"nobody answered within {self._handlers.answer_within:g} s: {message}")
                return NO_ANSWER
            logger.exception("the handler for %s raised", kind)
            self._warn(f"the handler for {kind} raised {type(error).__name__}: {error}")
        return NO_ANSWER

    def _operation(
        self, kind: Kind, params: types.ElicitRequestParams | types.CreateMessageRequestParams | None
    ) -> Operation:
        """What the server asks, as observers and guards see it."""
        in_flight = self._calls_in_flight.current
        sent = params.model_dump(by_alias=True, mode="json", exclude_none=True) if params else {}
        return Operation(
            spec=request_spec(METHODS[kind], self._server, self._tool or ""),
            arguments=sent,
            caller=in_flight.caller if in_flight else PROGRAM,
        )

    def _too_many(self) -> str | None:
        """Why a server that asks without end, or without a reason, is not answered."""
        if not self._deadlines.busy and not self._calls_in_flight.any:
            return "nothing was asked of the server that it could need this for"
        limit = self._handlers.rounds
        enough = self._calls_in_flight.count_question() > limit
        return f"it has asked {limit} times in this call, which is enough" if enough else None

    def _refused(self, problem: str) -> types.ErrorData:
        self._warn(f"its question was refused: {problem}")
        return types.ErrorData(code=types.INVALID_PARAMS, message=problem)

    @property
    def _tool(self) -> str | None:
        in_flight = self._calls_in_flight.current
        return in_flight.tool if in_flight is not None else None

    @property
    def _about(self) -> dict[str, Any]:
        in_flight = self._calls_in_flight.current
        return {} if in_flight is None else {"id": in_flight.operation_id, "tool": in_flight.tool}

    def _tell(self, kind: Kind, action: str) -> None:
        self._emit(InputAnswered(server=self._server, kind=kind, action=action, **self._about))

    def _warn(self, message: str) -> None:
        logger.warning("server %r: %s", self._server, message)
        self._emit(Warned(server=self._server, message=message, tool=self._tool))


def as_uri(root: str | Path) -> str:
    """A folder as a root."""
    text = str(root)
    return text if text.startswith("file://") else Path(text).expanduser().resolve().as_uri()
