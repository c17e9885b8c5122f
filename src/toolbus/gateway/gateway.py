"""The gateway: answers the requests of clients from the servers of a bus."""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Self, TypeAlias

from toolbus.bus.inner import calls_of
from toolbus.bus.toolbus import Toolbus
from toolbus.bus.view import View
from toolbus.connect.transports.wire.messages import MAX_ID, is_usable_id
from toolbus.core.ask.question_router import QuestionRouter
from toolbus.core.operation.events import Event
from toolbus.core.values.errors import ToolbusError
from toolbus.core.values.records import JSON, JSONObject
from toolbus.gateway.calls.calls import ClientCalls
from toolbus.gateway.calls.parked import ParkedCalls
from toolbus.gateway.calls.queue import CallQueue
from toolbus.gateway.calls.request_state import RequestState
from toolbus.gateway.calls.tasks import ClientTasks
from toolbus.gateway.listening import Notifications
from toolbus.gateway.methods import LEGACY, MODERN, GatewayParts, Method, initialize_result, server_info
from toolbus.gateway.protocol.clients import ConnectedClients
from toolbus.gateway.protocol.principal import Principal
from toolbus.gateway.protocol.request import ClientExchange, ClientRequest, HeaderArguments
from toolbus.gateway.protocol.sessions import ClientSession, ClientSessions
from toolbus.gateway.protocol.view_listing import ViewListing
from toolbus.gateway.protocol.views import BudgetOf, ClientViews, ViewOf
from toolbus.gateway.protocol.words import (
    HANDSHAKE_VERSIONS,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    ProtocolError,
    declared_capabilities,
    for_legacy,
    for_modern,
    protocol_error,
)
from toolbus.gateway.settings import GatewayLimits
from toolbus.state.seal import KEY_BYTES, OneTimeUse, Seal
from toolbus.telemetry.serving import RequestArrival, ServerTelemetry

if TYPE_CHECKING:  # the first answer must not wait for the import of an HTTP client
    from toolbus.gateway.replicas.replicas import Replicas
    from toolbus.gateway.replicas.sessions import SessionFacts

OnEvent: TypeAlias = Callable[[Event, str], None]
"""Takes an event of a view, and the user whose it is; an event of several views comes once for each."""

logger = logging.getLogger("toolbus")
POLL_SECONDS = 0.05
"""Interval for looking at servers that start."""


class Gateway:
    """One MCP server in front of a bus, for clients of both eras; fronts bring it their requests.

    Use it as a context manager, on the loop of the bus. It starts the bus, and does not wait for that:
    lists do. Stopping the bus is the owner's.
    """

    def __init__(
        self,
        bus: Toolbus,
        settings: GatewayLimits | None = None,
        *,
        view_of: ViewOf | None = None,
        budget_of: BudgetOf | None = None,
        seal: Seal | None = None,
        spent: OneTimeUse | None = None,
        on_event: OnEvent | None = None,
        board: QuestionRouter | None = None,
        replicas: "Replicas | None" = None,
    ) -> None:
        """`view_of` gives the view of a principal, by default everything; `budget_of` limits its results.

        `seal` seals the state that clients carry for us, and `spent` remembers the approvals in it that were
        used. `on_event` gets the events of users and sessions, which are not events of the bus. People who
        watch `board` answer the questions of servers if a client cannot show forms. With `replicas`, other
        gateways find its sessions and calls.
        """
        self.bus = bus
        self.settings = settings = settings or GatewayLimits()
        self.replicas = replicas
        tag = "" if replicas is None else f"{replicas.id}-"
        self.sessions = ClientSessions(
            settings.max_sessions, settings.session_idle, settings.answer_within, tag=tag
        )
        """The sessions of legacy clients."""
        self.queue = CallQueue(settings.calls)
        """The calls of clients: who is next."""
        self._listening = Notifications(self.queue, settings)
        self._on_event = on_event
        self._views = ClientViews(bus, view_of, budget_of, self._take)
        self._parked = ParkedCalls(settings, replicas)
        seal = seal or Seal(os.urandom(KEY_BYTES))
        shared = None if replicas is None else replicas.tasks
        self._tasks = tasks = ClientTasks(seal, self._parked, settings.task_seconds, shared)
        rounds = RequestState(seal, settings.answer_within, spent or OneTimeUse())
        self._kernel = GatewayParts(
            settings=settings,
            calls=ClientCalls(rounds, self._parked, tasks, self.queue, board),
            tasks=tasks,
            listening=self._listening,
            mirroring=HeaderArguments(),
            started=self.started,
            listed=self._listed,
            is_stale=self._is_stale,
            fresh=self._fresh,
        )
        self._info = server_info(settings.name)
        self._telemetry = ServerTelemetry(bus.config.telemetry)
        self.clients: ConnectedClients | None = None
        """The clients that were seen, if somebody looks at them."""
        self._starting: asyncio.Task[None] | None = None
        self._asked = asyncio.Event()
        self._began = 0.0
        """The time when it began, by the clock of the loop."""

    async def __aenter__(self) -> Self:
        self._began = asyncio.get_running_loop().time()
        self._starting = asyncio.create_task(self._start(), name="toolbus gateway start")
        self._starting.add_done_callback(_log_failure)
        return self

    async def _start(self) -> None:
        if self.settings.first_within:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.settings.first_within):
                    await self._asked.wait()
        await self.bus.start()

    def answered(self) -> None:
        """A request was answered: the start of the servers need not wait for that any longer."""
        self._asked.set()

    async def __aexit__(self, *raised: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End sessions, streams and parked calls."""
        await self._tasks.close()
        self.sessions.close_all()
        self._parked.close()
        await self._listening.close()
        await self._views.close()
        if self._starting is not None and not self._starting.done():
            self._starting.cancel()
            with suppress(asyncio.CancelledError, ToolbusError):
                await self._starting

    def _take(self, offering: ViewListing, event: Event) -> None:
        self._listening.take(offering, event)
        if self._on_event is not None:
            self._on_event(event, offering.view.caller.user)

    async def started(self) -> None:
        """Wait until the bus has started; `ToolbusError` if it cannot."""
        if self._starting is not None and not self._starting.done():
            await asyncio.shield(self._starting)

    async def _listed(self, request: ClientRequest) -> None:
        self._asked.set()
        view, starting = request.client.offering.view, self._starting
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._began + self.settings.list_within):
                while (
                    starting is not None and not starting.done() and not all(calls_of(view).starting.values())
                ):
                    await asyncio.wait({starting}, timeout=POLL_SECONDS)
        if starting is not None and starting.done() and not starting.cancelled():
            starting.result()
            if request.exchange.principal.passed is not None:
                await calls_of(view).list_first(self.settings.list_within)

    def _is_stale(self, request: ClientRequest, server: str) -> bool:
        starting = self._starting
        return starting is not None and (
            not starting.done() or calls_of(request.client.view).is_assumed(server)
        )

    async def _fresh(self, request: ClientRequest, server: str) -> None:
        self._asked.set()
        while self._is_stale(request, server):
            if self.bus.running and not calls_of(request.client.view).is_assumed(server):
                return  # others are still starting
            if self._starting is not None and self._starting.done() and not self.bus.running:
                return
            await asyncio.sleep(POLL_SECONDS)

    async def answer(
        self,
        exchange: ClientExchange,
        method: str,
        params: JSONObject | None,
        methods: Mapping[str, Method] | None = None,
    ) -> JSONObject:
        """The result of a request; notifications about it go to `exchange.channel` before.

        `ProtocolError` is the error to send instead, `RequestCancelled` says that a legacy client has
        cancelled the request and gets nothing. Cancel the task if the client leaves, or if a modern
        client cancels: the server is told, and the call ends. `initialize` is not answered here.
        A `subscriptions/listen` ends only when it is cancelled, or when the gateway closes. By
        default, `methods` are the MCP methods of the client's era.
        """
        if methods is None:
            methods = MODERN if exchange.session is None else LEGACY
        if not self._telemetry.is_active:
            return await self._answer(exchange, method, params, methods)
        with self._telemetry.request(method, params, _inbound(exchange)) as span:
            result = await self._answer(exchange, method, params, methods)
            span.answered(result)
            return result

    async def _answer(
        self, exchange: ClientExchange, method: str, params: JSONObject | None, methods: Mapping[str, Method]
    ) -> JSONObject:
        session, answers = exchange.session, methods.get(method)
        if answers is None:
            raise ProtocolError(METHOD_NOT_FOUND, "Method not found", method[:MAX_ID])
        if not is_usable_id(exchange.meta.get("progressToken", 0)):
            what = f"the progressToken must be an integer or a text of at most {MAX_ID:,} characters"
            raise ProtocolError(INVALID_PARAMS, what)
        client = self._views.of(exchange.principal, session)
        if self.clients is not None:
            self.clients.saw(exchange, method)
        request = ClientRequest(exchange, method, {} if params is None else params, client)
        try:
            if session is None:
                return for_modern(await answers(self._kernel, request), self._info)
            with session.running(exchange.id):
                return for_legacy(await answers(self._kernel, request))
        except ToolbusError as error:
            raise protocol_error(error, modern=session is None) from error

    async def initialize(
        self, principal: Principal, params: JSONObject | None
    ) -> tuple[ClientSession, JSONObject]:
        """Open a session for a legacy client; returns it with the result of `initialize`.

        Give it a stream for messages that belong to no request: `session.standalone = channel`. A
        response of the client goes to `session.answered`; end it with `gateway.sessions.close(session.id)`.
        """
        given: JSONObject = {} if params is None else params
        wanted: JSON = given.get("protocolVersion")
        if not isinstance(wanted, str):
            raise ProtocolError(INVALID_PARAMS, "initialize needs a protocolVersion")
        negotiated = wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
        session = self.sessions.open(principal, negotiated, declared_capabilities(given))
        try:
            client = self._views.open(session)
            self._listening.open(session, client.offering, client.view)
            if self.clients is not None:
                self.clients.opened(session, given)
            return session, await initialize_result(
                self._kernel, client.offering, negotiated, session.capabilities
            )
        except BaseException:
            self.sessions.close(session.id)
            raise

    def restore(self, name: str, facts: "SessionFacts") -> ClientSession:
        """Go on with a session that another replica had; what its client may have missed is reported."""
        session = self.sessions.open(facts.principal, facts.version, facts.capabilities, name=name)
        session.log_level = facts.log_level
        client = self._views.open(session)
        self._listening.open(session, client.offering, client.view)
        self._listening.restore(session, facts.subscriptions)
        return session

    def doubt(self) -> None:
        """Verify sessions and tasks before they are used again: other replicas may have taken them over."""
        for session in self.sessions:
            session.is_doubtful = True
        self._tasks.doubt()

    async def check_tasks(self) -> None:
        await self._tasks.check()

    def drain(self) -> None:
        """Let no client wait for news of its calls any more; the calls go on."""
        self._parked.drain()

    async def wait_for_parked(self) -> None:
        await self._parked.wait_for_none()

    def notified(self, session: ClientSession, method: str, params: JSONObject | None) -> bool:
        """Take a notification of a legacy client: cancelled requests; others need nothing.

        Returns False if it is about a request that is not in flight here.
        """
        session.touch()
        if method == "notifications/cancelled" and params is not None:
            number: JSON = params.get("requestId")
            if isinstance(number, str | int):
                return session.cancel(number)
        return True

    def dismiss(self, principal: Principal) -> None:
        """End what a principal began: its key is not valid any more."""
        for session in self.sessions:
            if session.principal.bare.is_like(principal.bare):
                self.sessions.close(session.id)
        for call in self._parked.held_by(principal.holder):
            call.cancel()
            self._parked.drop(call)
        self._views.forget(principal)

    def view(self, principal: Principal) -> View:
        return self._views.of_principal(principal).view


def _inbound(exchange: ClientExchange) -> RequestArrival:
    return RequestArrival(
        request_id=exchange.id,
        transport="pipe" if exchange.headers is None else "tcp",
        headers=exchange.headers,
        protocol=exchange.version,
        session=None if exchange.session is None else exchange.session.id,
        principal=exchange.principal.id,
    )


def _log_failure(starting: asyncio.Task[None]) -> None:
    if not starting.cancelled() and (error := starting.exception()) is not None:
        logger.debug("the bus could not be started: %s", error)  # requests, and the owner, get the error
