"""`toolbus resources`: list resources and resource templates."""

from collections.abc import Sequence

from rich.text import Text

from toolbus.cli.commands.use.tools import exit_code, servers_json
from toolbus.cli.listing_cache import template_variables
from toolbus.cli.options import Settings
from toolbus.cli.output.headline import print_headline
from toolbus.cli.output.screen import Screen, one_line
from toolbus.cli.session import async_command, load_trusted_config, open_bus, selected_servers
from toolbus.core.text.display import counted
from toolbus.core.values.records import JSON, Resource, ResourceTemplate
from toolbus.shape.render import human_size


@async_command
async def run(settings: Settings, servers: Sequence[str]) -> int:
    """Print these servers' resources, by default of all."""
    screen, config = Screen(settings), load_trusted_config(settings)
    selected = selected_servers(config, servers)
    async with open_bus(screen, config, selected) as bus:
        await bus.calls.refresh("resources", "templates")
        statuses = {alias: status for alias, status in bus.servers.items() if alias in selected}
        resources = {alias: bus.resources(alias) for alias in selected}
        templates = {alias: bus.templates(alias) for alias in selected}
    if screen.as_json:
        screen.json(
            {
                "servers": servers_json(statuses),
                "resources": [_item_json(item) for own in resources.values() for item in own],
                "templates": [_item_json(item) for own in templates.values() for item in own],
            }
        )
    else:
        for alias in selected:
            known, patterns = resources[alias], templates[alias]
            count = f"{counted(len(known), 'resource')}, {counted(len(patterns), 'template')}"
            print_headline(screen, alias, statuses[alias], count)
            screen.rows([_row(item) for item in (*known, *patterns)])
    return exit_code(config, statuses, servers)


def _row(item: Resource | ResourceTemplate) -> list[Text]:
    """URI, type, name and description; a template lists its variables."""
    if isinstance(item, Resource):
        uri, facts = item.uri, [item.mime_type, None if item.size is None else human_size(item.size)]
    else:
        names = " ".join(f"{name}=" for name in template_variables(item.uri_template))
        uri, facts = item.uri_template, [f"template: {names}" if names else "template", item.mime_type]
    about = ": ".join(text for text in (item.title or item.name, item.description) if text)
    return [
        Text(one_line(uri), style="cyan"),
        Text(one_line(", ".join(fact for fact in facts if fact)), style="yellow"),
        Text(one_line(" ".join(about.split()))),
    ]


def _item_json(item: Resource | ResourceTemplate) -> JSON:
    own = {name: getattr(item, name) for name in type(item).__slots__ if name != "extras"}
    return own if isinstance(item, Resource) else {**own, "variables": template_variables(item.uri_template)}
