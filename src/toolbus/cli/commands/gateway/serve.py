"""`toolbus serve`: offer the whole catalog as one MCP server, over stdio or HTTP."""

import os
import re
import sys
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from toolbus.cli.command import CommandResult, Invocation, target_command
from toolbus.cli.errors import FAILED, Usage
from toolbus.cli.output.json_log import use_log_format
from toolbus.cli.output.screen import picked
from toolbus.cli.parameters import LogFormatOption, duration
from toolbus.core.text.display import counted
from toolbus.core.values.errors import ConfigError, ToolbusError
from toolbus.schema.values import JSON

if TYPE_CHECKING:
    from toolbus.config import BusConfig
    from toolbus.config.settings.serve import Serve
    from toolbus.gateway.serve.service import Chosen


_Check = Annotated[
    bool,
    typer.Option("--check", help="Check everything that it needs, without listening; exit 1 on an error."),
]
_Online = Annotated[
    bool, typer.Option("--online", help="With --check, reach the store, the issuer and the servers.")
]


@target_command
def serve(
    own: Invocation,
    stdio: Annotated[
        bool, typer.Option("--stdio", help="Speak MCP on stdin and stdout, for a program that starts it.")
    ] = False,
    http: Annotated[
        str | None,
        typer.Option(
            "--http",
            metavar="HOST:PORT",
            help="Listen there; default: serve.http in the config, or 127.0.0.1:7400. Port 0 takes one that "
            "is free.",
        ),
    ] = None,
    view: Annotated[
        str | None,
        typer.Option("--view", metavar="NAME", help="The view of clients that have no other."),
    ] = None,
    drain: Annotated[
        float | None,
        typer.Option(
            "--drain",
            metavar="TIME",
            parser=duration,
            help="How long calls in flight may take to end when it stops; default: 30s.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            metavar="N",
            min=1,
            max=1000,
            help="How many processes serve, each with its own connections to the servers; default: 1.",
        ),
    ] = None,
    check: _Check = False,
    online: _Online = False,
    log_format: LogFormatOption = None,
) -> CommandResult | int:
    """Offer all servers as one MCP server, over HTTP or stdio.

    Serves HTTP unless --stdio is given. 'toolbus install' adds it to an editor.
    """
    began = time.time_ns()
    use_log_format(log_format)
    if online and not check:
        raise Usage("--online is for --check")
    if stdio and not check:
        _check_stdio(own, http, workers)
    if workers is not None and workers > 1 and not hasattr(os, "fork"):
        raise Usage("--workers needs Linux or macOS; here, start one gateway for each port")
    settings_of = partial(_settings, http=http, view=view, drain=drain, workers=workers)
    if check:
        return _checked(own, settings_of, over_stdio=stdio, online=online)
    return _serve(own, settings_of, over_stdio=stdio, began=began)


def _checked(own: Invocation, settings_of: "Chosen", *, over_stdio: bool, online: bool) -> CommandResult:
    """Report what would keep it from serving, one line for each problem."""
    import asyncio

    screen, config = own.screen, own.config
    own.selected()  # raises if there is none
    settings = settings_of(config)
    with screen.spinner("checking"):
        from toolbus.gateway.serve.preflight import findings

        found = asyncio.run(findings(config, settings, over_stdio=over_stdio, online=online))
    errors = sum(one.severity == "error" for one in found)

    def print_lines() -> None:
        styles = {"error": "red", "warning": "yellow"}
        screen.rows(
            [[(one.severity, styles[one.severity]), str(one)] for one in found], indent=0, max_lines=None
        )
        counts = f"{counted(errors, 'error')}, {counted(len(found) - errors, 'warning')}"
        servers = counted(len(config.servers), "server")
        screen.line(f"{'not ready' if errors else 'ready'} to serve {servers}: {counts}")

    document: JSON = {
        "ok": not errors,
        "online": online,
        "findings": [picked(one, "severity about problem step") for one in found],
    }
    return CommandResult(document, print_lines, FAILED if errors else 0)


def _check_stdio(own: Invocation, http: str | None, workers: int | None) -> None:
    """Raise `Usage` for options that do not fit `--stdio`."""
    if http is not None:
        raise Usage("--stdio and --http cannot be combined; keep one")
    if workers is not None:
        raise Usage("--stdio serves one client; leave out --workers")
    if own.settings.json:
        raise Usage("--stdio speaks MCP on stdout; leave out --json")
    if sys.stdin is not None and sys.stdin.isatty():
        raise Usage(
            "--stdio is for an editor or agent that starts it; add it to yours with 'toolbus install', "
            "or serve HTTP with --http 127.0.0.1:7400"
        )


def _serve(own: Invocation, settings_of: "Chosen", *, over_stdio: bool, began: int) -> int:
    """Serve until stdin ends, or a signal; 0 then, because that is how it is meant to end."""
    import asyncio

    from toolbus.audit.chain import Chain
    from toolbus.cli.output.event_lines import DATE_AND_TIME
    from toolbus.cli.output.screen import enable_part_log
    from toolbus.cli.session import OWN_BUS
    from toolbus.state.stderr_log import kept_stderr

    screen, config, tapes = own.screen, own.config, OWN_BUS.tapes
    own.selected()  # raises if there is none
    settings = settings_of(config)  # raises before anything starts
    if config.audit is not None:
        Chain(config.audit).check()  # else it would refuse every call
    if tapes is not None and settings.workers > 1 and not over_stdio:
        raise Usage("a tape is recorded and replayed by one process; use --workers 1")
    if not own.settings.verbose:
        enable_part_log("gateway", DATE_AND_TIME)
        enable_part_log("store", DATE_AND_TIME, "store")
    with screen.spinner("starting"):  # the imports take a while
        from toolbus.cli.output.serve_log import serve_program
        from toolbus.gateway.serve.service import serve

    chosen = partial(_usable_settings, settings_of=settings_of)
    if over_stdio or settings.workers == 1:
        program = serve_program(screen)
        if tapes is not None:
            tapes.begin()
            program = replace(program, observers=tapes.observers)
        with kept_stderr(config.file):
            return asyncio.run(serve(program, config, chosen, over_stdio=over_stdio, began=began))
    from toolbus.bus.engine.startup import import_late
    from toolbus.gateway.serve.front import bound_socket, check_shared_state
    from toolbus.gateway.serve.workers import start_workers

    import_late()  # before the forks, which then share it
    check_shared_state(config)
    sock = bound_socket(settings)
    ending = settings.drain + (0 if config.store is None else config.store.notice)
    report = serve_program(screen).report
    worker = start_workers(settings.workers, sock, ending, partial(report.add_line, "serve"))
    if isinstance(worker, int):
        return worker
    program = serve_program(screen, worker.number)
    with kept_stderr(config.file):
        return asyncio.run(serve(program, config, chosen, over_stdio=False, began=began, worker=worker))


def _usable_settings(config: "BusConfig", settings_of: "Chosen") -> "Serve":
    """The `serve` of a config that has changed; `ToolbusError` if it cannot be used."""
    try:
        return settings_of(config)
    except Usage as error:
        raise ToolbusError(str(error)) from error


def _settings(
    config: "BusConfig", http: str | None, view: str | None, drain: float | None, workers: int | None
) -> "Serve":
    """The `serve` of the config, changed by the options; raises `Usage` if it cannot be."""
    from toolbus.config.location import near_miss

    serve = config.gateway
    if http is not None:
        # As in `:0` or `7400`: a port alone is one of this machine.
        address = f"127.0.0.1:{http.lstrip(':')}" if re.fullmatch(r":?\d+", http) else http
        try:
            serve = serve.listening_at(address)
        except ConfigError as error:
            what = "" if error.key in (None, "http") else f"serve.{error.key} "
            raise Usage(f"--http {http}: {what}{error.problem}") from None
    if view is not None and serve.view(view) is None:
        known = list(serve.views) or [serve.default_view]
        listed = near_miss(view, known) or f"; known: {', '.join(known)}"
        raise Usage(f"no view {view!r} in the config{listed}")
    changes = {"default_view": view, "drain": drain, "workers": workers}
    return serve.model_copy(update={name: value for name, value in changes.items() if value is not None})
