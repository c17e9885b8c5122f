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

from toolbus.cli.command import Invocation, LazyGroup, command_tree, root_group

SECTIONS = {
    "Start": {
        "demo": ("use.demo", "Run a demo on bundled servers; needs no API key or network."),
        "init": ("config.init", "Create a commented toolbus.yaml in this folder."),
        "add": ("config.edit", "Add a server to the config; create the config if needed."),
        "import": ("config.import_", "Import servers from an editor's or agent's config."),
        "install": ("config.install", "Let an editor or agent use all your servers through toolbus."),
        "check": ("servers.check", "Diagnose servers and suggest fixes."),
    },
    "Use": {
        "tools": ("use.tools", "List servers and their tools."),
        "search": ("use.search", "Find tools by what they do, or by name, best first."),
        "call": ("use.call", "Call a tool and print the result; exit 1 if the tool fails."),
        "read": ("use.read", "Read a resource; without URI, list the resources."),
        "prompt": ("use.prompt", "Fill in a prompt; without NAME, list the prompts."),
        "skill": ("use.skill", "Print a skill; without NAME, list the skills."),
        "script": ("use.script", "Run a Python script that calls tools, in a sandbox."),
        "script save": (
            "config.script_save",
            "Keep a script as a tool; without NAME, list scripts.",
        ),
        "chat": ("use.chat", "Chat with a model that can use your servers' tools."),
        "tape": ("use.tape", "Show what a tape has in it, or verify it."),
        "tape show": ("use.tape", "List the servers and the calls of a tape."),
        "tape verify": ("use.tape_verify", "Repeat a tape's calls on live servers; exit 1 on a change."),
    },
    "Servers": {
        "up": ("servers.up", "Keep the servers running in the background."),
        "down": ("servers.down", "Stop the servers in the background."),
        "status": ("servers.status", "Show the servers in the background; exit 1 if none run."),
        "login": ("servers.login", "Sign in to a server; without SERVER, list the logins."),
        "logout": ("servers.login", "Sign out of a server: forget its tokens."),
        "logs": ("servers.logs", "Show a server's stderr; without SERVER, list the logs."),
    },
    "Gateway": {
        "serve": ("gateway.serve", "Offer all servers as one MCP server, over HTTP or stdio."),
        "console": ("gateway.console", "Open the web console of a gateway or background bus."),
        "key": ("gateway.key", "Manage the keys that let clients into toolbus serve."),
        "key add": ("gateway.key", "Make a key and print it; it cannot be shown again."),
        "key invite": ("gateway.key", "Print a one-time link with which a person signs in."),
        "key list": ("gateway.key", "List keys, people, and the clients that people allowed."),
        "key revoke": ("gateway.key", "Revoke a key, a client, or all that a person has."),
        "key rotate": ("gateway.key", "Replace the secret that signs tokens and client IDs."),
        "store": ("gateway.store", "Back up, restore and re-encrypt shared databases."),
        "store rekey": ("gateway.store", "Re-encrypt the store with the first $TOOLBUS_STORE_KEY."),
        "store backup": ("gateway.store", "Save the config's store and the durable runs in one file."),
        "store restore": ("gateway.store", "Restore a backup into empty databases."),
    },
    "Safety": {
        "trust": ("safety.trust", "Review a config and allow toolbus to use it."),
        "lock": ("safety.lock", "Review what servers offer, and write it to toolbus.lock."),
        "lock diff": ("safety.lock", "Show how the servers differ from toolbus.lock."),
        "lock approve": ("safety.lock", "Approve a server, or one of its tools, as it is now."),
        "policy": ("safety.policy", "Show the policy, or explain what it decides about a call."),
        "audit": ("safety.audit", "Show the recorded calls, or check that nobody changed them."),
        "audit usage": ("safety.usage", "Show how tools are used, what they cost, and which to hide."),
    },
    "Config": {
        "config": ("config.config", "Show the config as toolbus reads it, without secrets."),
        "update": ("config.update", "Update servers from a registry, or list newer versions."),
        "remove": ("config.edit", "Remove a server from the config."),
        "enable": ("config.edit", "Enable a server in the config."),
        "disable": ("config.edit", "Disable a server in the config without removing it."),
    },
    "Agents": {
        "runs": ("agents.runs", "List, answer, start and cancel durable runs of agents."),
        "runs show": ("agents.runs", "Show a run: its steps, what it waits for, and how it ended."),
        "runs watch": ("agents.runs", "Print the events of a run until it ends."),
        "runs resume": ("agents.runs_resume", "Answer a run's question, or continue a stopped run."),
        "runs cancel": ("agents.runs", "Cancel a run, wherever it is executed."),
        "runs delete": ("agents.runs", "Delete a finished run, with all that is recorded of it."),
        "runs start": ("agents.runs", "Add a run for the workers, and print its id."),
        "runs worker": ("agents.worker", "Execute durable runs until stopped."),
    },
}
"""The sections of the help: the module of each command in `cli/commands`, and the first line of its help."""

COMMANDS = {words: (*row, section) for section, rows in SECTIONS.items() for words, row in rows.items()}
"""All of them, with their sections."""

HIDDEN = {
    "watch": ("servers.watch", ""),
    "run": ("use.script", "script"),
    "worker": ("agents.worker", "runs worker"),
    "diff": ("safety.lock", "lock diff"),
    "approve": ("safety.lock", "lock approve"),
    "resume": ("use.resume", "call --resume FILE"),
    "resources": ("use.listings", "read"),
    "prompts": ("use.listings", "prompt"),
    "skills": ("use.listings", "skill"),
    "logins": ("servers.login", "login"),
}
"""Commands that work, but are not listed: the module of each, and its new spelling, if it has one."""

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
@root_group
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
    tree.list_below(COMMANDS, hidden=HIDDEN)
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
    """Discard unwritable output: the disk is full, or the reader is gone."""
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
