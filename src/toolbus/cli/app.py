"""The `toolbus` command: its subcommands, and how every outcome becomes an exit code.

0 done, 1 failed, 2 wrong usage or config; 130 and 143 if interrupted or terminated. An error is one
line on stderr that ends with the next step; `--debug` adds a traceback.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, Literal, TextIO

import typer

from toolbus.cli.declared.approval import add_approval_commands, trust
from toolbus.cli.declared.background import add_background_commands
from toolbus.cli.declared.command_tree import command_tree
from toolbus.cli.declared.durable import add_durable_commands
from toolbus.cli.declared.edit import add_edit_commands
from toolbus.cli.declared.gateway import add_gateway_commands
from toolbus.cli.declared.key import add_key_commands
from toolbus.cli.declared.login import add_login_commands
from toolbus.cli.declared.parameters import (
    Args,
    ArgsFile,
    FormValues,
    ImportSource,
    Model,
    OnInput,
    Out,
    OutFile,
    PromptArguments,
    PromptName,
    ReadTarget,
    Servers,
    SuspendedCall,
    TemplateValues,
    Timeout,
    ToolArguments,
    ToolName,
    Write,
)
from toolbus.cli.declared.store import add_store_commands
from toolbus.cli.declared.use import add_run_commands, add_search_commands, add_skill_commands
from toolbus.cli.options import SharedOptions, with_bus_settings, with_config_settings, with_settings

app = typer.Typer(
    help="Use the tools of all your MCP servers from the terminal.",
    epilog="New here? Run toolbus demo, then toolbus add, then toolbus tools.",
    rich_markup_mode=None,  # plain help: faster, and the same on every terminal
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(requested: bool) -> None:
    if requested:
        import toolbus

        print(f"toolbus {toolbus.__version__}")
        raise typer.Exit()


@app.callback()
@with_settings
def root(
    settings: SharedOptions,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Use the tools of all your MCP servers from the terminal."""


@app.command()
@with_settings
def demo(
    settings: SharedOptions,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Keep the demo's files in this folder.")
    ] = None,
) -> int:
    """Run a demo on bundled servers; needs no API key or network."""
    from toolbus.cli.commands.start.demo import run

    return run(settings, out)


app.command()(with_settings(trust))  # first, because other commands need it


@app.command()
@with_bus_settings
def tools(
    settings: SharedOptions,
    servers: Servers = None,
    search: Annotated[
        str | None,
        typer.Option("--search", metavar="WORDS", help="Show only the tools that fit these words best."),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Show arguments, annotations and overrides.")] = False,
    cost: Annotated[
        bool, typer.Option("--cost", help="Show how many tokens each tool takes, highest first.")
    ] = False,
    wait: Annotated[
        float,
        typer.Option(
            "--wait",
            metavar="SECONDS",
            show_default=False,
            help="Wait up to this long for servers that are down; with a lockfile, contact the servers.",
        ),
    ] = 0,
) -> int:
    """List servers and their tools."""
    if cost:
        from toolbus.cli.commands.use.cost import run as run_cost

        return run_cost(settings, servers or [], search=search, wait=wait)
    from toolbus.cli.commands.use.tools import run

    return run(settings, servers or [], search=search, full=full, wait=wait)


add_search_commands(app)
add_run_commands(app)


@app.command()
@with_bus_settings
def call(
    settings: SharedOptions,
    name: ToolName,
    pairs: ToolArguments = None,
    args: Args = None,
    args_file: ArgsFile = None,
    timeout: Timeout = None,
    out: Out = None,
    on_input: OnInput = "ask",
) -> int:
    """Call a tool and print the result; exit 1 if the tool fails."""
    from toolbus.cli.commands.use.call import CallOptions, run
    from toolbus.cli.input.arguments import given

    options = CallOptions(timeout=timeout, out=out, on_input=on_input)
    return run(settings, name, given(pairs or [], args, args_file), options)


@app.command()
@with_bus_settings
def resume(
    settings: SharedOptions,
    file: SuspendedCall,
    pairs: FormValues = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Accept the URL, or submit the form with its defaults.")
    ] = False,
    decline: Annotated[bool, typer.Option("--decline", help="Decline the request.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel without answering.")] = False,
    timeout: Timeout = None,
    out: Out = None,
    on_input: OnInput = "ask",
) -> int:
    """Resume a call that is waiting for an answer.

    \b
    toolbus call inn/book guest=Ann --on-input suspend > call.json
    toolbus resume call.json seats=2
    """
    from toolbus.cli.commands.use.call import CallOptions
    from toolbus.cli.commands.use.resume import chosen_action, run

    action = chosen_action(accept=accept, decline=decline, cancel=cancel)
    return run(settings, file, pairs or [], action, CallOptions(timeout=timeout, out=out, on_input=on_input))


@app.command()
@with_bus_settings
def resources(settings: SharedOptions, servers: Servers = None) -> int:
    """List resources and resource templates."""
    from toolbus.cli.commands.use.resources import run

    return run(settings, servers or [])


@app.command()
@with_bus_settings
def read(
    settings: SharedOptions,
    first: ReadTarget,
    pairs: TemplateValues = None,
    out: OutFile = None,
) -> int:
    """Read a resource; print text, save binary data with --out.

    toolbus read docs 'file:///{path}' path=README.md
    """
    from toolbus.cli.commands.use.read import run

    return run(settings, [first, *(pairs or [])], out)


@app.command()
@with_bus_settings
def prompts(settings: SharedOptions, servers: Servers = None) -> int:
    """List prompts and their arguments."""
    from toolbus.cli.commands.use.prompts import run

    return run(settings, servers or [])


@app.command()
@with_bus_settings
def prompt(
    settings: SharedOptions,
    name: PromptName,
    pairs: PromptArguments = None,
    out: Out = None,
) -> int:
    """Fill in a prompt and print its messages.

    toolbus prompt docs/review language=python code=@main.py
    """
    from toolbus.cli.commands.use.prompt import run

    return run(settings, name, pairs or [], out)


add_skill_commands(app)


@app.command()
@with_bus_settings
def chat(
    settings: SharedOptions,
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

    return run(settings, ChatOptions(prompt=prompt, model=model, approve=approve, out=out))


@app.command()
@with_bus_settings
def check(
    settings: SharedOptions,
    servers: Servers = None,
    dialect: Annotated[
        str | None,
        typer.Option(
            "--dialect", metavar="NAME", help="Show how schemas change for a provider: openai, google, ..."
        ),
    ] = None,
) -> int:
    """Diagnose servers and suggest fixes."""
    from toolbus.cli.commands.start.check import run

    return run(settings, servers or [], dialect)


@app.command()
@with_config_settings
def watch(settings: SharedOptions, servers: Servers = None) -> int:
    """Keep servers running and show events until Ctrl-C.

    Reloads the config when the file changes.
    """
    from toolbus.cli.commands.servers.watch import run

    return run(settings, servers or [])


add_background_commands(app, lambda words: exit_code(words))
add_gateway_commands(app)
add_durable_commands(app)


@app.command()
@with_settings
def init(
    settings: SharedOptions,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> int:
    """Create a commented toolbus.yaml in this folder."""
    from toolbus.cli.commands.start.init import run

    return run(settings, force=force)


@app.command("import")
@with_settings
def import_(
    settings: SharedOptions,
    source: ImportSource = None,
    write: Write = False,
    with_secrets: Annotated[
        bool, typer.Option("--with-secrets", help="With --write: copy literal secrets to .env.")
    ] = False,
) -> int:
    """Import servers from an editor's or agent's config."""
    from toolbus.cli.commands.start.import_ import run

    return run(settings, source, write=write, with_secrets=with_secrets)


add_edit_commands(app)
add_login_commands(app)
add_approval_commands(app)
add_key_commands(app)
add_store_commands(app)


@app.command()
@with_settings
def config(
    settings: SharedOptions,
    redacted: Annotated[
        bool, typer.Option("--redacted", help="Resolve every ${...}; show secrets as ***.")
    ] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of toolbus.yaml, for editors.")
    ] = False,
) -> int:
    """Show the config as toolbus reads it, without secrets."""
    from toolbus.cli.commands.config.config import print_schema, run

    return print_schema() if schema else run(settings, expanded=redacted)


def main() -> None:
    """Run the program, without a background bus."""
    sys.exit(exit_code(sys.argv[1:]))


def exit_code(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; an error becomes a line on stderr."""
    prepare_streams()
    try:
        instruction, _, shell = os.environ.get("_TOOLBUS_COMPLETE", "").partition("_")
        if instruction == "complete":
            from toolbus.cli.completion.shells import complete

            return complete(shell, app)
        if {"--install-completion", "--show-completion"} & set(arguments):
            from toolbus.cli.completion.shells import patch_scripts

            patch_scripts()
        return _run_command(arguments)
    except BrokenPipeError:
        discard(sys.stdout)
        return 1
    except (Exception, typer.Abort) as error:  # top level: every error becomes a line
        from toolbus.cli.errors import report

        if isinstance(error, OSError) and error.errno is not None:
            discard_unwritable(sys.stdout)
        code = report(error, as_json="--json" in arguments, debug="--debug" in arguments)
        discard_unwritable(sys.stdout)
        return code
    finally:
        discard_unwritable(sys.stderr)


@cache
def commands() -> Any:
    """The commands, built once."""
    return command_tree(app)


def _run_command(arguments: Sequence[str]) -> int:
    code: Any = commands().main(list(arguments) or ["--help"], prog_name="toolbus", standalone_mode=False)
    sys.stdout.flush()
    return code or 0


def prepare_streams() -> None:
    """Replace closed streams, and escape what a stream cannot encode."""
    for name in ("stdout", "stderr"):
        # A closed stream is None, and printing to None would raise the wrong error.
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  stays open until exit
    for stream in (sys.stdout, sys.stderr):
        # A character that the terminal cannot show is escaped instead of raising an error.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def discard_unwritable(stream: TextIO) -> None:
    """Discard what cannot be written: the disk is full, or the reader is gone."""
    try:
        stream.flush()
    except (OSError, ValueError):
        discard(stream)


def discard(stream: TextIO) -> None:
    """Keep Python from writing to the stream again at exit."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, stream.fileno())
        finally:
            os.close(nowhere)
