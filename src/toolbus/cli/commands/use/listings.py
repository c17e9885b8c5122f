"""The resources, prompts and skills of servers: what `toolbus read`, `prompt` and `skill` list."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

from toolbus.bus.inner import calls_of
from toolbus.cli.command import CommandResult, Invocation, bus_command
from toolbus.cli.commands.use.tools import exit_code, servers_json
from toolbus.cli.listing_cache import template_variables
from toolbus.cli.output.headline import print_headline
from toolbus.cli.output.screen import Cell, Screen, about, one_line, picked
from toolbus.cli.parameters import Servers, Wait
from toolbus.core.text.display import counted
from toolbus.core.values.records import JSON, Prompt, Resource, ResourceTemplate
from toolbus.core.values.skills import Skill
from toolbus.shape.render import human_size


@bus_command
async def prompts(own: Invocation, servers: Servers = None, wait: Wait = 0) -> CommandResult:
    """List prompts and their arguments."""
    return await list_prompts(own, servers or (), wait)


@bus_command
async def resources(own: Invocation, servers: Servers = None, wait: Wait = 0) -> CommandResult:
    """List resources and resource templates."""
    return await list_resources(own, servers or (), wait)


@bus_command
async def skills(own: Invocation, servers: Servers = None, wait: Wait = 0) -> CommandResult:
    """List skills: instructions for a task, with their files.

    Shows metadata only; reads no skill files.
    """
    return await list_skills(own, servers or (), wait)


async def list_prompts(own: Invocation, servers: Sequence[str] = (), wait: float = 0) -> CommandResult:
    """The prompts of these servers, by default of all."""
    return await _listed(own, servers, wait, ["prompts"], _prompt_json, _print_prompts)


async def list_resources(own: Invocation, servers: Sequence[str] = (), wait: float = 0) -> CommandResult:
    """The same for resources and their templates."""
    return await _listed(own, servers, wait, ["resources", "templates"], _item_json, _print_items)


async def list_skills(own: Invocation, servers: Sequence[str] = (), wait: float = 0) -> CommandResult:
    """The same for skills."""
    return await _listed(own, servers, wait, ["skills"], skill_json, _print_skills)


async def _listed(
    own: Invocation,
    servers: Sequence[str],
    wait: float,
    kinds: Sequence[Any],
    encode: Callable[[Any], JSON],
    show: Callable[[Screen, Sequence[Any]], None],
) -> CommandResult:
    """List the offers of these servers, by default all; a kind is a plural such as `prompts`."""
    screen, selected = own.screen, own.selected(servers)
    async with own.bus(selected, wait=wait) as bus:
        await calls_of(bus).refresh(*kinds)
        statuses = {alias: status for alias, status in bus.servers.items() if alias in selected}
        offered = {kind: {alias: getattr(bus, kind)(alias) for alias in selected} for kind in kinds}

    def lines() -> None:
        for alias in selected:
            counts = (counted(len(offered[kind][alias]), kind.removesuffix("s")) for kind in kinds)
            print_headline(screen, alias, statuses[alias], ", ".join(counts))
            show(screen, [item for kind in kinds for item in offered[kind][alias]])

    listed = {kind: [encode(item) for items in offered[kind].values() for item in items] for kind in kinds}
    document = {"servers": servers_json(statuses), **listed}
    return CommandResult(document, lines, exit_code(own.config, statuses, servers))


def _prompt_json(prompt: Prompt) -> JSON:
    values = asdict(replace(prompt, extras={}))
    del values["extras"]
    return values


def _print_prompts(screen: Screen, prompts: Sequence[Prompt]) -> None:
    for prompt in prompts:
        name = one_line(f"{prompt.server}/{prompt.name}")
        screen.rows([[(name, "cyan"), one_line(prompt.description or prompt.title or "")]], max_lines=None)
        arguments: list[list[Cell]] = [
            [
                (one_line(argument.name), "yellow"),
                ("required" if argument.required else "optional", "dim"),
                about(argument.description),
            ]
            for argument in prompt.arguments
        ]
        screen.rows(arguments, indent=4, max_lines=None)


def _item_json(item: Resource | ResourceTemplate) -> JSON:
    own = {name: getattr(item, name) for name in type(item).__slots__ if name != "extras"}
    return own if isinstance(item, Resource) else {**own, "variables": template_variables(item.uri_template)}


def _print_items(screen: Screen, items: Sequence[Resource | ResourceTemplate]) -> None:
    screen.rows([_item_row(item) for item in items])


def _item_row(item: Resource | ResourceTemplate) -> list[Cell]:
    """URI, type, name and description; a template lists its variables."""
    if isinstance(item, Resource):
        uri, facts = item.uri, [item.mime_type, None if item.size is None else human_size(item.size)]
    else:
        names = " ".join(f"{name}=" for name in template_variables(item.uri_template))
        uri, facts = item.uri_template, [f"template: {names}" if names else "template", item.mime_type]
    shown = ": ".join(text for text in (item.title or item.name, item.description) if text)
    return [
        (one_line(uri), "cyan"),
        (one_line(", ".join(fact for fact in facts if fact)), "yellow"),
        about(shown),
    ]


def skill_json(skill: Skill) -> dict[str, JSON]:
    """A skill for programs."""
    files = [
        {"path": path, **picked(file, "uri size digest")}
        for path, file in zip(skill.paths, skill.files or (), strict=True)
    ]
    facts = picked(skill, "server uri name description")
    return {**facts, "frontmatter": dict(skill.frontmatter), "files": files if skill.files else None}


def _print_skills(screen: Screen, skills: Sequence[Skill]) -> None:
    screen.rows([_skill_row(skill) for skill in skills])


def _skill_row(skill: Skill) -> list[Cell]:
    """Server and name, the URI, files and their size, and what it is for."""
    if skill.files is None:
        extent = "generated"
    else:
        extent = f"{counted(len(skill.files), 'file')}, {human_size(sum(file.size for file in skill.files))}"
    name = one_line(f"{skill.server}/{skill.name}")
    return [(name, "cyan"), (one_line(skill.uri), "yellow"), (extent, "dim"), about(skill.description)]
