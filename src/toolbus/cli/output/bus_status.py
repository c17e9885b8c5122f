"""The status of a background bus: which config it is of, and the lines about it."""

from pathlib import Path
from typing import Any

from rich.text import Text

from toolbus.background.place import config_file
from toolbus.cli.options import SharedOptions, suggested
from toolbus.cli.output.event_lines import clock
from toolbus.cli.output.headline import print_headline
from toolbus.cli.output.screen import Screen, short_path, visible
from toolbus.cli.session import explain_missing_config
from toolbus.config import find_config
from toolbus.core.text.display import counted
from toolbus.core.values.records import ServerStatus


def background_config(settings: SharedOptions) -> Path:
    """The path of the config, which need not exist any more if it is named."""
    file = config_file(None if settings.config is None else str(settings.config))
    if file is None:
        with explain_missing_config():
            find_config()
        raise AssertionError("there is none")
    return file


def print_facts(screen: Screen, facts: dict[str, Any]) -> None:
    """Print the status of a background bus that runs."""
    line = Text.assemble(("running", "green"), f" since {clock(facts['since'])} (pid {facts['pid']})")
    screen.print(line)
    missing = "" if facts["folder_exists"] else ", which does not exist any more"
    idle = facts["idle"]
    rows = [
        ("config", short_path(facts["config"])),
        ("folder", f"{facts['folder']}{missing}"),
        ("version", facts["version"]),
        ("idle", "" if idle is None else f"ends after {_duration(idle)} without a command"),
        ("calls", f"{facts['calls']} so far, {counted(facts['commands'], 'command')} running"),
        ("console", facts.get("console")),
        ("log", short_path(facts["log"])),
    ]
    screen.rows(
        [[Text(name, style="dim"), Text(visible(value))] for name, value in rows if value], max_lines=None
    )
    if facts["config_problem"]:
        problem = f"the config has changed, but is not in use: {facts['config_problem']}"
        screen.rows([[Text(visible(suggested(problem)), style="yellow")]], max_lines=None)
    for alias, status in status_of(facts).items():
        restarts = f", {counted(status.restarts, 'restart')}" if status.restarts else ""
        print_headline(screen, alias, status, f"{counted(status.tools, 'tool')}{restarts}")


def status_of(facts: dict[str, Any]) -> dict[str, ServerStatus]:
    """The servers."""
    return {alias: ServerStatus(**values) for alias, values in facts["servers"].items()}


def _duration(seconds: float) -> str:
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"
