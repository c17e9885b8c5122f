"""Forward requests to servers, for clients and servers of both eras, until there is an answer.

| client | server | questions of the server |
|---|---|---|
| modern | modern | are forwarded; the next round comes with the client's next request |
| modern | legacy | the call goes on in a task of its own, which the client's next request answers |
| legacy | modern | are put to the client on the stream of its request, and then comes the next round |
| legacy | legacy | are put to the client on the stream of its request |

A server that speaks both eras is a legacy one for legacy clients that can be asked (`bus/engine/eras.py`).
The same applies to REST clients.
"""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from toolbus.bus.catalog.exposure import RUN_CODE
from toolbus.bus.inner import calls_of
from toolbus.config.settings.limits import ServerLimits
from toolbus.core.ask.interactions import PEOPLE, ROUNDS, ClientError, Forwarding, McpClient, asking
from toolbus.core.ask.question_router import WATCHER, QuestionRouter
from toolbus.core.operation.operation import Caller, OnInput, Resumed
from toolbus.core.text.encoding import as_sent, contents_json
from toolbus.core.values.elicitation import QUESTION, Answer, Pending, question
from toolbus.core.values.errors import CallDenied, ServerRejected, too_many_questions
from toolbus.core.values.records import JSON, Budget, JSONObject, LogLevel, Text, ToolResult, received_of
from toolbus.gateway.calls.parked import ParkedCall, ParkedCalls
from toolbus.gateway.calls.queue import CallQueue, Slot
from toolbus.gateway.calls.request_state import (
    APPROVER,
    FIRST,
    RequestState,
    Round,
    approval,
    approved_before,
)
from toolbus.gateway.calls.tasks import ClientTasks
from toolbus.gateway.protocol.request import ClientRequest, PlainClient, Reports, RequestTarget
from toolbus.gateway.protocol.sessions import SessionClient
from toolbus.gateway.protocol.words import (
    ELICITATION,
    INVALID_PARAMS,
    URL_REQUIRED,
    ProtocolError,
    can_ask,
    can_be_asked,
    is_object,
    knows_tasks,
    object_in,
    over_quota,
    with_uris,
)
from toolbus.shape.budget import character_limit, fitted_blocks
from toolbus.shape.render import rendered

_FORM: JSONObject = {"mode": "form"}
_URL: JSONObject = {"mode": "url"}
ACTIONS = ("accept", "decline", "cancel")
Ending: TypeAlias = Callable[[Callable[[], Awaitable[ToolResult]]], Coroutine[Any, Any, ToolResult]]


class LendingClient:
    """A client whose call lends its room to others while the client is asked."""

    __slots__ = ("_client", "_most", "_slot", "capabilities")

    def __init__(self, client: McpClient, slot: Slot, most: int) -> None:
        """`most` is for the questions that the server may ask at a time."""
        self.capabilities = client.capabilities
        self._client = client
        self._slot = slot
        self._most = most

    async def ask(self, server: str, method: str, params: JSONObject) -> JSONObject:
        """Put a server's request to the client."""
        with self._slot.asking(self._most):
            return await self._client.ask(server, method, params)


class ConsoleClient:
    """The client of a call; what it cannot be asked goes to the console."""

    def __init__(self, client: McpClient, board: QuestionRouter, caller: Caller, tool: str) -> None:
        self.capabilities: JSONObject = {**client.capabilities, "elicitation": {"form": {}, "url": {}}}
        self._client = client
        self._board = board
        self._caller = caller
        self._tool = tool

    async def ask(self, server: str, method: str, params: JSONObject) -> JSONObject:
        """Put a server's request to the client, or to a person at the console, who may take any time."""
        if method != ELICITATION or can_ask(self._client.capabilities, method, params):
            return await self._client.ask(server, method, params)
        asked = replace(
            question(params, server, self._tool), user=self._caller.user, session=self._caller.session
        )
        if asked.fault is not None:
            raise ClientError(INVALID_PARAMS, asked.fault)
        answer = await self._board.elicit(asked)
        content: JSONObject = {} if answer.content is None else {"content": dict(answer.content)}
        return {"action": answer.action, **content}


class ClientCalls:
    """Forwards requests."""

    def __init__(
        self,
        rounds: RequestState,
        parked: ParkedCalls,
        tasks: ClientTasks,
        queue: CallQueue,
        board: QuestionRouter | None = None,
    ) -> None:
        self._rounds = rounds
        self._parked = parked
        self._tasks = tasks
        self._queue = queue
        self._board = board

    async def run(self, request: ClientRequest, target: RequestTarget) -> JSONObject:
        """The server's result for the client; or what it asks, if it is a modern client."""
        if not request.is_modern:
            return self._shown(request, target, await self._run_legacy(request, target))
        given = await self._rounds.opened(request, target)
        if given.declined is not None:
            raise CallDenied(f"{request.method} of {target.name!r}", given.declined)
        if given.parked is not None:
            return await self._go_on(request, target, given)
        try:
            return await self._run_modern(request, target, given)
        except ServerRejected as error:
            can_visit = can_ask(request.exchange.capabilities, ELICITATION, _URL)
            visit = (
                self._rounds.visit_first(request, target, error)
                if error.code == URL_REQUIRED and can_visit
                else None
            )
            if visit is None:
                raise
            return visit

    async def run_own(self, request: ClientRequest, target: RequestTarget) -> JSONObject:
        """Call a tool of the bus itself: a search, a script, a resource or prompt of a server as a tool."""
        slot = self._slot(request, target) or await self._turn(request, target)
        try:
            if target.spec.route == RUN_CODE:
                return await self._run_script(request, target)
            return as_sent(await calls_of(request.client.view).run(target.spec, target.arguments, keep=False))
        finally:
            slot.release()

    def begin(self, request: ClientRequest, target: RequestTarget, ended: Ending) -> ParkedCall:
        """Begin a call of a client that comes back for the result, and to answer what it is asked.

        `ended` makes the call, and may change its result or its error.
        """
        about = f"{request.method} of {target.name!r}"
        call = ParkedCall(self._parked, request.exchange, about, request.exchange.capabilities)
        call.reports.exchange = None
        call.start(ended(partial(self._made, request, target, call)))
        return call

    async def _made(self, request: ClientRequest, target: RequestTarget, call: ParkedCall) -> ToolResult:
        if target.spec.route == "tools/call":
            result = await self._driven(request, target, call, call.reports, task=call)
            return result if request.client.budget is None else _shortened(result, request.client.budget)
        slot = self._slot(request, target) or await self._turn(request, target)
        try:
            if target.spec.route == RUN_CODE:
                return await _finished_script(request, target, call)
            return await calls_of(request.client.view).run(target.spec, target.arguments, keep=False)
        finally:
            slot.release()

    async def _run_script(self, request: ClientRequest, target: RequestTarget) -> JSONObject:
        """The result of a script, once the client has answered the questions of its calls.

        A modern client carries the suspended script to its next request, which any gateway with the same
        state can answer. A legacy client is asked on the stream of its request.
        """
        if request.is_modern:
            given = await self._rounds.opened(request, target)
            if given.script is not None:
                result = await _resumed_script(request, given.script, given.responses or {})
            else:
                result = await _started_script(request, target, request.exchange.capabilities)
            if result.pending is not None:
                return self._rounds.needs_input(request, target, result.pending)
            return as_sent(result)
        client = SessionClient(request.session, request.exchange.channel)
        return as_sent(await _finished_script(request, target, client))

    # Modern clients

    async def _run_modern(self, request: ClientRequest, target: RequestTarget, given: Round) -> JSONObject:
        capabilities = request.exchange.capabilities
        is_legacy = request.client.offering.now.eras.get(target.server) != "modern"
        if is_legacy and capabilities:
            if target.is_task_only and knows_tasks(capabilities):
                return await self._start_task(request, target)
            if can_be_asked(capabilities):
                return await self._run_parked(request, target, given)
        reports = Reports(request.exchange)
        if not can_be_asked(capabilities) and not knows_tasks(capabilities):
            client = self._watched(request, target, PlainClient(capabilities))
            if client is not None:
                return self._shown(request, target, await self._driven(request, target, client, reports))
        slot = self._slot(request, target) or await self._turn(request, target)
        try:
            result = await calls_of(request.client.view).forward(
                target.spec,
                target.arguments,
                Forwarding(
                    client=PlainClient(capabilities),
                    meta=request.forwarded_meta,
                    log_level=request.exchange.log_level,
                    responses=given.responses,
                    state=given.state,
                    rounds=given.rounds,
                    counted=given.counted,
                    is_unlisted=target.is_unlisted,
                ),
                on_progress=reports.on_progress,
                on_log=reports.on_log,
                on_input=_asks(capabilities),
                resumed=None if given.script is None else _resumed(given.script, given),
                detached=not is_legacy and knows_tasks(capabilities),
                approval=given.approval,
            )
        finally:
            slot.release()
        return self._finished(request, target, result)

    def _finished(self, request: ClientRequest, target: RequestTarget, result: ToolResult) -> JSONObject:
        """The response to a modern client for a result."""
        pending = result.pending
        if pending is None:
            return self._shown(request, target, result)
        if pending.task is not None:
            received = received_of(result)
            assert received is not None, "it comes from a modern server"
            return self._tasks.relayed(request, target, pending.task, received.json)
        return self._rounds.needs_input(request, target, pending)

    async def _run_parked(self, request: ClientRequest, target: RequestTarget, given: Round) -> JSONObject:
        """Make a call that may wait for answers of the client."""
        exchange = request.exchange
        about = f"{request.method} of {target.name!r}"
        slot = self._slot(request, target) or await self._turn(request, target)
        call = ParkedCall(self._parked, exchange, about, exchange.capabilities)
        reports = call.reports
        forwarding = Forwarding(
            client=self._lending(request, target, call, slot),
            meta=request.forwarded_meta,
            log_level=exchange.log_level,
            is_unlisted=target.is_unlisted,
        )
        call.start(
            calls_of(request.client.view).forward(
                target.spec,
                target.arguments,
                forwarding,
                on_progress=reports.on_progress,
                on_log=reports.on_log,
                on_input=_asks(exchange.capabilities),
                approval=given.approval,
            ),
            slot.release,
        )
        return await self._follow(request, target, call)

    async def _go_on(self, request: ClientRequest, target: RequestTarget, given: Round) -> JSONObject:
        """Answer a call that waits, and wait for its result or for its next questions."""
        call = await self._parked.find(given.parked or "", request.exchange.principal.owner)
        if call is None:
            raise ProtocolError(INVALID_PARAMS, "Invalid requestState: the call has ended")
        call.answer(given.responses or {})
        return await self._follow(request, target, call)

    async def _follow(self, request: ClientRequest, target: RequestTarget, call: ParkedCall) -> JSONObject:
        call.reports.exchange = request.exchange
        try:
            if await call.wait():
                return self._finished(request, target, call.result())
        finally:
            call.reports.exchange = None
        return self._rounds.waits(request, target, call.id, call.requests)

    # Legacy clients

    async def _run_legacy(self, request: ClientRequest, target: RequestTarget) -> ToolResult:
        client = SessionClient(request.session, request.exchange.channel)
        watched = self._watched(request, target, client)
        return await self._driven(request, target, watched or client, Reports(request.exchange))

    def _watched(
        self, request: ClientRequest, target: RequestTarget, client: McpClient
    ) -> ConsoleClient | None:
        """The client, with somebody who answers for it; None if it has forms, or nobody watches."""
        is_watched = self._board is not None and self._board.is_watched
        if self._board is None or not is_watched or can_ask(client.capabilities, ELICITATION, _FORM):
            return None
        return ConsoleClient(client, self._board, request.client.view.caller, target.name)

    async def _start_task(self, request: ClientRequest, target: RequestTarget) -> JSONObject:
        call = await self.start_call(request, target, request.exchange.capabilities)
        return self._tasks.started(request, call)

    async def start_call(
        self,
        request: ClientRequest,
        target: RequestTarget,
        capabilities: JSONObject,
        ttl: float | None = None,
    ) -> ParkedCall:
        """Begin a call that the client follows as a task, for `ttl` milliseconds."""
        about = f"{request.method} of {target.name!r}"
        call = ParkedCall(self._parked, request.exchange, about, capabilities)
        call.reports.exchange = None
        call.is_task = True
        if not self._parked.keep(call):
            raise over_quota("max_tasks", "you have too many tasks and calls that wait for an answer")
        try:
            await self._tasks.prepare(call, ttl)
        except BaseException:
            self._parked.drop(call)
            raise
        call.start(self._driven(request, target, call, call.reports, task=call))
        return call

    async def _driven(
        self,
        request: ClientRequest,
        target: RequestTarget,
        client: McpClient,
        reports: Reports,
        task: ParkedCall | None = None,
    ) -> ToolResult:
        """Make a call, and put what its server asks to the client, until there is a result."""
        log_level: LogLevel | None = request.exchange.log_level
        if request.exchange.session is not None:
            log_level = request.exchange.session.log_level or "debug"
        given, resumed = FIRST, None
        for _ in range(ROUNDS + 2):  # once more for the approval, and for a task
            slot = self._slot(request, target) or await self._turn(request, target)
            forwarding = Forwarding(
                client=self._lending(request, target, client, slot),
                meta=request.forwarded_meta,
                log_level=log_level,
                responses=given.responses,
                state=given.state,
                rounds=given.rounds,
                counted=given.counted,
                is_unlisted=target.is_unlisted,
                is_followed=task is not None and can_be_asked(task.capabilities),
            )
            try:
                result = await calls_of(request.client.view).forward(
                    target.spec,
                    target.arguments,
                    forwarding,
                    on_progress=reports.on_progress if task is None else task.progressed,
                    on_log=reports.on_log,
                    on_input="ask" if resumed is not None else _on_input(client),
                    resumed=resumed if given.script is None else _resumed(given.script, given),
                    approval=given.approval,
                )
            finally:
                slot.release()
            pending = result.pending
            if pending is None:
                return result
            if pending.task is not None:  # suspended with a question; from now on they go to the client
                resumed = Resumed(pending=pending)
            else:
                given = await self._asked(client, target, pending)
        raise too_many_questions(target.server, f"{request.method} of {target.name!r}", ROUNDS)

    async def _asked(self, client: McpClient, target: RequestTarget, pending: Pending) -> Round:
        """The next round, with the client's answers."""
        answers = await _answers(client, pending, f"of server {pending.server!r}")
        responses: dict[str, JSON] = {**pending.answered, **answers}
        if pending.script is not None:
            return Round(responses=responses, script=pending, approval=approved_before(pending))
        if pending.call is not None:
            by = WATCHER if isinstance(client, ConsoleClient) else APPROVER
            return Round(approval=approval(pending.call, object_in(responses, QUESTION), by))
        return Round(
            responses=responses,
            state=pending.state,
            rounds=pending.rounds,
            counted=pending.counted,
            approval=approved_before(pending),
        )

    # Turns

    def _slot(self, request: ClientRequest, target: RequestTarget) -> Slot | None:
        """Room for a call; None if it has to wait for its turn."""
        server = target.server
        most = calls_of(request.client.view).most_at_once(server)
        return self._queue.take(request.exchange.principal.id, server, most)

    def _turn(self, request: ClientRequest, target: RequestTarget) -> Awaitable[Slot]:
        return self._queue.wait(request.exchange.principal.id, target.server)

    @staticmethod
    def _lending(
        request: ClientRequest, target: RequestTarget, client: McpClient, slot: Slot
    ) -> LendingClient:
        server = request.client.view.config.servers.get(target.server)
        return LendingClient(client, slot, (ServerLimits() if server is None else server.limits).requests)

    # Results

    def _shown(self, request: ClientRequest, target: RequestTarget, result: ToolResult) -> JSONObject:
        """A result as JSON, with the URIs that clients know, and within the budget of the view."""
        if not result.sent and target.name != target.spec.name:
            result = _in_words_of(target, result)
        if request.client.budget is not None and target.spec.route == "tools/call":
            result = _shortened(result, request.client.budget)
        sent = contents_json(result) if target.spec.route == "resources/read" else as_sent(result)
        return with_public_uris(request, target.server, sent)


def with_public_uris(request: ClientRequest, server: str, sent: JSONObject) -> JSONObject:
    """A result of a server with the URIs that clients know."""
    uris = request.client.offering.now.uris
    return sent if server not in uris.renaming else with_uris(sent, partial(uris.public_link, server))


def _in_words_of(target: RequestTarget, result: ToolResult) -> ToolResult:
    """The problem with a call that was not made, in the words of the client."""
    public, own = repr(target.spec.name), repr(target.name)
    content = (
        replace(one, text=one.text.replace(public, own)) for one in result.content if isinstance(one, Text)
    )
    return replace(result, content=tuple(content))


def _shortened(result: ToolResult, budget: Budget) -> ToolResult:
    """A result within a budget; the same if it is."""
    blocks = rendered(result, images=True, audio=True)
    if character_limit(budget, ToolResult(content=blocks).text) is None:
        return result
    return replace(result, content=fitted_blocks(blocks, budget, None), structured=None)


def _asks(capabilities: JSONObject) -> OnInput:
    """The way the policy asks: the client, or nobody if the client cannot show a form."""
    return "suspend" if can_ask(capabilities, ELICITATION, _FORM) else "ask"


def _on_input(client: McpClient) -> OnInput:
    """The same; who watches is asked by the bus itself, as an approval and not as a form."""
    return "ask" if isinstance(client, ConsoleClient) else _asks(client.capabilities)


async def _answers(client: McpClient, pending: Pending, where: str) -> dict[str, JSON]:
    """The client's answers to the requests; `where` names the asking call in messages."""
    answers: dict[str, JSON] = {}
    for key, asked in pending.requests.items():
        try:
            with asking(PEOPLE.get()):
                answers[key] = await client.ask(pending.server, asked["method"], object_in(asked, "params"))
        except ClientError as error:
            problem = f"the client answered: {error.message}"
            raise CallDenied(f"{asked['method']} {where}", problem) from error
    return answers


def _resumed(script: Pending, given: Round) -> Resumed:
    """The script that goes on in a round, with the client's answers."""
    responses = given.responses or {}
    answers = {key: _answer(object_in(responses, key)) for key in script.questions if key in responses}
    try:
        return Resumed.of(script, answers)
    except ValueError as error:  # an answer is missing, or does not fit its form
        raise ProtocolError(INVALID_PARAMS, str(error)) from error


async def _finished_script(request: ClientRequest, target: RequestTarget, client: McpClient) -> ToolResult:
    """The result of a script, once the client has answered its questions."""
    result = await _started_script(request, target, client.capabilities)
    while (pending := result.pending) is not None:  # a script makes only so many calls
        result = await _resumed_script(request, pending, await _answers(client, pending, "in a script"))
    return result


async def _started_script(
    request: ClientRequest, target: RequestTarget, capabilities: JSONObject
) -> ToolResult:
    scripts, reports = request.client.view.scripts, Reports(request.exchange)
    on_input = _asks(capabilities)
    result = await scripts.run_for_model(target.arguments, on_input, reports.on_progress)
    if result.pending is None or on_input == "suspend":
        return result
    problem = f"the script was stopped: {result.pending}; this client cannot show the question"
    return replace(result, content=(Text(text=problem),), is_error=True, pending=None)


async def _resumed_script(request: ClientRequest, pending: Pending, responses: JSONObject) -> ToolResult:
    answers = {key: _answer(object_in(responses, key)) for key in pending.questions if key in responses}
    on_progress = Reports(request.exchange).on_progress
    try:
        return await request.client.view.resume(pending, answers, on_progress=on_progress)
    except ValueError as error:  # an answer is missing, or does not fit its form
        raise ProtocolError(INVALID_PARAMS, str(error)) from error


def _answer(response: JSONObject) -> Answer:
    action: JSON = response.get("action")
    content: JSON = response.get("content")
    if action not in ACTIONS or not (content is None or is_object(content)):
        raise ProtocolError(INVALID_PARAMS, "an answer needs an action, and its content as an object")
    return Answer(action=action, content=content)
