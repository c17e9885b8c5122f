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
from typing import Annotated, Any, TextIO

import typer

from toolbus.cli.command import Invocation, LazyGroup, command_tree, group

COMMANDS = {
    "demo": ("commands.use.demo:demo", "Run a demo on bundled servers; needs no API key or network."),
    "trust": ("commands.safety.trust:trust", "Review a config and allow toolbus to use it."),
    "tools": ("commands.use.tools:tools", "List servers and their tools."),
    "search": ("commands.use.search:search", "Find tools by what they do, or by name, best first."),
    "run": (
        "commands.use.run:run",
        "Run a Python script that calls tools, in a sandbox without files and network.",
    ),
    "call": ("commands.use.call:call", "Call a tool and print the result; exit 1 if the tool fails."),
    "resume": ("commands.use.resume:resume", "Resume a call that is waiting for an answer."),
    "resources": ("commands.use.listings:resources", "List resources and resource templates."),
    "read": ("commands.use.read:read", "Read a resource; print text, save binary data with --out."),
    "prompts": ("commands.use.listings:prompts", "List prompts and their arguments."),
    "prompt": ("commands.use.prompt:prompt", "Fill in a prompt and print its messages."),
    "skills": ("commands.use.listings:skills", "List skills: instructions for a task, with their files."),
    "skill": (
        "commands.use.skill:skill",
        "Print a skill, or a file of it, if it is as the server listed it.",
    ),
    "chat": ("commands.servers.services:chat", "Chat with a model that can use your servers' tools."),
    "check": ("commands.servers.check:check", "Diagnose servers and suggest fixes."),
    "watch": ("commands.servers.services:watch", "Keep servers running and show events until Ctrl-C."),
    "up": ("commands.servers.services:up", "Keep the servers running in the background."),
    "down": (
        "commands.servers.services:down",
        "Stop the servers in the background; running commands may end first.",
    ),
    "status": (
        "commands.servers.services:status",
        "Show the servers in the background; exit 1 if there are none.",
    ),
    "serve": (
        "commands.servers.services:serve",
        "Offer the tools, resources and prompts of all servers as one MCP server.",
    ),
    "console": (
        "commands.servers.services:console",
        "Open the page of a running gateway or background bus: its servers, tools, calls and questions.",
    ),
    "install": (
        "commands.config.install:install",
        "Let an editor or agent use all your servers through toolbus.",
    ),
    "worker": (
        "commands.agents.worker:worker",
        "Execute durable runs until stopped; start as many as you need, on any machine.",
    ),
    "init": ("commands.config.init:init", "Create a commented toolbus.yaml in this folder."),
    "import": ("commands.config.import_:import_", "Import servers from an editor's or agent's config."),
    "add": ("commands.config.edit:add", "Add a server to the config; create the config if needed."),
    "remove": ("commands.config.edit:remove", "Remove a server from the config."),
    "enable": ("commands.config.edit:enable", "Enable a server in the config."),
    "disable": ("commands.config.edit:disable", "Disable a server in the config without removing it."),
    "login": ("commands.servers.login:login", "Sign in to a server that has auth: oauth."),
    "logins": ("commands.servers.login:logins", "Show who is signed in to which server."),
    "logout": ("commands.servers.login:logout", "Sign out of a server: forget its tokens."),
    "lock": (
        "commands.safety.lock:lock",
        "Write what the servers offer to toolbus.lock, after you agree.",
    ),
    "diff": ("commands.safety.lock:diff", "Show how the servers differ from toolbus.lock."),
    "approve": ("commands.safety.lock:approve", "Approve a server, or one of its tools, as it is now."),
    "policy": ("commands.safety.policy:policy", "Show the policy, or explain what it decides about a call."),
    "audit": (
        "commands.safety.audit:audit",
        "Show the recorded calls, or check that nobody changed them.",
    ),
    "config": ("commands.config.config:config", "Show the config as toolbus reads it, without secrets."),
    "runs": ("commands.agents.runs:runs", "List, answer, start and cancel durable runs of agents."),
    "runs show": (
        "commands.agents.runs:show",
        "Show a run: its steps, what it waits for, and how it ended.",
    ),
    "runs watch": ("commands.agents.runs_watch:watch", "Print the events of a run until it ends."),
    "runs resume": (
        "commands.agents.runs_resume:resume",
        "Answer a run's question, or continue a stopped run.",
    ),
    "runs cancel": ("commands.agents.runs:cancel", "Cancel a run, wherever it is executed."),
    "runs delete": (
        "commands.agents.runs:delete",
        "Delete a run that has ended, with all that is recorded of it.",
    ),
    "runs start": ("commands.agents.runs:start", "Add a run for the workers, and print its id."),
    "key": ("commands.gateway.key:key", "Manage the keys that let clients into toolbus serve."),
    "key add": ("commands.gateway.key:add", "Make a key and print it; it cannot be shown again."),
    "key list": ("commands.gateway.key:list_keys", "List the keys, and when each was last used."),
    "key revoke": (
        "commands.gateway.key:revoke",
        "Revoke a key; a running gateway refuses it within two seconds.",
    ),
    "store": ("commands.gateway.store:store", "Back up, restore and re-encrypt shared databases."),
    "store rekey": (
        "commands.gateway.store:rekey",
        "Encrypt all that is stored with the first key of $TOOLBUS_STORE_KEY.",
    ),
    "store backup": (
        "commands.gateway.store:backup",
        "Save the store of the config and the durable runs in one file.",
    ),
    "store restore": ("commands.gateway.store:restore", "Restore a backup into empty databases."),
}
"""Each command's function, and the first line of its help; a command is imported only when it runs."""

app = typer.Typer(
    help="Use the tools of all your MCP servers from the terminal.",
    epilog="New here? Run toolbus demo, then toolbus add, then toolbus tools.",
    cls=LazyGroup,
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
@group
def root(
    own: Invocation,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Use the tools of all your MCP servers from the terminal."""


def main() -> None:
    """Run the program, without a background bus."""
    sys.exit(exit_code(sys.argv[1:]))


def exit_code(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; an error becomes a line on stderr."""
    prepare_streams()
    try:
        instruction, _, shell = os.environ.get("_TOOLBUS_COMPLETE", "").partition("_")
        if instruction == "complete":
            from toolbus.cli.completion import complete

            return complete(shell, commands())
        if {"--install-completion", "--show-completion"} & set(arguments):
            from toolbus.cli.completion import patch_scripts

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
    """The commands; each is built when it is first needed."""
    tree = command_tree(app)
    tree.list_below(COMMANDS)
    return tree


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
