"""Commands about what is allowed: a config, what servers offer, and calls. Their arguments and options."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from toolbus.cli.completion.candidates import policy_targets, server_names, tool_origins
from toolbus.cli.declared.parameters import Args, ArgsFile, Servers, ToolArguments
from toolbus.cli.options import Settings, with_config_settings, with_settings

LAST_EVENTS = 50
"""How many events of an audit trail are shown, unless somebody wants another number."""


def add_approval_commands(app: typer.Typer) -> None:
    """Register these commands with the app."""
    app.command("lock")(with_config_settings(_lock))
    app.command("diff")(with_config_settings(_diff))
    app.command("approve")(with_config_settings(_approve))
    app.command("policy")(with_config_settings(_policy))
    app.command("audit", cls=_AuditCommand)(with_settings(_audit))


def trust(
    settings: Settings,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Config file; default: the one toolbus finds.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Trust it without asking.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Stop trusting it.")] = False,
) -> int:
    """Review a config and allow toolbus to use it."""
    from toolbus.cli.commands.safety.trust import run

    return run(settings, file, yes=yes, remove=remove)


def _lock(
    settings: Settings,
    servers: Servers = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Write the file without asking.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Only compare: exit 1 if a server differs from the file.")
    ] = False,
    sarif: Annotated[
        bool, typer.Option("--sarif", help="As --check, and print the result in SARIF, for code scanners.")
    ] = False,
) -> int:
    """Write what the servers offer to toolbus.lock, after you agree.

    The file is next to the config. From then on, a tool that is new or has changed is held back until you
    approve it, and a server whose command or URL has changed is not started.
    """
    from toolbus.cli.commands.safety.lock import LockOptions, lock

    return lock(settings, servers or (), LockOptions(yes=yes, check=check or sarif, sarif=sarif))


def _diff(
    settings: Settings,
    server: Annotated[
        str | None,
        typer.Argument(
            metavar="SERVER", help="Server to compare; default: all.", autocompletion=server_names
        ),
    ] = None,
) -> int:
    """Show how the servers differ from toolbus.lock.

    Texts are compared word by word, schemas argument by argument.
    """
    from toolbus.cli.commands.safety.lock import diff

    return diff(settings, () if server is None else (server,))


def _approve(
    settings: Settings,
    target: Annotated[
        str,
        typer.Argument(
            metavar="SERVER[/TOOL]", help="What to approve, as it is now.", autocompletion=tool_origins
        ),
    ],
) -> int:
    """Approve a server, or one of its tools, as it is now.

    Updates toolbus.lock without asking, and shows what changed.
    """
    from toolbus.cli.commands.safety.lock import approve

    return approve(settings, target)


def _policy(
    settings: Settings,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Tool name, or SERVER/TOOL; default: show the whole policy.",
            autocompletion=policy_targets,
        ),
    ] = None,
    pairs: ToolArguments = None,
    args: Args = None,
    args_file: ArgsFile = None,
    resource: Annotated[bool, typer.Option("--resource", help="NAME is SERVER/URI.")] = False,
    prompt: Annotated[bool, typer.Option("--prompt", help="NAME is SERVER/PROMPT.")] = False,
    request: Annotated[
        bool,
        typer.Option(
            "--request", help="NAME is what a server asks of you: SERVER/elicitation, /sampling or /roots."
        ),
    ] = False,
    forget: Annotated[
        bool,
        typer.Option("--forget", help="Forget the stored answers (always, never) about NAME; default: all."),
    ] = False,
) -> int:
    """Show the policy, or explain what it decides about a call.

    \b
    toolbus policy files/write_file path=/etc/passwd
    toolbus policy --resource files/file:///etc/passwd
    """
    from toolbus.cli.commands.safety.policy import Kind, Question, run
    from toolbus.cli.input.arguments import given

    chosen: dict[Kind, bool] = {"resource": resource, "prompt": prompt, "request": request}
    kinds: tuple[Kind, ...] = tuple(kind for kind, on in chosen.items() if on)
    found = given(pairs or [], args, args_file)
    return run(settings, Question(name=name, kinds=kinds, given=found, forget=forget))


class _AuditCommand(TyperCommand):
    """Accepts `--tail` without a number, which typer has no way to say."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for place in [n for n, word in enumerate(args) if word == "--tail"]:
            if not args[place + 1 : place + 2] or not args[place + 1].isdigit():
                args[place] = f"--tail={LAST_EVENTS}"
        return super().parse_args(ctx, args)


def _audit(
    settings: Settings,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Trail to read; default: the config's.")
    ] = None,
    tail: Annotated[
        int, typer.Option("--tail", metavar="[N]", min=0, help="Show the last N events; 0 for all.")
    ] = LAST_EVENTS,
    tool: Annotated[
        str | None,
        typer.Option(
            "--tool",
            metavar="PATTERN",
            help="Show only events of these tools: a glob on SERVER/TOOL.",
            autocompletion=tool_origins,
        ),
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", metavar="NAME", help="Show only events of this user.")
    ] = None,
    decision: Annotated[
        Literal["allow", "deny"] | None, typer.Option("--decision", help="Show only these decisions.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Show only events since: 2h, 7d, 2026-11-16."),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check that nothing was changed: exit 1 if something was.")
    ] = False,
    expect: Annotated[
        list[str] | None,
        typer.Option("--expect", metavar="HASH", help="As --verify, and this line must be there."),
    ] = None,
) -> int:
    """Show the recorded calls, or check that nobody changed them."""
    from toolbus.audit.read import Query
    from toolbus.cli.commands.safety.audit import check, run, since_time

    if verify or expect:
        return check(settings, file, expect or ())
    query = Query(tool=tool, user=user, decision=decision, since=since_time(since))
    return run(settings, file, query, tail)
