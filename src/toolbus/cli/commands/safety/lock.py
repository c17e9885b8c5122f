"""`toolbus lock`, `lock diff` and `lock approve`: review what servers offer, and write it to the lockfile."""

from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from toolbus.cli.command import CommandResult, Invocation, config_command, group
from toolbus.cli.completion import lock_words, server_names, tool_origins
from toolbus.cli.errors import FAILED, Usage
from toolbus.cli.output.screen import Screen, short_path, visible
from toolbus.cli.parameters import WriteUnasked
from toolbus.core.text.display import counted
from toolbus.core.values.errors import ServerNotFound

if TYPE_CHECKING:
    from toolbus.cli.commands.safety.comparison import Comparison
    from toolbus.config import BusConfig
    from toolbus.lock.file import Lockfile

_COMMANDS = ("diff", "approve")


@partial(group, runs_alone=True, needs_config=True)
async def lock(
    own: Invocation,
    servers: Annotated[
        list[str] | None,
        typer.Argument(metavar="SERVER", help="Servers to include; default: all.", autocompletion=lock_words),
    ] = None,
    yes: WriteUnasked = False,
    check: Annotated[
        bool, typer.Option("--check", help="Only compare: exit 1 if a server differs from the file.")
    ] = False,
    sarif: Annotated[
        bool, typer.Option("--sarif", help="As --check, and print the result in SARIF, for code scanners.")
    ] = False,
) -> CommandResult | int:
    """Review what servers offer, and write it to toolbus.lock.

    Asks before it writes the file, next to the config. From then on, new and changed tools wait for your
    approval. A server whose command or URL has changed is not started.
    """
    only_check = check or sarif
    if only_check and yes:
        raise Usage("--yes and --check cannot be combined; keep one")
    from toolbus.cli.commands.safety.comparison import compared, report, sarif_report
    from toolbus.lock.file import write_lock

    if servers:
        _check_word(own.config, servers[0])

    screen, found = own.screen, await compared(own, servers or (), must_exist=only_check)
    if only_check:
        drift = found.drift
        code = FAILED if drift or found.failed else 0
        if not sarif:
            return report(screen, found, written=False, code=code)
        screen.json(sarif_report(found.path, drift, found.failed))
        return code
    is_needed = bool(found.differences) or (found.old is None and bool(found.now))
    agreed = is_needed and (yes or _ask(screen, found))
    if agreed:
        for file in found.files:
            write_lock(file)
    if screen.as_json or not is_needed or yes:
        screen.show(*report(screen, found, written=agreed)[:2])
    if agreed:
        _note_written(screen, found, is_whole=not servers)
    elif is_needed:
        from toolbus.cli.input.trust import code_if_unwritten

        screen.note("nothing was written; to approve it without being asked, pass --yes")
        return code_if_unwritten(screen)
    return FAILED if found.failed else 0


@config_command
async def diff(
    own: Invocation,
    server: Annotated[
        str | None,
        typer.Argument(
            metavar="SERVER", help="Server to compare; default: all.", autocompletion=server_names
        ),
    ] = None,
) -> CommandResult:
    """Show how the servers differ from toolbus.lock.

    Texts are compared word by word, schemas argument by argument.
    """
    from toolbus.cli.commands.safety.comparison import compared, report

    found = await compared(own, () if server is None else (server,), must_exist=True)
    return report(own.screen, found, written=False, code=FAILED if found.failed else 0)


@config_command
async def approve(
    own: Invocation,
    target: Annotated[
        str,
        typer.Argument(
            metavar="SERVER[/TOOL]",
            help="Server or tool to approve, as it is now.",
            autocompletion=tool_origins,
        ),
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", hidden=True)] = False,  # naming it is the consent
) -> CommandResult | int:
    """Approve a server, or one of its tools, as it is now.

    Updates toolbus.lock without asking, and shows what changed.
    """
    from toolbus.cli.commands.safety.comparison import compared, only_tool, report
    from toolbus.lock.file import write_lock

    alias, tool = _parsed(own.config, target)
    screen, found = own.screen, await compared(own, [alias], must_exist=True)
    if alias in found.failed:
        return report(screen, found, written=False, code=FAILED)
    if tool is not None:
        found = only_tool(found, alias, tool)
    if not found.differences:
        line = f"{visible(target)} is already approved; nothing changed"
        return report(screen, found, written=False)._replace(lines=line)
    (file,) = found.files
    write_lock(file)
    screen.show(*report(screen, found, written=True)[:2])
    screen.note(f"approved {visible(target)} in {short_path(file.path)}")
    return 0


def _parsed(config: "BusConfig", target: str) -> tuple[str, str | None]:
    """The server, and the tool if one is named."""
    if target in config.servers:
        return target, None
    for alias in config.servers:
        if target.startswith(f"{alias}/"):
            return alias, target.removeprefix(f"{alias}/")
    from toolbus.config.location import near_tool

    if meant := near_tool(target, config.servers):
        raise Usage(f"no server {target!r}{meant}")
    raise ServerNotFound(target.partition("/")[0], list(config.servers))


def _check_word(config: "BusConfig", word: str) -> None:
    """Raise `Usage` for a misspelled command, which is taken for a server."""
    from toolbus.config.location import near_miss

    close = get_close_matches(word, _COMMANDS, n=1)
    if close and not near_miss(word, (*config.servers, *config.disabled, *config.outside)):
        raise Usage(f"no command or server {word!r}; did you mean 'toolbus lock {close[0]}'?")


def _ask(screen: Screen, found: "Comparison") -> bool:
    """Show the differences, and ask whether to approve them; False without a terminal."""
    from toolbus.cli.commands.safety.comparison import print_comparison
    from toolbus.cli.input.ask import can_ask
    from toolbus.cli.input.trust import confirm

    if screen.as_json:
        return False
    print_comparison(screen, found)
    written = ", ".join(short_path(file.path) for file in found.files)
    return can_ask() and confirm(f"Approve this, and write {written}? [y/N]: ")


def _note_written(screen: Screen, found: "Comparison", *, is_whole: bool) -> None:
    for file in found.files:
        screen.note(_written(file))
    others = [alias for alias in found.config.servers if is_whole and alias not in found.compared]
    if others:
        screen.note(f"not locked: {', '.join(others)}, of another file; to lock them, name them")


def _written(file: "Lockfile") -> str:
    tools = sum(len(server.definitions["tools"]) for server in file.servers.values())
    hooks = f", {counted(len(file.hooks), 'hook')}" if file.hooks else ""
    counts = f"{counted(len(file.servers), 'server')}, {counted(tools, 'tool')}{hooks}"
    return f"wrote {short_path(file.path)}: {counts}; commit it, so that your team approves the same"
