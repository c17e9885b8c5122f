"""Run a bus and its gateway until they are told to stop; calls in flight are then given time to end."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from toolbus.bus.toolbus import Toolbus
from toolbus.config import BusConfig
from toolbus.config.settings.serve import Serve
from toolbus.core.ask.interactions import ClientError, Interactions
from toolbus.core.ask.question_router import QuestionRouter
from toolbus.core.collector import collect_rarely
from toolbus.core.values.errors import ToolbusError
from toolbus.core.values.records import JSONObject
from toolbus.gateway.access.views import Views
from toolbus.gateway.gateway import Gateway
from toolbus.gateway.http.workers import FIRST
from toolbus.gateway.protocol.clients import SessionClient
from toolbus.gateway.protocol.principal import LOCAL
from toolbus.gateway.protocol.sessions import ClientSessions
from toolbus.gateway.protocol.words import INVALID_REQUEST
from toolbus.gateway.serve.follow import Stamps, file_stamps, read_again, stamps_at_start
from toolbus.gateway.serve.program import ServeProgram, ServeReport
from toolbus.gateway.serve.signals import Stop, stop_signals
from toolbus.gateway.settings import GatewayLimits as Limits
from toolbus.gateway.stdio import serve_stdio

if TYPE_CHECKING:
    from toolbus.gateway.serve.front import HttpFront
    from toolbus.gateway.serve.workers import GatewayWorker

Chosen: TypeAlias = Callable[[BusConfig], Serve]
"""The `serve` of a config, changed by the options of the command; `ToolbusError` if it cannot be."""
FIRST_WITHIN = 0.3
"""Seconds for the first request over stdio; it is answered before anything else is imported or started."""
POLL_SECONDS = 1.0
"""Interval for checking the config file."""


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
        return await _serve(program, config, chosen, None, began)
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
    front: "HttpFront | None",
    began: int,
    worker: "GatewayWorker | None" = None,
) -> int:
    serve, client, board, over_stdio = chosen(config), StdioClient(), QuestionRouter(), front is None
    bus = _new_bus(config, _interactions(front, client, board), serve, program)
    offered = _only_view(serve) if over_stdio else serve
    views = Views(bus, offered)

    def prepared(fresh: BusConfig) -> Callable[[], str]:
        wanted = chosen(fresh)
        if front is not None:
            return partial(front.prepared(fresh.model_copy(update={"serve": wanted})), views)
        return lambda: views.use(offered) or ("" if wanted == serve else "serve from the next start on")

    seal, spent = (None, None) if front is None else (front.seal, front.spent)
    with stop_signals(only_begin=worker is not None) as stop, _following(worker, stop):
        stop.limit = serve.drain + (0.0 if over_stdio or config.store is None else config.store.notice)
        try:
            async with Gateway(
                bus,
                _limits(serve, front),
                view_of=views.view_of,
                budget_of=views.budget_of,
                seal=seal,
                spent=spent,
                on_event=program.report.on_event,
                board=board,
                replicas=None if front is None else front.replicas,
            ) as gateway:
                client.sessions = gateway.sessions
                following = _follow_config(
                    bus, config, stamps_at_start(config, began), program.report, prepared
                )
                if front is None:
                    serving = serve_stdio(gateway, stop=stop.event, drain=serve.drain)
                else:
                    serving = front.serve(gateway, stop.event, board)
                await _until_first(serving, _announce(gateway, program, serve, front, worker), following)
        except asyncio.CancelledError:
            if not stop.is_forced:
                raise
            return 128 + stop.number
        finally:
            if bus.running:
                program.save_listings(bus.config, bus)
            await bus.stop()
    return 0


class StdioClient:
    """For `Interactions(forwards=True, client=...)` of a bus whose gateway has one client.

    A server on a pipe does not say which of several calls a request of its belongs to.
    """

    def __init__(self) -> None:
        self.sessions: ClientSessions | None = None
        """Those of the gateway, once there is one."""

    @property
    def capabilities(self) -> JSONObject:
        """What the client declared; empty until it has connected."""
        client = self._client()
        return {} if client is None else client.capabilities

    async def ask(self, server: str, method: str, params: JSONObject) -> JSONObject:
        """Put a server's request to the client; `ClientError` if it cannot be asked."""
        client = self._client()
        if client is None:
            raise ClientError(INVALID_REQUEST, "there is no client to ask")
        return await client.ask(server, method, params)

    def _client(self) -> SessionClient | None:
        for session in self.sessions or ():
            if session.standalone is not None:
                return SessionClient(session, session.standalone)
        return None


def _interactions(front: "HttpFront | None", client: StdioClient, board: QuestionRouter) -> Interactions:
    interactions = Interactions(forwards=True, client=client if front is None else None)
    if front is None or front.console_url is None:
        return interactions
    # Clients of the gateway that support forms are asked themselves; the console is asked for the others.
    return board.interactions(replace(interactions, approver="console"))


def _limits(serve: Serve, front: "HttpFront | None") -> Limits:
    calls = None if front is None else front.call_limits
    return Limits(
        max_sessions=serve.max_sessions,
        session_idle=serve.session_idle,
        calls=calls,
        max_parked=serve.max_tasks,
        max_subscriptions=serve.max_subscriptions,
        max_message=serve.max_body,
        max_values=serve.max_values,
        list_within=serve.list_within,
        # Over stdio, some clients give up on a process that does not answer within a few seconds.
        first_within=FIRST_WITHIN if front is None else 0.0,
    )


def _new_bus(config: BusConfig, interactions: Interactions, serve: Serve, program: ServeProgram) -> Toolbus:
    bus = Toolbus(config, interactions=interactions)
    bus.assume(program.last_inventories(config))
    bus.on_event(program.report.on_event, calls=False)
    if "max_sessions" in serve.model_fields_set:
        bus.max_sessions = serve.max_sessions
    return bus


def _only_view(serve: Serve) -> Serve:
    """The settings with the default view alone: the only client gets it, whatever it is called."""
    view = serve.view(serve.default_view)
    return serve if view is None else serve.model_copy(update={"views": {serve.default_view: view}})


async def _until_first(front: Coroutine[Any, Any, None], *beside: Coroutine[Any, Any, None]) -> None:
    """Run all until the front ends; an error of any of them ends all."""
    serving = asyncio.create_task(front)
    tasks = {serving, *map(asyncio.create_task, beside)}
    waiting = set(tasks)
    try:
        while not serving.done():
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _following(worker: "GatewayWorker | None", stop: Stop) -> AbstractContextManager[None]:
    return nullcontext() if worker is None else worker.following(stop)


async def _announce(
    gateway: Gateway,
    program: ServeProgram,
    serve: Serve,
    front: "HttpFront | None",
    worker: "GatewayWorker | None",
) -> None:
    """Report what is served, once the servers are there; raises if a required one is not."""
    await gateway.started()
    program.save_listings(gateway.bus.config, gateway.bus)
    if worker is not None:
        await worker.ready()
        if worker.number != FIRST:
            return
    url, console = (None, None) if front is None else (front.url, front.console_url)
    program.report.serving(gateway.view(replace(LOCAL, view=serve.default_view)), serve, url, console)


async def _follow_config(
    bus: Toolbus,
    config: BusConfig,
    seen: Stamps,
    report: ServeReport,
    prepared: Callable[[BusConfig], Callable[[], str]],
) -> None:
    """Read the config again when it changes, and report what cannot be used.

    `prepared` raises if its `serve` cannot; what it returns uses that, and returns what has to wait.
    """
    while True:
        await asyncio.sleep(POLL_SECONDS)
        if (now := file_stamps(config)) == seen:
            continue
        try:
            fresh = read_again(config)
            use = prepared(fresh)
            await bus.reload(fresh)
        except ToolbusError as error:
            report.add_line("config", f"not reloaded: {str(error).removeprefix(f'{config.file}: ')}", "red")
        else:
            later = use()
            report.add_line("config", f"reloaded{'; ' if later else ''}{later}")
            config = fresh
        # The state before the reload, so that a write during it is noticed.
        seen = {file: now.get(file, stamp) for file, stamp in file_stamps(config).items()}
