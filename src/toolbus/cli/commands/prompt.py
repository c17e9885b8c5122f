"""`toolbus prompt`: one prompt, filled in."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from toolbus.cli.commands.call import check_folder
from toolbus.cli.input.arguments import texts
from toolbus.cli.input.finding import NotListed, down, raise_if_down
from toolbus.cli.input.questions import interactions
from toolbus.cli.options import Settings
from toolbus.cli.outcome import Usage
from toolbus.cli.output import results
from toolbus.cli.output.screen import Screen
from toolbus.cli.session import awaken, checked, configured, opened
from toolbus.cli.session import run as run_async
from toolbus.core.records import Prompt, PromptResult, ToolResult

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus


def run(settings: Settings, name: str, words: Sequence[str], out: Path | None) -> int:
    """Fill the prompt in, and print its messages."""
    check_folder(out)
    return run_async(lambda: _filled(settings, name, texts(words), out))


async def _filled(settings: Settings, name: str, given: Mapping[str, Sequence[str]], out: Path | None) -> int:
    screen, config = Screen(settings), configured(settings)
    # Only the server that is named need be started, if one is.
    named = [alias for alias in checked(config, ()) if name.startswith(f"{alias}/")]
    async with opened(
        screen, config, named or list(config.servers), interactions=interactions(screen)
    ) as bus:
        for alias in named:
            raise_if_down(bus, alias)
        if named and not _found(bus, name):
            await awaken(screen, bus, config)
        prompt = _only(bus, name)
        arguments = checked_arguments(prompt, given)
        with screen.moving(f"filling in {prompt.name}"):
            result = await bus.get_prompt(prompt.server, prompt.name, arguments)
    _print(screen, prompt, result, out)
    return 0


def _found(bus: "Toolbus", name: str) -> list[Prompt]:
    """The prompts of that name: `server/name`, else the name alone."""
    prompts = bus.prompts()
    full = [prompt for prompt in prompts if name == _full(prompt)]
    return full or [prompt for prompt in prompts if name == prompt.name]


def _full(prompt: Prompt) -> str:
    return f"{prompt.server}/{prompt.name}"


def _only(bus: "Toolbus", name: str) -> Prompt:
    found = _found(bus, name)
    if not found:
        raise NotListed("prompt", name, [_full(prompt) for prompt in bus.prompts()], down(bus))
    if len(found) > 1:
        raise Usage(f"{len(found)} prompts are named {name!r}; use {' or '.join(map(_full, found))}")
    return found[0]


def checked_arguments(prompt: Prompt, given: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """What to fill in; `Usage` says what is wrong with it, or missing, before anything is sent."""
    known = [argument.name for argument in prompt.arguments]
    for key, values in given.items():
        if key not in known:
            close = get_close_matches(key, known, n=1)
            there = f"it takes {', '.join(known) or 'none'}"
            raise Usage(f"{key}: no such argument; {f'did you mean {close[0]!r}?' if close else there}")
        if len(values) > 1:
            raise Usage(f"{key} is given twice; keep one")
    missing = [
        argument.name for argument in prompt.arguments if argument.required and argument.name not in given
    ]
    if missing:
        width = max(map(len, known))
        lines = tuple(
            f"  {argument.name:{width}}  {'required' if argument.required else 'optional'}"
            + (f": {' '.join(argument.description.split())}" if argument.description else "")
            for argument in prompt.arguments
        )
        raise Usage(f"{_full(prompt)} needs {' '.join(f'{name}=...' for name in missing)}", lines)
    return {key: values[0] for key, values in given.items()}


def _print(screen: Screen, prompt: Prompt, result: PromptResult, out: Path | None) -> None:
    content = ToolResult(content=tuple(message.content for message in result.messages))
    files: results.Saved = {} if out is None else results.saved(content, out, prompt.name)
    if screen.as_json:
        blocks = results.as_json(content, files)
        said = [
            {"role": message.role, "content": block}
            for message, block in zip(result.messages, blocks, strict=True)
        ]
        facts = {"server": prompt.server, "name": prompt.name, "description": result.description}
        screen.json({**facts, "messages": said})
        return
    for index, message in enumerate(result.messages):
        screen.print(Text(f"{message.role}:", style="bold"))
        own = {0: files[index]} if index in files else {}
        results.show(screen, ToolResult(content=(message.content,)), own)
