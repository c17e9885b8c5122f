"""`toolbus prompts`: list prompts and their arguments."""

from collections.abc import Sequence
from dataclasses import asdict, replace

from rich.text import Text

from toolbus.cli.commands.use.tools import exit_code, servers_json
from toolbus.cli.options import Settings
from toolbus.cli.output.headline import print_headline
from toolbus.cli.output.screen import Screen, one_line
from toolbus.cli.session import async_command, load_trusted_config, open_bus, selected_servers
from toolbus.core.text.display import counted
from toolbus.core.values.records import JSON, Prompt


@async_command
async def run(settings: Settings, servers: Sequence[str]) -> int:
    """Print these servers' prompts, by default of all."""
    screen, config = Screen(settings), load_trusted_config(settings)
    selected = selected_servers(config, servers)
    async with open_bus(screen, config, selected) as bus:
        await bus.calls.refresh("prompts")
        statuses = {alias: status for alias, status in bus.servers.items() if alias in selected}
        prompts = {alias: bus.prompts(alias) for alias in selected}
    if screen.as_json:
        listed = [_json(prompt) for own in prompts.values() for prompt in own]
        screen.json({"servers": servers_json(statuses), "prompts": listed})
    else:
        for alias in selected:
            print_headline(screen, alias, statuses[alias], counted(len(prompts[alias]), "prompt"))
            for prompt in prompts[alias]:
                _print_prompt(screen, prompt)
    return exit_code(config, statuses, servers)


def _print_prompt(screen: Screen, prompt: Prompt) -> None:
    about = one_line(prompt.description or prompt.title or "")
    name = one_line(f"{prompt.server}/{prompt.name}")
    screen.rows([[Text(name, style="cyan"), Text(about)]], max_lines=None)
    screen.rows(
        [
            [
                Text(one_line(argument.name), style="yellow"),
                Text("required" if argument.required else "optional", style="dim"),
                Text(one_line(" ".join(argument.description.split()))),
            ]
            for argument in prompt.arguments
        ],
        indent=4,
        max_lines=None,
    )


def _json(prompt: Prompt) -> JSON:
    values = asdict(replace(prompt, extras={}))
    del values["extras"]
    return values
