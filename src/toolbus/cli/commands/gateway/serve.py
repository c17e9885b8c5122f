"""`toolbus serve`: offer the whole catalog as one MCP server, over stdio or HTTP."""

import asyncio
import os
import re
import sys
import time
from dataclasses import dataclass
from functools import partial

from toolbus.cli.errors import Usage
from toolbus.cli.options import SharedOptions
from toolbus.cli.output.event_lines import DATE_AND_TIME
from toolbus.cli.output.screen import Screen, enable_part_log
from toolbus.cli.session import load_trusted_config, selected_servers
from toolbus.config import BusConfig
from toolbus.config.location import near_miss
from toolbus.config.settings.serve import Serve
from toolbus.core.values.errors import ConfigError, ToolbusError


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """The options of `serve`."""

    stdio: bool = False
    http: str | None = None
    view: str | None = None
    drain: float | None = None
    workers: int | None = None


def run(settings: SharedOptions, options: ServeOptions) -> int:
    """Serve until stdin ends, or a signal; 0 then, because that is how it is meant to end."""
    began = time.time_ns()
    _check(settings, options)
    config = load_trusted_config(settings)
    selected_servers(config, ())  # raises if there is none
    serve_settings = _serve_settings(config, options)  # raises before anything starts
    screen = Screen(settings)
    if not settings.verbose:
        enable_part_log("gateway", DATE_AND_TIME)
        enable_part_log("store", DATE_AND_TIME, "store")
    with screen.spinner("starting"):  # the imports take a while
        from toolbus.cli.output.serve_log import serve_program
        from toolbus.gateway.serve.service import serve

    chosen = partial(_usable_settings, options=options)
    if options.stdio or serve_settings.workers == 1:
        program = serve_program(screen)
        return asyncio.run(serve(program, config, chosen, over_stdio=options.stdio, began=began))
    from toolbus.bus.engine.startup import import_late
    from toolbus.gateway.serve.front import bound_socket, check_shared_state
    from toolbus.gateway.serve.workers import start_workers

    import_late()  # before the forks, which then share it
    check_shared_state(config)
    sock = bound_socket(serve_settings)
    ending = serve_settings.drain + (0 if config.store is None else config.store.notice)
    report = serve_program(screen).report
    worker = start_workers(serve_settings.workers, sock, ending, partial(report.add_line, "serve"))
    if isinstance(worker, int):
        return worker
    program = serve_program(screen, worker.number)
    return asyncio.run(serve(program, config, chosen, over_stdio=False, began=began, worker=worker))


def _check(settings: SharedOptions, options: ServeOptions) -> None:
    """Raise `Usage` for options that do not fit together."""
    if options.stdio and options.http is not None:
        raise Usage("--stdio and --http cannot be combined; keep one")
    if options.stdio and options.workers is not None:
        raise Usage("--stdio serves one client; leave out --workers")
    if options.workers is not None and options.workers > 1 and not hasattr(os, "fork"):
        raise Usage("--workers needs Linux or macOS; here, start one gateway for each port")
    if options.stdio and settings.json:
        raise Usage("--stdio speaks MCP on stdout; leave out --json")
    if options.stdio and sys.stdin is not None and sys.stdin.isatty():
        raise Usage(
            "--stdio is for an editor or agent, which starts it and speaks MCP with it; add it to yours "
            "with 'toolbus install', or serve HTTP with --http 127.0.0.1:7400"
        )


def _usable_settings(config: BusConfig, options: ServeOptions) -> Serve:
    """The `serve` of a config that has changed; `ToolbusError` if it cannot be used."""
    try:
        return _serve_settings(config, options)
    except Usage as error:
        raise ToolbusError(str(error)) from error


def _serve_settings(config: BusConfig, options: ServeOptions) -> Serve:
    """The `serve` of the config, changed by the options; raises `Usage` if it cannot be."""
    serve = config.serve or Serve()
    if options.http is not None:
        # As in `:0` or `7400`: a port alone is one of this machine.
        http = (
            f"127.0.0.1:{options.http.lstrip(':')}" if re.fullmatch(r":?\d+", options.http) else options.http
        )
        try:
            serve = serve.listening_at(http)
        except ConfigError as error:
            what = "" if error.key in (None, "http") else f"serve.{error.key} "
            raise Usage(f"--http {options.http}: {what}{error.problem}") from None
    if options.view is not None and serve.view(options.view) is None:
        known = list(serve.views) or [serve.default_view]
        listed = near_miss(options.view, known) or f"; known: {', '.join(known)}"
        raise Usage(f"no view {options.view!r} in the config{listed}")
    changes = {"default_view": options.view, "drain": options.drain, "workers": options.workers}
    return serve.model_copy(update={name: value for name, value in changes.items() if value is not None})
