"""The HTTP front of a gateway, as the `serve` of a config wants it."""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from toolbus.config import BusConfig
from toolbus.config.settings.serve import AT_START, Serve, Tls
from toolbus.connect.http.tls import certificate_of
from toolbus.console.announcement import Announcement
from toolbus.console.app import ConsoleApp
from toolbus.console.apps.sandbox import open_sandbox
from toolbus.console.console import Console, ConsoleKeys
from toolbus.core.ask.interactions import Interactions, QuestionRouting
from toolbus.core.ask.question_router import QuestionRouter
from toolbus.core.text.display import counted
from toolbus.core.values.errors import ConfigError, ToolbusError
from toolbus.gateway.access.control import AccessControl, access_of
from toolbus.gateway.access.keys import file_keys
from toolbus.gateway.access.views import Views
from toolbus.gateway.calls.queue import CallLimits
from toolbus.gateway.cards import ServerCards
from toolbus.gateway.gateway import Gateway
from toolbus.gateway.http.app import App
from toolbus.gateway.http.limits import HttpLimits
from toolbus.gateway.http.request import CONSOLE
from toolbus.gateway.http.run import CannotListen, HttpServer, listening_socket, tls_context
from toolbus.gateway.http.workers import FIRST
from toolbus.gateway.protocol.clients import ConnectedClients
from toolbus.gateway.replicas.front import ReplicaFront
from toolbus.gateway.replicas.peers import Peers
from toolbus.gateway.replicas.replicas import Replicas
from toolbus.gateway.serve.console import open_console
from toolbus.gateway.serve.program import ServeProgram, ServeReport
from toolbus.gateway.serve.replica import WILDCARDS, Replica, replica_socket
from toolbus.gateway.serve.sign_in import SignInFront
from toolbus.gateway.serve.workers import GatewayWorker
from toolbus.state.files import config_place, state_folder
from toolbus.state.seal import KEY_BYTES, OneTimeUse, Seal, carried_forms, kept_seal
from toolbus.state.values import PrivateValues


class HttpFront:
    """Listens at the address of a config; an unusable setting raises at once, before anything is started."""

    first_within = 0.0
    """Seconds for the first request before anything else is started."""

    def __init__(
        self,
        config: BusConfig,
        program: ServeProgram,
        replica: Replica | None = None,
        worker: GatewayWorker | None = None,
    ) -> None:
        """A `worker` is a `replica` that listens at a socket which all workers share."""
        assert config.serve is not None, "the caller sets it"
        self.settings = self._followed = serve = config.serve
        self._app: App | None = None
        self._console: Console | None = None
        self._config = config
        self._program = program
        self._log = program.report
        self._replica = replica
        self.seal, self.spent = _carried(config, self._log, replica)
        """For what clients carry, and the approvals in it that were used."""
        self._sign_in = SignInFront(config, replica, self.seal, partial(self._log.add_line, "sign-in"))
        self._access = self._access_of(config)
        self._tls = None if serve.tls is None else _tls(serve.tls, config)
        self._workers = None if worker is None else worker.workers
        self._socket = bound_socket(serve) if worker is None else worker.inherited.socket
        self._apps_socket = None if self.console_url is None else bound_apps_socket(serve)
        self.seconds_to_end = serve.drain + (0.0 if config.store is None else config.store.notice)
        for warning in serve.warnings:
            self._log.add_line("serve", warning, "yellow")

    def prepared(self, config: BusConfig) -> Callable[[Views], str]:
        """A function that uses the `serve` of another config, and returns what of it needs a restart.

        ConfigError if it cannot be used.
        """
        assert config.serve is not None, "the caller sets it"
        serve = config.serve.staying_as(self.settings)
        fresh = config.model_copy(update={"serve": serve})
        access = self._access_of(fresh)
        wanted = config.serve
        later = [f"serve.{name}" for name in AT_START if getattr(wanted, name) != getattr(serve, name)]
        later += ["store"] if config.store != self._config.store else []

        def use(views: Views) -> str:
            before, self._followed = self._followed, serve
            views.use(serve)
            if self._replica is not None:
                self._replica.replicas.peers.servers = tuple(sorted(config.servers))
            self._access.use(access)
            self._sign_in.use(fresh)
            self._show_keys()
            names = {before.default_view, serve.default_view, *before.views, *serve.views}
            changed = {name for name in names if before.view(name) != serve.view(name)}
            if self._app is not None and (changed or before.auth != serve.auth):
                self._app.end_views(changed)
            return f"{' and '.join(later)} from the next start on" if later else ""

        return use

    def _access_of(self, config: BusConfig) -> AccessControl:
        shared = None if self._replica is None else self._replica.keys
        return access_of(config, shared=shared, sign_in=self._sign_in.state)

    @property
    def replicas(self) -> Replicas | None:
        """The other gateways that have a part of what clients began."""
        return None if self._replica is None else self._replica.replicas

    def interactions(self, board: QuestionRouter) -> Interactions:
        """The handlers of the bus: clients that support forms are asked themselves, and else the console."""
        if self.console_url is None:
            return Interactions(_routing=QuestionRouting(forwards=True))
        return board.interactions(Interactions(_routing=QuestionRouting(forwards=True, approver="console")))

    @property
    def url(self) -> str:
        """The URL of the MCP endpoint, with the real port."""
        return f"{self._origin(self.settings.address[0])}{self.settings.path}"

    @property
    def rest_url(self) -> str | None:
        """The URL of the document about the REST API; None if there is none."""
        origin = (self.settings.public_url or self._origin(self.settings.address[0])).rstrip("/")
        return f"{origin}/openapi.json" if self.settings.rest else None

    @property
    def console_url(self) -> str | None:
        """The URL of the page for people; None if there is none."""
        is_elsewhere = self._workers is not None and self._workers.number != FIRST
        if not self.settings.has_console or is_elsewhere:
            return None
        return f"{(self._console_serve.public_url or self._local_url).rstrip('/')}{CONSOLE}"

    @property
    def local_console_url(self) -> str | None:
        """The URL of that page at the address that listens; a proxy may not forward it."""
        return None if self.console_url is None else f"{self._local_url}{CONSOLE}"

    @property
    def _console_serve(self) -> Serve:
        """The console of a replica shows that process alone: it is not behind the public URLs of all."""
        if self._config.store is None:
            return self.settings
        apps = self.settings.apps.model_copy(update={"url": None})
        return self.settings.model_copy(update={"public_url": None, "apps": apps})

    @property
    def _local_url(self) -> str:
        """The URL on this machine."""
        host = self.settings.address[0]
        return self._origin(WILDCARDS.get(host, host))

    def _origin(self, host: str) -> str:
        port, scheme = self._socket.getsockname()[1], "http" if self._tls is None else "https"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    @property
    def call_limits(self) -> CallLimits:
        """The maximum numbers of concurrent and waiting calls."""
        serve = self.settings
        return CallLimits(
            per_user=serve.max_per_user,
            per_server=serve.max_per_server,
            waiting=serve.max_waiting,
            wait_seconds=serve.max_wait,
        )

    async def serve(
        self,
        gateway: Gateway,
        stop: asyncio.Event,
        board: QuestionRouter,
        config_problem: Callable[[], str | None],
    ) -> None:
        """Serve until it is to stop; then wait for the requests in flight."""
        if self.console_url is None:
            await self._run(gateway, stop, None)
            return
        console = Console(gateway.bus, board)
        self._console = console
        console.config_problem = config_problem
        console.clients = gateway.clients = ConnectedClients()
        self._show_keys()
        app = ConsoleApp(console, self._console_serve)
        announcement = partial(
            Announcement,
            url=f"{self._local_url}{CONSOLE}",
            public_url=self.console_url,
            config=self._config.file,
            certificate=None if self._tls is None else certificate_of(self._tls),
        )
        async with AsyncExitStack() as stack:
            stack.push_async_callback(console.close)
            if (sock := self._apps_socket) is not None:
                sandbox = open_sandbox(console.apps, sock, tls=self._tls, url=self._console_serve.apps.url)
                app.sandbox = await stack.enter_async_context(sandbox)
            async with open_console(app, self._program, announcement, "serve"):
                await self._run(gateway, stop, app)

    def _show_keys(self) -> None:
        """Show the keys in the console, if clients may use keys."""
        file, serve = self._config.file, self._followed
        if self._console is not None:
            stored = None if self._replica is None else self._replica.keys
            if stored is None and file is not None:
                stored = file_keys(file)
            stored = stored if serve.auth.keys else None
            self._console.keys = None if stored is None else ConsoleKeys(stored=stored, serve=serve)
            self._console.changed("keys")

    async def _run(self, gateway: Gateway, stop: asyncio.Event, console: ConsoleApp | None) -> None:
        serve = self.settings
        limits = HttpLimits(
            head_bytes=serve.max_header,
            body_bytes=serve.max_body,
            values=serve.max_values,
            requests=serve.max_in_flight,
            drain_seconds=serve.drain,
        )
        workers = self._workers
        app = self._app = App(
            gateway,
            self._access,
            limits,
            path=serve.path,
            console=console,
            workers=workers,
            beside=(self._sign_in,),
        )
        if serve.rest:
            app.offer_rest(lambda: self._followed.public_url)
        if serve.cards:
            app.cards = ServerCards(lambda: self._followed, lambda: gateway.bus.config.servers)
        server = HttpServer(app, trusted_proxies=serve.trusted_proxies)
        async with AsyncExitStack() as stack:
            stack.callback(self._socket.close)
            stack.push_async_callback(server.close)
            stack.push_async_callback(self._sign_in.close)
            await self._sign_in.start()
            if self._replica is not None:
                await self._join(stack, app, self._replica)
            await server.start(self._socket, self._tls, workers)
            await stop.wait()
            known = None
            if self._replica is not None and not self._replica.replicas.end_together:
                known = await self._leave(app, self._replica)
            if app.metrics.in_flight:
                calls = counted(app.metrics.in_flight, "request")
                what = f"stopping: up to {serve.drain:g} s for {calls} in flight; a second signal ends it"
                self._log.add_line("serve", what)
            await server.drain(serve.drain)
            if known is not None:
                await known

    async def _join(self, stack: AsyncExitStack, app: App, replica: Replica) -> None:
        """Let the other replicas reach this one, until the stack ends."""
        worker = 0 if self._workers is None else self._workers.number
        listener, url = replica_socket(replica, self.settings, worker)
        server = HttpServer(ReplicaFront(app, replica.replicas))
        stack.callback(replica.replicas.keep_sessions_for_others)
        stack.callback(listener.close)
        stack.push_async_callback(server.close)
        await server.start(listener, self._tls)
        peers = replica.replicas.peers
        peers.on_return = app.doubt
        peers.servers = tuple(sorted(self._config.servers))
        await peers.start(url, "" if self._tls is None else certificate_of(self._tls))
        if not replica.replicas.end_together:  # else nobody needs to know
            others = counted(len(peers.others), "other replica")
            where = f"replica {peers.id} at {url}, with {others}, in {replica.store.place}"
            self._log.add_line("serve", where)
            self._warn_of_other_configs(peers)

    def _warn_of_other_configs(self, peers: Peers) -> None:
        others = [peer for peer in peers.others if peer.servers not in ((), peers.servers)]
        for peer in others[:1]:
            has, own = ", ".join(peer.servers), ", ".join(peers.servers)
            problem = f"replica {peer.id} on {peer.host} has other servers ({has}) than this one ({own})"
            step = "one store belongs to one config: give another config another database"
            self._log.add_line("serve", f"{problem}; {step}", "yellow")

    async def _leave(self, app: App, replica: Replica) -> asyncio.Task[None]:
        """Serve on until a load balancer has noticed, and then leave new requests to the other replicas.

        Returns a task that ends when they know it: until then they may forward requests to this one.
        """
        app.is_leaving = True
        if replica.setting.notice:
            self._log.add_line("serve", f"leaving: not ready any more, for {replica.setting.notice:g} s")
            await asyncio.sleep(replica.setting.notice)
        replica.replicas.keep_sessions_for_others()
        return asyncio.create_task(replica.replicas.peers.leave())


def bound_socket(serve: Serve) -> socket.socket:
    """A socket at the address of a `serve`."""
    try:
        return listening_socket(*serve.address)
    except CannotListen as error:
        raise ToolbusError(f"{error}; choose another with --http, or port 0 for any") from error


def bound_apps_socket(serve: Serve) -> socket.socket | None:
    """A socket for the other origin of the console; None if only `serve.apps` could say where."""
    if serve.apps_address is None:
        return None
    try:
        return listening_socket(*serve.apps_address)
    except CannotListen as error:
        raise ToolbusError(f"{error}; choose another with serve.apps.http") from error


def check_shared_state(config: BusConfig) -> None:
    """Make what all workers need to have the same of; `ToolbusError` if they could not."""
    try:
        if config.file is not None and config.store is None:
            files = carried_files(config.file)
            files.wait(kept_seal(files))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ToolbusError(f"several workers need a state folder that can be written: {reason}") from error


def _tls(files: Tls, config: BusConfig) -> ssl.SSLContext:
    try:
        return tls_context(files.cert, files.key)
    except OSError as error:  # also of OpenSSL
        reason = error.strerror or type(error).__name__
        problem = f"the certificate or its key cannot be used ({reason}); check both files"
        raise ConfigError(problem, file=config.file, key="serve.tls") from error


def _carried(config: BusConfig, log: ServeReport, replica: Replica | None) -> tuple[Seal, OneTimeUse]:
    if replica is not None and (config.store is not None or config.file is None):
        return replica.replicas.seal, replica.replicas.spent
    if config.file is not None:
        try:
            files = carried_files(config.file)
            return files.wait(kept_seal(files)), OneTimeUse(files)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            log.add_line("serve", f"what clients carry will not outlive a restart: {reason}", "yellow")
    return Seal(os.urandom(KEY_BYTES)), OneTimeUse()


def carried_files(config_file: str | Path) -> PrivateValues:
    """The state for clients in the user's state folder: the key of the seal, and the used approvals."""
    file = f"gateway/{config_place(config_file)[1]}"
    return PrivateValues(state_folder, carried_forms(f"{file}.seal", f"{file}.spent"))
