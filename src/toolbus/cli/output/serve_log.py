"""The program around `toolbus serve` and `toolbus up`: its log, and the durable runs of its console.

The log is on stderr, or with `--json` on stdout.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from toolbus.bus.engine.listings import last_inventories
from toolbus.bus.view import View
from toolbus.cli.commands.agents.run_store import VARIABLE, chosen_store
from toolbus.cli.listing_cache import save_listings
from toolbus.cli.output.event_lines import DATE_AND_TIME, event_line, timed_line
from toolbus.cli.output.json_log import LOG, log_json
from toolbus.cli.output.screen import Screen
from toolbus.cli.terminal import variables
from toolbus.config.settings.serve import Serve
from toolbus.connect.auth.exchange import NO_CLIENT_TOKEN
from toolbus.core.operation.events import Event, LoginNeeded, StateChanged, ToolHeld, Warned
from toolbus.core.text.display import counted
from toolbus.core.values.errors import ToolbusError
from toolbus.core.values.records import JSON
from toolbus.gateway.serve.program import ServeProgram

if TYPE_CHECKING:
    from toolbus.agent.durable import Runs
    from toolbus.console.console import Console

_RECENT = 100


def serve_program(screen: Screen, worker: int | None = None) -> ServeProgram:
    """The program that a gateway or background bus runs in.

    `worker` is the number of this process, if it is one of several.
    """
    log = ServeLog(screen, worker)
    return ServeProgram(
        report=log,
        last_inventories=last_inventories,
        save_listings=save_listings,
        console_runs=partial(console_runs, log=log),
    )


class ServeLog:
    """Reports what is served, and each server's trouble in one line; otherwise quiet."""

    def __init__(self, screen: Screen, worker: int | None = None) -> None:
        """`worker` is the number of this process, if it is one of several."""
        self._screen = screen
        self._worker = worker
        self._troubled: set[tuple[str, str]] = set()
        """Servers, and the users whose connections they are."""
        self._recent: deque[Event] = deque(maxlen=_RECENT)

    def on_event(self, event: Event, user: str = "") -> None:
        """Report trouble of a server, and its end; `user` is whose connection it is."""
        # The same event comes once for each view that shows it.
        if any(one is event for one in self._recent) or not self._is_news(event, user):
            return
        self._recent.append(event)
        if self._screen.as_json:
            whose = {"user": user} if user else {}
            self._print_json({"event": type(event).__name__, **asdict(event), **whose})
        else:
            who, what, style = event_line(event)
            self._print_line(f"{who} ({user})" if user else who, what, style, at=event.at)

    def add_line(self, who: str, what: str, style: str = "") -> None:
        """Report something else."""
        if self._screen.as_json:
            self._print_json({"event": "Noted", "about": who, "message": what})
        else:
            self._print_line(who, what, style)

    def serving(
        self, bus: View, serve: Serve, url: str | None, console: str | None, rest: str | None
    ) -> None:
        """Report what is served; `url` is None over stdio, `console` and `rest` if there is none."""
        states = [status.state for status in bus.servers.values()]
        usable = sum(state in ("ready", "idle") for state in states)
        held = len(bus.held)
        if self._screen.as_json:
            facts: dict[str, JSON] = {"url": url, "servers": usable, "of": len(states)}
            facts |= {
                "tools": len(bus.catalog),
                "held": held,
                "auth": _ways(serve) if url else [],
                "console": console,
                "rest": rest,
            }
            self._print_json({"event": "Serving", **facts})
            return
        servers = counted(len(states), "server")
        parts = [
            servers if usable == len(states) else f"{usable} of {servers}",
            counted(len(bus.catalog), "tool"),
            *([f"{held} on hold"] if held else []),
        ]
        where = "over stdio" if url is None else url
        who = "" if url is None else f"; {_who(serve)}"
        with_workers = f"; {serve.workers} workers" if self._worker is not None else ""
        in_view = f" in the view {serve.default_view}" if len(serve.views) > 1 else ""
        self._screen.note(f"serving {where}: {', '.join(parts)}{in_view}{who}{with_workers}")
        if console is not None:
            self._screen.note(f"console: {console}; 'toolbus console' opens it")
        if rest is not None:
            self._screen.note(f"REST API: {rest} describes it")

    def _is_news(self, event: Event, user: str) -> bool:
        if not isinstance(event, StateChanged):
            return isinstance(event, Warned | ToolHeld | LoginNeeded)
        if NO_CLIENT_TOKEN in (event.error or ""):
            return False  # as long as no client has called
        if event.error is not None:
            self._troubled.add((event.server, user))
            return True
        if event.state == "ready" and (event.server, user) in self._troubled:
            self._troubled.discard((event.server, user))
            return True
        return False

    def _print_line(self, who: str, what: str, style: str, at: float | None = None) -> None:
        if LOG.is_json:
            worker = {} if self._worker is None else {"worker": self._worker}
            return log_json(what, style=style, who=who, **worker)
        if self._worker is not None:
            who = f"{who} [{self._worker}]"
        # With the date: a gateway runs for days.
        return self._screen.err.print(timed_line(who, what, style, at, DATE_AND_TIME))

    def _print_json(self, value: dict[str, JSON]) -> None:
        worker = {} if self._worker is None else {"worker": self._worker}
        self._screen.json_line({**value, **worker})


def _ways(serve: Serve) -> list[str]:
    """The ways in which clients prove who they are."""
    auth = serve.auth
    ways = {"keys": auth.keys, "oauth": auth.oauth is not None, "sign_in": auth.sign_in is not None}
    return [way for way, is_used in ways.items() if is_used]


def _who(serve: Serve) -> str:
    if serve.issuer is not None:
        key = "a key or " if serve.auth.keys else ""
        return f"clients need {key}a token of {serve.issuer}"
    return "clients need a key" if serve.auth.keys else "open to everyone on this machine"


@asynccontextmanager
async def console_runs(console: "Console", log: ServeLog) -> AsyncGenerator[None]:
    """Have a console show the runs of the store that the environment names, if it names one."""
    if not variables().get(VARIABLE):
        yield
        return
    try:
        runs = await asyncio.to_thread(_runs)
    except (ToolbusError, ValueError) as error:
        log.add_line("console", f"it shows no runs: {error}", "yellow")
        yield
        return
    console.runs = runs
    try:
        yield
    finally:
        console.runs = None
        await runs.close()


def _runs() -> "Runs":
    from toolbus.agent.durable import Durable, Runs  # takes a while

    return Runs(Durable(store=chosen_store(None)))
