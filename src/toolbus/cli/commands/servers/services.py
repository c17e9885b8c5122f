"""Commands that keep running, or look at what keeps running: their parameters.

Their work takes long to import. A mistake in a command line is reported before that.
"""

from pathlib import Path
from typing import Annotated, Literal

import typer

from toolbus.cli.command import Invocation, bus_command, command, config_command
from toolbus.cli.parameters import Model, Servers


@bus_command
def chat(
    own: Invocation,
    prompt: Annotated[
        str | None,
        typer.Argument(metavar="PROMPT", help="Answer this prompt and exit; piped text is appended."),
    ] = None,
    model: Model = None,
    approve: Annotated[
        Literal["ask", "writes", "never"],
        typer.Option(
            "--approve",
            help="Ask before every call, before all but read-only tools of servers with trust: true, or "
            "never. Without a terminal, and with --json, calls that need approval are not run.",
        ),
    ] = "writes",
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Save images here; default: a temporary folder."),
    ] = None,
) -> int:
    """Chat with a model that can use your servers' tools.

    Starts a dialog on a terminal; with PROMPT or piped text, prints one answer. The model's text goes to
    stdout; if stdout is not a terminal, only the final answer. Requires pip install "toolbus[agent]".

    With --json, prints one document per event, each on its own line: text, thinking, tool_called,
    tool_progressed, tool_returned, approval_asked, and finally result with text, usage and calls.
    """
    from toolbus.cli.chat.start import ChatOptions, run

    return run(own.settings, ChatOptions(prompt=prompt, model=model, approve=approve, out=out))


@config_command
def watch(own: Invocation, servers: Servers = None) -> int:
    """Keep servers running and show events until Ctrl-C.

    Reloads the config when the file changes.
    """
    from toolbus.cli.commands.servers.watch import run

    return run(own.settings, servers or [])


@config_command
def up(
    own: Invocation,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Run here until Ctrl-C, as for systemd or a container.")
    ] = False,
    idle: Annotated[
        str | None,
        typer.Option("--idle", metavar="TIME", help="Stop after this time without a command, such as 30m."),
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
    from toolbus.cli.app import exit_code
    from toolbus.cli.commands.servers.up import UpOptions, idle_seconds, run

    seconds = None if idle is None else idle_seconds(idle)
    options = UpOptions(foreground=foreground, idle=seconds, has_console=not no_console, run_line=exit_code)
    return run(own.settings, options)


@command
def down(own: Invocation) -> int:
    """Stop the servers in the background; running commands may end first."""
    from toolbus.cli.commands.servers.down import run

    return run(own.settings)


@command
def status(own: Invocation) -> int:
    """Show the servers in the background; exit 1 if there are none."""
    from toolbus.cli.commands.servers.status import run

    return run(own.settings)


@config_command
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
            metavar="SECONDS",
            min=0,
            help="How long calls in flight may take to end when it stops; default: 30.",
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
) -> int:
    """Offer the tools, resources and prompts of all servers as one MCP server.

    Serves HTTP unless --stdio is given. 'toolbus install' adds it to an editor.
    """
    from toolbus.cli.commands.gateway.serve import ServeOptions, run

    return run(own.settings, ServeOptions(stdio=stdio, http=http, view=view, drain=drain, workers=workers))


@command
def console(
    own: Invocation,
    print_only: Annotated[
        bool, typer.Option("--print", help="Only print the URL; it can be opened once, within 10 minutes.")
    ] = False,
) -> int:
    """Open the page of a running gateway or background bus: its servers, tools, calls and questions.

    It is served by 'toolbus serve' and 'toolbus up'. The URL contains a token, which lets one browser in.
    """
    from toolbus.cli.commands.gateway.console import run

    return run(own.settings, print_only=print_only)
