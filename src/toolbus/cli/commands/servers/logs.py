"""`toolbus logs`: what servers wrote to stderr, also those in the background."""

import asyncio
from collections.abc import Coroutine
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from toolbus.cli.command import CommandResult, Invocation, config_command
from toolbus.cli.completion import all_server_names
from toolbus.cli.errors import Usage
from toolbus.cli.output.screen import Screen, visible
from toolbus.core.values.errors import ServerNotFound
from toolbus.shape.render import human_size
from toolbus.state.stderr_log import StderrLine, StderrReader, logged_servers, stderr_path

LOOK_EVERY = 0.2
"""Seconds between two looks at a file that is followed."""


@config_command
def logs(
    own: Invocation,
    server: Annotated[
        str | None,
        typer.Argument(
            metavar="SERVER",
            help="The server's name in the config; default: list the servers that have logs.",
            autocompletion=all_server_names,
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print new lines as they come, until Ctrl-C.")
    ] = False,
    lines: Annotated[
        int, typer.Option("--lines", "-n", metavar="N", min=0, help="Show the last N lines.")
    ] = 50,
) -> CommandResult | Coroutine[Any, Any, NoReturn]:
    """Show a server's stderr; without SERVER, list the logs.

    Commands, 'toolbus up' and 'toolbus serve' keep it without secrets, up to 2 MiB for each server. With
    --follow and --json, prints one document per line.
    """
    screen, config = own.screen, own.untrusted_config  # nothing in it is run
    assert config.file is not None, "commands read a file"
    kept = logged_servers(config.file)
    if server is None:
        if follow:
            raise Usage("--follow needs a server; name one")
        return _listed(screen, kept)
    known = [*config.servers, *config.disabled]
    if server not in (*known, *kept):
        raise ServerNotFound(server, known)
    entry = config.servers.get(server)
    is_remote = entry is not None and entry.command is None
    reader = StderrReader(stderr_path(config.file, server))
    if follow:
        return _followed(screen, reader, lines)
    with closing(reader):
        found = reader.last(lines)

    def print_lines() -> None:
        for line in found:
            _print(screen, line)
        if server not in kept:
            step = "it runs elsewhere, at its URL" if is_remote else f"start it with: toolbus check {server}"
            screen.note(f"nothing is kept of the stderr of {server}; {step}")

    return CommandResult({"server": server, "lines": [one._asdict() for one in found]}, print_lines)


async def _followed(screen: Screen, reader: StderrReader, count: int) -> NoReturn:
    with closing(reader):
        found = reader.last(count)
        while True:
            for line in found:
                if screen.as_json:
                    screen.json_line(line._asdict())
                else:
                    _print(screen, line)
            await asyncio.sleep(LOOK_EVERY)
            found = reader.added()


def _print(screen: Screen, line: StderrLine) -> None:
    screen.line((f"{_time(line.at)}  ", "dim"), visible(line.text))


def _time(at: str) -> str:
    try:
        return datetime.fromisoformat(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:  # somebody else wrote it
        return visible(at)


def _listed(screen: Screen, kept: dict[str, Path]) -> CommandResult:
    facts = {alias: path.stat() for alias, path in kept.items()}

    def print_rows() -> None:
        if not facts:
            screen.note("no server has written to stderr yet")
            return
        screen.table(
            ("server", "last line", "size"),
            [
                (
                    (visible(alias), "bold"),
                    datetime.fromtimestamp(one.st_mtime).astimezone().strftime("%Y-%m-%d %H:%M:%S"),
                    human_size(one.st_size),
                )
                for alias, one in facts.items()
            ],
        )
        screen.note("to read one, run: toolbus logs SERVER")

    listed = [
        {"server": alias, "file": str(kept[alias]), "updated": one.st_mtime, "bytes": one.st_size}
        for alias, one in facts.items()
    ]
    return CommandResult({"servers": listed}, print_rows)
