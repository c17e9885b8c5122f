"""`toolbus up`: keep the servers of a config running in the background, for the commands that follow."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolbus.cli.command import CommandResult, Invocation, config_command
from toolbus.cli.errors import Usage
from toolbus.cli.output.headline import print_headline
from toolbus.cli.output.json_log import use_log_format
from toolbus.cli.output.screen import Screen, short_path
from toolbus.cli.parameters import Idle, LogFormatOption
from toolbus.core.files import located
from toolbus.core.text.display import counted
from toolbus.core.values.errors import ConfigError

if TYPE_CHECKING:
    from toolbus.background.place import BusPlace
    from toolbus.background.server import BackgroundBus


@config_command
def up(
    own: Invocation,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Run here until Ctrl-C, as for systemd or a container.")
    ] = False,
    idle: Idle = None,
    no_console: Annotated[bool, typer.Option("--no-console", help="Do not start the web console.")] = False,
    log_format: LogFormatOption = None,
) -> CommandResult | int:
    """Keep the servers running in the background.

    While they run, other commands use them instead of starting servers: tools, search, call, run, resume,
    resources, read, prompts, prompt, skills, skill, check and chat. So servers keep their state. With
    --no-up, a command starts its own servers.
    """
    began = time.time_ns()
    if sys.platform == "win32":
        raise Usage("toolbus up needs a Unix system; commands work without it")
    if log_format is not None and not foreground:
        raise Usage("--log-format is for --foreground; in the background, set TOOLBUS_LOG_FORMAT")
    if foreground:
        use_log_format(log_format)
    file = _config_file(own)
    from toolbus.background.inquiry import facts_of
    from toolbus.background.place import places

    if (facts := facts_of(file, own.settings.profile)) is not None:
        return _already_running(own.screen, facts)
    place = places(file, own.settings.profile)[0]
    if foreground:
        return _run_here(own, place, idle, began, has_console=not no_console)
    return _started(own, place, idle, has_console=not no_console)


def _config_file(own: Invocation) -> Path:
    """The file of the config, which has servers."""
    own.selected()  # raises if there is none
    if own.config.file is None:
        raise ConfigError("toolbus up needs a config file")
    return located(Path(own.config.file))


def _already_running(screen: Screen, facts: dict[str, Any]) -> CommandResult:
    from toolbus.cli.output.bus_status import print_facts

    def print_lines() -> None:
        print_facts(screen, facts)
        screen.note("it was already running; to restart it, run 'toolbus down' first")

    return CommandResult({"started": False, **facts}, print_lines)


def _run_here(
    own: Invocation, place: "BusPlace", idle: float | None, began: int, *, has_console: bool
) -> int:
    """Run it until a signal; returns the exit code."""
    screen = own.screen
    with screen.spinner("starting"):  # the imports take a while
        from toolbus.background.server import Start, run_here
        from toolbus.cli.output.serve_log import serve_program

    def ready(background: "BackgroundBus") -> None:
        facts = background.facts()
        if screen.as_json:  # one document per line, as its log has
            screen.json_line({"event": "Started", "started": True, **facts})
        else:
            _print_started(screen, facts, f"here (pid {facts['pid']})", "Ctrl-C or 'toolbus down' stops")

    start = Start(place=place, config=own.config, idle=idle, has_console=has_console, began=began)
    return run_here(start, serve_program(screen), ready)


def _started(own: Invocation, place: "BusPlace", idle: float | None, *, has_console: bool) -> CommandResult:
    """Start it, and report its servers."""
    from toolbus.background.inquiry import facts_of
    from toolbus.background.launch import NotStarted, launch

    with own.screen.spinner("starting " + ", ".join(own.config.servers)):
        launch(place, own.settings.config, idle, has_console=has_console)
        facts = facts_of(place.config, place.profile)
    if facts is None:
        raise NotStarted(f"the background bus has ended again; see its log {short_path(place.log)}")
    where = f"in the background (pid {facts['pid']})"
    return CommandResult(
        {"started": True, **facts},
        lambda: _print_started(own.screen, facts, where, "'toolbus down' stops"),
    )


def _print_started(screen: Screen, facts: dict[str, Any], where: str, ending: str) -> None:
    from toolbus.cli.output.bus_status import status_of

    statuses = status_of(facts)
    for alias, status in statuses.items():
        print_headline(screen, alias, status)
    if facts["disabled"]:
        screen.note(f"disabled: {', '.join(facts['disabled'])}")
    usable = sum(status.state in ("ready", "idle") for status in statuses.values())
    of = "" if usable == len(statuses) else f"{usable} of "
    servers, tools = counted(len(statuses), "server"), counted(facts["tools"], "tool")
    screen.note(f"{of}{servers} with {tools} {where}, for 'toolbus call' and others; {ending} it")
