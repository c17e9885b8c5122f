"""Commands of the background bus: start it, stop it, look at it. Their options."""

from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from toolbus.cli.options import Settings, with_config_settings, with_settings


def add_background_commands(app: typer.Typer, run_line: Callable[[Sequence[str]], int]) -> None:
    """Register these commands with the app; `run_line` runs the command line of a client."""

    def up(
        settings: Settings,
        foreground: Annotated[
            bool, typer.Option("--foreground", help="Run here until Ctrl-C, as for systemd or a container.")
        ] = False,
        idle: Annotated[
            str | None,
            typer.Option(
                "--idle", metavar="TIME", help="Stop after this time without a command, such as 30m."
            ),
        ] = None,
        no_console: Annotated[
            bool, typer.Option("--no-console", help="Without the page that 'toolbus console' opens.")
        ] = False,
    ) -> int:
        """Keep the servers running in the background.

        While they run, tools, search, call, run, resume, resources, read, prompts, prompt, skills, skill,
        check and chat use them: servers are not started anew, and keep their state. With --no-up, a command
        does not.
        """
        from toolbus.cli.commands.servers.up import UpOptions, idle_seconds, run

        seconds = None if idle is None else idle_seconds(idle)
        options = UpOptions(
            foreground=foreground, idle=seconds, has_console=not no_console, run_line=run_line
        )
        return run(settings, options)

    app.command("up")(with_config_settings(up))
    app.command("down")(with_settings(_down))
    app.command("status")(with_settings(_status))


def _down(settings: Settings) -> int:
    """Stop the servers in the background; running commands may end first."""
    from toolbus.cli.commands.servers.down import run

    return run(settings)


def _status(settings: Settings) -> int:
    """Show the servers in the background; exit 1 if there are none."""
    from toolbus.cli.commands.servers.status import run

    return run(settings)
