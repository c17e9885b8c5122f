"""`toolbus prompt`: fill in one prompt."""

from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolbus.cli.command import CommandResult, Invocation, bus_command
from toolbus.cli.commands.use.listings import list_prompts
from toolbus.cli.completion import prompt_arguments, prompt_names
from toolbus.cli.errors import Usage
from toolbus.cli.input.arguments import check_out_folder, facts_by_name, hint, texts
from toolbus.cli.input.lookup import NotListed, raise_if_down, servers_down
from toolbus.cli.output import results
from toolbus.cli.output.screen import Screen
from toolbus.cli.parameters import Out
from toolbus.core.values.records import JSON, Prompt, PromptResult, ToolResult

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus


@partial(bus_command, tapes=True)
def prompt(
    own: Invocation,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="SERVER/PROMPT, or the prompt's name if only one server has it. The name of a server lists "
            "its prompts.",
            autocompletion=prompt_names,
        ),
    ] = None,
    pairs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="Arguments as text; text=@FILE to read a file.",
            autocompletion=prompt_arguments,
        ),
    ] = None,
    out: Out = None,
) -> Coroutine[Any, Any, CommandResult]:
    """Fill in a prompt; without NAME, list the prompts.

    toolbus prompt docs/review language=python code=@main.py
    """
    check_out_folder(out)
    if name is None or (name in own.config.servers and not pairs):
        if out is not None:
            raise Usage("--out needs the name of a prompt; 'toolbus prompt' lists them")
        return list_prompts(own, [] if name is None else [name])
    return _filled_in(own, name, texts(pairs or []), out)


async def _filled_in(
    own: Invocation, name: str, given: Mapping[str, Sequence[str]], out: Path | None
) -> CommandResult:
    from toolbus.cli.session import command_line, start_idle_servers

    screen, config = own.screen, own.config
    # If the name includes a server, start only that one.
    named = [alias for alias in own.selected() if name.startswith(f"{alias}/")]
    async with own.bus(named or list(config.servers), asks=True) as bus:
        for alias in named:
            raise_if_down(bus, alias)
        if named and not _matches(bus, name):
            await start_idle_servers(screen, bus, config)
        caller = bus.view(caller=command_line())
        if (denied := _denied(bus, name)) is not None:
            await caller.get_prompt(denied.server, denied.name)  # the error names the rule
        found = _find_prompt(bus, name)
        arguments = validated_arguments(found, given)
        with screen.spinner(f"filling in {found.name}"):
            result = await caller.get_prompt(found.server, found.name, arguments)
    return _outcome(screen, found, result, out)


def _matches(bus: "Toolbus", name: str) -> list[Prompt]:
    """The prompts that match `server/name`, or else the name alone."""
    prompts = bus.prompts()
    full = [prompt for prompt in prompts if name == _qualified_name(prompt)]
    return full or [prompt for prompt in prompts if name == prompt.name]


def _denied(bus: "Toolbus", name: str) -> Prompt | None:
    """The prompt of that name that is not listed because the policy denies it."""
    if _matches(bus, name):
        return None
    offered = [prompt for stock in bus.inventories.values() for prompt in stock.prompts]
    return next((prompt for prompt in offered if name in (_qualified_name(prompt), prompt.name)), None)


def _qualified_name(prompt: Prompt) -> str:
    return f"{prompt.server}/{prompt.name}"


def _find_prompt(bus: "Toolbus", name: str) -> Prompt:
    found = _matches(bus, name)
    if not found:
        raise NotListed(
            "prompt", name, [_qualified_name(prompt) for prompt in bus.prompts()], servers_down(bus)
        )
    if len(found) > 1:
        raise Usage(
            f"{len(found)} prompts are named {name!r}; use {' or '.join(map(_qualified_name, found))}"
        )
    return found[0]


def validated_arguments(prompt: Prompt, given: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The arguments as sent; raises `Usage` if one is unknown, repeated or missing."""
    known = [argument.name for argument in prompt.arguments]
    for key, values in given.items():
        if key not in known:
            raise Usage(f"{key}: no such argument; {hint(key, known)}")
        if len(values) > 1:
            raise Usage(f"{key} is given twice; keep one")
    missing = [
        argument.name for argument in prompt.arguments if argument.required and argument.name not in given
    ]
    if missing:
        lines = facts_by_name(
            (argument.name, "required" if argument.required else "optional", argument.description)
            for argument in prompt.arguments
        )
        raise Usage(f"{_qualified_name(prompt)} needs {' '.join(f'{name}=...' for name in missing)}", lines)
    return {key: values[0] for key, values in given.items()}


def _outcome(screen: Screen, prompt: Prompt, result: PromptResult, out: Path | None) -> CommandResult:
    content = ToolResult(content=tuple(message.content for message in result.messages))
    files: results.SavedFiles = {} if out is None else results.save_blobs(content, out, prompt.name)

    def lines() -> None:
        for index, message in enumerate(result.messages):
            screen.line((f"{message.role}:", "bold"))
            own = {0: files[index]} if index in files else {}
            results.print_result(screen, ToolResult(content=(message.content,)), own)

    def document() -> JSON:
        blocks = results.content_json(content, files)
        messages = [
            {"role": message.role, "content": block}
            for message, block in zip(result.messages, blocks, strict=True)
        ]
        facts = {"server": prompt.server, "name": prompt.name, "description": result.description}
        return {**facts, "messages": messages}

    return CommandResult(document, lines)
