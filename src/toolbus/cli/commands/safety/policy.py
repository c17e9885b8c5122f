"""`toolbus policy`: show the rules of the policy, and explain what it decides about a call."""

from collections.abc import Coroutine
from typing import Annotated, Any

import typer

from toolbus.cli.command import CommandResult, Invocation, config_command
from toolbus.cli.completion import policy_targets
from toolbus.cli.input.arguments import given
from toolbus.cli.parameters import Args, ArgsFile, ToolArguments


@config_command
def policy(
    own: Invocation,
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
) -> Coroutine[Any, Any, CommandResult]:
    """Show the policy, or explain what it decides about a call.

    \b
    toolbus policy files/write_file path=/etc/passwd
    toolbus policy --resource files/file:///etc/passwd
    """
    words = given(pairs or [], args, args_file)
    from toolbus.cli.commands.safety.decisions import Kind, PolicyQuestion, shown_policy

    chosen: dict[Kind, bool] = {"resource": resource, "prompt": prompt, "request": request}
    kinds: tuple[Kind, ...] = tuple(kind for kind, on in chosen.items() if on)
    return shown_policy(own, PolicyQuestion(name=name, kinds=kinds, given=words, forget=forget))
