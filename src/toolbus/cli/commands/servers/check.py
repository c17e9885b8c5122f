"""`toolbus check`: find problems of servers, and suggest fixes."""

from contextlib import suppress
from typing import Annotated

import typer

from toolbus.cli.command import CommandResult, Invocation, bus_command
from toolbus.cli.errors import Usage
from toolbus.cli.parameters import Servers, Wait
from toolbus.core.values.errors import ConfigError
from toolbus.shape.dialects import DIALECTS


@bus_command
async def check(
    own: Invocation,
    servers: Servers = None,
    dialect: Annotated[
        str | None,
        typer.Option(
            "--dialect", metavar="NAME", help="Show how schemas change for a provider: openai, google, ..."
        ),
    ] = None,
    wait: Wait = 0,
) -> CommandResult:
    """Diagnose servers and suggest fixes."""
    if dialect is not None and dialect not in DIALECTS:
        raise Usage(f"--dialect {dialect!r}: expected one of {', '.join(DIALECTS)}")
    _ = own.config  # its errors are no refusals
    from toolbus.cli.commands.servers.check_report import checked, is_refusal, print_administrator
    from toolbus.config.launch.administrator import read_administrator

    try:
        return await checked(own, own.selected(servers), dialect, wait)
    except ConfigError as error:  # nothing was started, perhaps because of what an administrator requires
        if is_refusal(error) and not own.screen.as_json:
            with suppress(ConfigError):
                print_administrator(own.screen, read_administrator(), [])
        raise
