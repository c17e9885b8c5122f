"""`toolbus up`: keep the servers of a config running in the background, for the commands that follow."""

import json
import os
import re
import select
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbus.background.inquiry import facts_of
from toolbus.background.place import BusPlace, places
from toolbus.cli.commands.servers.status import print_facts, status_of
from toolbus.cli.errors import Usage
from toolbus.cli.options import SharedOptions
from toolbus.cli.output.headline import print_headline
from toolbus.cli.output.screen import Screen, escaped_json, short_path
from toolbus.cli.session import load_trusted_config, selected_servers
from toolbus.config import BusConfig
from toolbus.core.files import located
from toolbus.core.text.display import counted
from toolbus.core.values.errors import ConfigError, ToolbusError
from toolbus.state.files import PrivateFolder

if TYPE_CHECKING:
    from toolbus.background.connections import RunLine
    from toolbus.background.server import BackgroundBus

MAX_LOG = 1 << 20
"""Bytes of a log that the next start goes on with."""
SHOWN_LOG = 2_000
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """The options of `up`, and what runs the command lines of clients."""

    foreground: bool
    idle: float | None
    has_console: bool
    run_line: "RunLine"


class NotStarted(ToolbusError):
    """The background bus ended when it started."""


def run(settings: SharedOptions, options: UpOptions) -> int:
    """Start it, and report its servers; in the foreground, run it until a signal."""
    began = time.time_ns()
    if sys.platform == "win32":
        raise Usage("toolbus up needs a Unix system; commands work without it")
    screen, config = Screen(settings), load_trusted_config(settings)
    selected_servers(config, ())  # raises if there is none
    if config.file is None:
        raise ConfigError("toolbus up needs a config file")
    file = located(Path(config.file))
    if (facts := facts_of(file)) is not None:
        return _report_running(screen, facts)
    place = places(file)[0]
    if options.foreground:
        return _run_here(screen, place, config, options, began)
    with screen.spinner("starting " + ", ".join(config.servers)):
        _start(place, settings, options)
        facts = facts_of(file)
    if facts is None:
        raise NotStarted(f"the background bus has ended again; see its log {short_path(place.log)}")
    _report_started(screen, facts)
    return 0


def idle_seconds(text: str) -> float:
    """The seconds that `--idle` names, such as 90s, 30m, 2h or 1d; raises `Usage`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text.strip())
    seconds = 0.0 if found is None else float(found[1]) * _UNITS[found[2] or "s"]
    if seconds <= 0:
        raise Usage(f"--idle {text}: expected a time such as 90s, 30m or 2h")
    return seconds


def _run_here(screen: Screen, place: BusPlace, config: BusConfig, options: UpOptions, began: int) -> int:
    with screen.spinner("starting"):  # the imports take a while
        from toolbus.background.server import Start, run_here
        from toolbus.cli.output.serve_log import serve_program

    def ready(background: "BackgroundBus") -> None:
        facts = background.facts()
        if screen.as_json:  # one document per line, as its log has
            print(escaped_json({"event": "Started", "started": True, **facts}), flush=True)
        else:
            _print_started(screen, facts, f"here (pid {facts['pid']})", "Ctrl-C or 'toolbus down' stops")

    start = Start(
        place=place,
        config=config,
        idle=options.idle,
        run=options.run_line,
        has_console=options.has_console,
        began=began,
    )
    return run_here(start, serve_program(screen), ready)


def _start(place: BusPlace, settings: SharedOptions, options: UpOptions) -> None:
    """Start the process, and wait until it reports; raises `NotStarted`."""
    try:
        PrivateFolder(place.state, protects=True).make_folders("background/log")
    except OSError as error:
        raise NotStarted(
            f"the background bus cannot keep its log in {place.log.parent} ({error.strerror}); "
            "set XDG_STATE_HOME to a folder in which you can write"
        ) from None
    with suppress(OSError):
        if place.log.stat().st_size > MAX_LOG:
            place.log.replace(place.log.with_suffix(".old.log"))
    reader, writer = os.pipe()
    with open(reader, "rb") as reports, open(place.log, "ab") as log:
        place.log.chmod(0o600)
        given = {
            "config": None if settings.config is None else str(settings.config),
            "idle": options.idle,
            "console": options.has_console,
            "ready": writer,
            "folder": str(place.folder),
            "state": str(place.state),
            "file": str(place.config),
        }
        process = subprocess.Popen(
            # -P: nothing of the current folder, which may belong to anyone, is imported.
            [sys.executable, "-P", "-m", "toolbus.background.daemon", json.dumps(given)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=[writer],
        )
        os.close(writer)
        try:
            select.select([reports], [], [])
            text = reports.read()
        except BaseException:  # Ctrl-C
            process.terminate()
            process.wait()
            raise
        answer: dict[str, Any] = json.loads(text or b"{}")
        if "ready" not in answer:
            process.wait()
            raise NotStarted(
                f"the background bus did not start: {answer.get('error') or _last_line(place.log)}; its log "
                f"is {short_path(place.log)}"
            )
        process.returncode = 0  # it goes on without us


def _last_line(log: Path) -> str:
    with open(log, "rb") as file:
        file.seek(max(0, log.stat().st_size - SHOWN_LOG))
        lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it ended at once"


def _report_running(screen: Screen, facts: dict[str, Any]) -> int:
    if screen.as_json:
        screen.json({"started": False, **facts})
    else:
        print_facts(screen, facts)
        screen.note("it was already running; to start it anew, run 'toolbus down' first")
    return 0


def _report_started(screen: Screen, facts: dict[str, Any]) -> None:
    if screen.as_json:
        screen.json({"started": True, **facts})
    else:
        _print_started(screen, facts, f"in the background (pid {facts['pid']})", "'toolbus down' stops")


def _print_started(screen: Screen, facts: dict[str, Any], where: str, ending: str) -> None:
    statuses = status_of(facts)
    for alias, status in statuses.items():
        print_headline(screen, alias, status)
    if facts["disabled"]:
        screen.note(f"disabled: {', '.join(facts['disabled'])}")
    usable = sum(status.state in ("ready", "idle") for status in statuses.values())
    of = "" if usable == len(statuses) else f"{usable} of "
    servers, tools = counted(len(statuses), "server"), counted(facts["tools"], "tool")
    screen.note(f"{of}{servers} with {tools} {where}, for 'toolbus call' and others; {ending} it")
