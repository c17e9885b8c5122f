"""`toolbus prompts`: the prompts that servers offer, and what they want to know."""

from collections.abc import Sequence
from dataclasses import asdict

from rich.text import Text

from toolbus.cli.commands.tools import counted, exit_code, servers_json, show_headline
from toolbus.cli.options import Settings
from toolbus.cli.output.screen import Screen, one_line
from toolbus.cli.session import checked, configured, opened
from toolbus.cli.session import run as run_async
from toolbus.core.records import Prompt


def run(settings: Settings, servers: Sequence[str]) -> int:
    """Print the prompts of these servers, by default of all."""
    return run_async(lambda: _listed(settings, servers))


async def _listed(settings: Settings, servers: Sequence[str]) -> int:
    screen, config = Screen(settings), configured(settings)
    wanted = checked(config, servers)
    async with opened(screen, config, wanted) as bus:
        statuses = {alias: status for alias, status in bus.servers.items() if alias in wanted}
        prompts = {alias: bus.prompts(alias) for alias in wanted}
    if screen.as_json:
        listed = [asdict(prompt) for own in prompts.values() for prompt in own]
        screen.json({"servers": servers_json(statuses), "prompts": listed})
    else:
        for alias in wanted:
            show_headline(screen, alias, statuses[alias], counted(len(prompts[alias]), "prompt"))
            for prompt in prompts[alias]:
                _show(screen, prompt)
    return exit_code(config, statuses, servers)


def _show(screen: Screen, prompt: Prompt) -> None:
    about = one_line(prompt.description or prompt.title or "")
    name = one_line(f"{prompt.server}/{prompt.name}")
    screen.rows([[Text(name, style="cyan"), Text(about)]], most=None)
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
        most=None,
    )
