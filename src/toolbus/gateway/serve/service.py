"""Run a bus and its gateway until they are told to stop; calls in flight are then given time to end."""

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from toolbus.bus.inner import tenant_of
from toolbus.bus.toolbus import Toolbus
from toolbus.config import BusConfig
from toolbus.config.settings.serve import Serve
from toolbus.core.ask.interactions import ClientError, Interactions, QuestionRouting
from toolbus.core.ask.question_router import QuestionRouter
from toolbus.core.collector import collect_rarely
from toolbus.core.values.records import JSONObject
from toolbus.gateway.access.views import Views
from toolbus.gateway.gateway import Gateway
from toolbus.gateway.http.workers import FIRST
from toolbus.gateway.protocol.principal import LOCAL
from toolbus.gateway.protocol.sessions import ClientSessions, SessionClient
from toolbus.gateway.protocol.words import INVALID_REQUEST
from toolbus.gateway.serve.follow import ConfigFollower
from toolbus.gateway.serve.program import ServeProgram
from toolbus.gateway.serve.signals import Stop, run_until, until_stopped
from toolbus.gateway.settings import GatewayLimits as Limits
from toolbus.gateway.stdio import serve_stdio

if TYPE_CHECKING:
    from toolbus.gateway.serve.front import HttpFront
    from toolbus.gateway.serve.workers import GatewayWorker

Chosen: TypeAlias = Callable[[BusConfig], Serve]
"""The `serve` of a config, changed by the options of the command; `ToolbusError` if it cannot be."""


async def serve(
    program: ServeProgram,
    config: BusConfig,
    chosen: Chosen,
    *,
    over_stdio: bool,
    began: int,
    worker: "GatewayWorker | None" = None,
) -> int:
    """Serve the config until stdin ends or a signal comes; returns the exit code.

    `chosen` is used instead of the config's own `serve`; `began` is the time before the config was read,
    in nanoseconds. With `worker`, this process is one of several.
    """
    collect_rarely()
    serve = chosen(config)
    if over_stdio:
        return await _serve(program, config, chosen, StdioFront(serve), began)
    from toolbus.gateway.serve.front import HttpFront
    from toolbus.gateway.serve.replica import opened_replica

    async with opened_replica(config, serve, worker) as replica:
        # First, before anything starts: it may be impossible.
        front = HttpFront(config.model_copy(update={"serve": serve}), program, replica, worker)
        return await _serve(program, config, chosen, front, began, worker)


async def _serve(
    program: ServeProgram,
    config: BusConfig,
    chosen: Chosen,
    front: "StdioFront | HttpFront",
    began: int,
    worker: "GatewayWorker | None" = None,
) -> int:
    serve, board, report = front.settings, QuestionRouter(), program.report
    bus = Toolbus(config, interactions=front.interactions(board), observers=program.observers)
    tenant_of(bus).assume(program.last_inventories(config))
    bus.on_event(report.on_event, calls=False)
    if "max_sessions" in serve.model_fields_set:
        bus.max_sessions = serve.max_sessions
    views = Views(bus, serve)

    async def use(fresh: BusConfig) -> str:
        finish = front.prepared(fresh.model_copy(update={"serve": chosen(fresh)}))
        await bus.reload(fresh)
        later = finish(views)
        return f"; {later}" if later else ""

    follower = ConfigFollower(config, began, use, report.add_line)

    async def run(stop: Stop) -> int:
        stop.limit = front.seconds_to_end
        with nullcontext() if worker is None else worker.following(stop):
            try:
                async with Gateway(
                    bus,
                    _limits(front),
                    view_of=views.view_of,
                    budget_of=views.budget_of,
                    seal=front.seal,
                    spent=front.spent,
                    on_event=report.on_event,
                    board=board,
                    replicas=front.replicas,
                ) as gateway:
                    announcing = _announce(gateway, program, front, worker)
                    serving = front.serve(gateway, stop.event, board, lambda: follower.problem)
                    await run_until([serving], announcing, follower.follow())
            finally:
                if bus.running:
                    program.save_listings(bus.config, bus)
                await bus.close()
        return 0

    return await until_stopped(run, only_begin=worker is not None)


class StdioFront:
    """The front of a gateway with one client; servers ask this client what they ask outside of calls.

    A server on a pipe does not say which of several calls a request of its belongs to.
    """

    seal = spent = replicas = call_limits = url = console_url = local_console_url = rest_url = None
    first_within = 0.3
    """Seconds for the first request; it is answered before anything else is imported or started.

    Some clients give up on a process that does not answer within a few seconds."""

    def __init__(self, serve: Serve) -> None:
        """The client gets the default view, under any name, and no other."""
        view = serve.view(serve.default_view)
        only = {} if view is None else {"views": {serve.default_view: view}}
        self._wanted = serve
        self._sessions: ClientSessions | None = None
        self.settings = serve.model_copy(update=only)
        self.seconds_to_end = serve.drain

    def interactions(self, board: QuestionRouter) -> Interactions:
        """The handlers of the bus: the client is asked."""
        return Interactions(_routing=QuestionRouting(forwards=True, client=self))

    def prepared(self, config: BusConfig) -> Callable[[Views], str]:
        """A function that uses another config, and returns what of its `serve` needs a restart."""

        def use(views: Views) -> str:
            views.use(self.settings)
            return "" if config.serve == self._wanted else "serve from the next start on"

        return use

    async def serve(self, gateway: Gateway, stop: asyncio.Event, *_for_a_console: object) -> None:
        """Serve until stdin ends, or it is to stop."""
        self._sessions = gateway.sessions
        await serve_stdio(gateway, stop=stop, drain=self.settings.drain)

    @property
    def capabilities(self) -> JSONObject:
        """The capabilities that the client declared; empty until it has connected."""
        client = self._client()
        return {} if client is None else client.capabilities

    async def ask(self, server: str, method: str, params: JSONObject) -> JSONObject:
        """Put a server's request to the client; `ClientError` if it cannot be asked."""
        client = self._client()
        if client is None:
            raise ClientError(INVALID_REQUEST, "there is no client to ask")
        return await client.ask(server, method, params)

    def _client(self) -> SessionClient | None:
        for session in self._sessions or ():
            if session.standalone is not None:
                return SessionClient(session, session.standalone)
        return None


def _limits(front: "StdioFront | HttpFront") -> Limits:
    serve = front.settings
    return Limits(
        max_sessions=serve.max_sessions,
        session_idle=serve.session_idle,
        calls=front.call_limits,
        max_parked=serve.max_tasks,
        max_subscriptions=serve.max_subscriptions,
        max_message=serve.max_body,
        max_values=serve.max_values,
        list_within=serve.list_within,
        first_within=front.first_within,
    )


async def _announce(
    gateway: Gateway, program: ServeProgram, front: "StdioFront | HttpFront", worker: "GatewayWorker | None"
) -> None:
    """Report the served tools, once the servers have started; raises if a required one has failed."""
    await gateway.started()
    program.save_listings(gateway.bus.config, gateway.bus)
    if worker is not None:
        await worker.ready()
        if worker.number != FIRST:
            return
    view = gateway.view(replace(LOCAL, view=front.settings.default_view))
    program.report.serving(view, front.settings, front.url, front.local_console_url, front.rest_url)
