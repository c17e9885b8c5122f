"""Commands of the gateway: serve the catalog, and have editors use it. Their arguments and options."""

from typing import Annotated

import typer

from toolbus.cli.completion.candidates import editor_names
from toolbus.cli.options import Settings, with_config_settings, with_settings


def add_gateway_commands(app: typer.Typer) -> None:
    """Register these commands with the app."""
    app.command("serve")(with_config_settings(_serve))
    app.command("console")(with_settings(_console))
    app.command("install")(with_settings(_install))


def _serve(
    settings: Settings,
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

    return run(settings, ServeOptions(stdio=stdio, http=http, view=view, drain=drain, workers=workers))


def _console(
    settings: Settings,
    print_only: Annotated[
        bool, typer.Option("--print", help="Only print the URL; it can be opened once, within 10 minutes.")
    ] = False,
) -> int:
    """Open the page of a running gateway or background bus: its servers, tools, calls and questions.

    It is served by 'toolbus serve' and 'toolbus up'. The URL contains a token, which lets one browser in.
    """
    from toolbus.cli.commands.gateway.console import run

    return run(settings, print_only=print_only)


def _install(
    settings: Settings,
    editor: Annotated[
        str | None,
        typer.Argument(
            metavar="EDITOR",
            help="claude, claude-code, cursor, vscode, windsurf, gemini, goose, codex, zed or opencode; "
            "default: list those on this machine.",
            autocompletion=editor_names,
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Write the file without asking.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Take the entry out again.")] = False,
    print_only: Annotated[bool, typer.Option("--print", help="Only print the entry.")] = False,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="The name of the entry.")] = "toolbus",
    view: Annotated[
        str | None, typer.Option("--view", metavar="NAME", help="The view of the config to serve.")
    ] = None,
    url: Annotated[
        str | None,
        typer.Option("--url", metavar="URL", help="Connect to a running gateway instead of starting one."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="'${NAME}'|-",
            help="The key for --url: a variable that the editor reads, or - to read it from stdin.",
        ),
    ] = None,
) -> int:
    """Let an editor or agent use all your servers through toolbus.

    Shows the entry that starts 'toolbus serve --stdio' with this config, and writes it into the editor's
    own config after you agree.

    \b
    toolbus install cursor
    toolbus install codex --url https://tools.example.com/mcp --key '${TOOLBUS_KEY}'
    """
    from toolbus.cli.commands.start.install import InstallOptions, run

    options = InstallOptions(
        name=name, url=url, key=key, view=view, yes=yes, remove=remove, print_only=print_only
    )
    return run(settings, editor, options)
