"""`toolbus resources`: what can be read, and the templates of what else can."""

from collections.abc import Sequence

from rich.text import Text

from toolbus.cli.commands.tools import counted, exit_code, servers_json, show_headline
from toolbus.cli.completion.listings import variables
from toolbus.cli.options import Settings
from toolbus.cli.output.screen import Screen, one_line
from toolbus.cli.session import checked, configured, opened
from toolbus.cli.session import run as run_async
from toolbus.core.records import JSON, Resource, ResourceTemplate
from toolbus.shape.render import size


def run(settings: Settings, servers: Sequence[str]) -> int:
    """Print the resources of these servers, by default of all."""
    return run_async(lambda: _listed(settings, servers))


async def _listed(settings: Settings, servers: Sequence[str]) -> int:
    screen, config = Screen(settings), configured(settings)
    wanted = checked(config, servers)
    async with opened(screen, config, wanted) as bus:
        statuses = {alias: status for alias, status in bus.servers.items() if alias in wanted}
        resources = {alias: bus.resources(alias) for alias in wanted}
        templates = {alias: bus.templates(alias) for alias in wanted}
    if screen.as_json:
        screen.json(
            {
                "servers": servers_json(statuses),
                "resources": [_facts(item) for own in resources.values() for item in own],
                "templates": [_facts(item) for own in templates.values() for item in own],
            }
        )
    else:
        for alias in wanted:
            known, patterns = resources[alias], templates[alias]
            count = f"{counted(len(known), 'resource')}, {counted(len(patterns), 'template')}"
            show_headline(screen, alias, statuses[alias], count)
            screen.rows([_row(item) for item in (*known, *patterns)])
    return exit_code(config, statuses, servers)


def _row(item: Resource | ResourceTemplate) -> list[Text]:
    """Address, what it is, name and description; a template says which values it takes."""
    if isinstance(item, Resource):
        address, facts = item.uri, [item.mime_type, None if item.size is None else size(item.size)]
    else:
        names = " ".join(f"{name}=" for name in variables(item.uri_template))
        address, facts = item.uri_template, [f"template: {names}" if names else "template", item.mime_type]
    about = ": ".join(text for text in (item.title or item.name, item.description) if text)
    return [
        Text(one_line(address), style="cyan"),
        Text(one_line(", ".join(fact for fact in facts if fact)), style="yellow"),
        Text(one_line(" ".join(about.split()))),
    ]


def _facts(item: Resource | ResourceTemplate) -> JSON:
    own = {name: getattr(item, name) for name in type(item).__slots__}
    return own if isinstance(item, Resource) else {**own, "variables": variables(item.uri_template)}
