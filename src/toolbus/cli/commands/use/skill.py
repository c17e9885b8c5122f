"""`toolbus skill`: print a skill, or one of its files."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from toolbus.bus.inner import tenant_of
from toolbus.cli.command import CommandResult, Invocation, bus_command
from toolbus.cli.commands.use.listings import list_skills, skill_json
from toolbus.cli.completion import server_names
from toolbus.cli.errors import Usage
from toolbus.cli.input.lookup import NotListed, raise_if_down, servers_down
from toolbus.cli.output.screen import Screen, visible
from toolbus.core.values.errors import CallDenied
from toolbus.core.values.records import Embedded
from toolbus.core.values.skills import MANIFEST, Skill
from toolbus.shape.render import human_size

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus


@bus_command
async def skill(
    own: Invocation,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="SERVER/SKILL, the skill's name, or its URI. The name of a server lists its skills.",
            autocompletion=server_names,
        ),
    ] = None,
    path: Annotated[
        str | None, typer.Argument(metavar="FILE", help="A file of the skill, by default its SKILL.md.")
    ] = None,
) -> CommandResult:
    """Print a skill; without NAME, list the skills.

    A file is printed only if it is as the server listed it.

    toolbus skill handbook/refunds references/LIMITS.md
    """
    if name is None or (name in own.config.servers and path is None):
        return await list_skills(own, [] if name is None else [name])
    from toolbus.cli.session import command_line

    screen, file = own.screen, path or MANIFEST
    named = [alias for alias in own.selected() if name.startswith(f"{alias}/")]
    async with own.bus(named or list(own.config.servers), asks=True) as bus:
        for alias in named:
            raise_if_down(bus, alias)
        found = _find_skill(bus, name)
        with screen.spinner(f"reading {found.name}"):
            content = await bus.view(caller=command_line()).read_skill_file(found, file)
    if content.text is None and (screen.as_json or sys.stdout.isatty()):
        size = human_size(len(content.data or b""))
        if not screen.as_json:
            screen.note(f"{found.server}: {found.uri}")
        raise Usage(f"{content.uri} is binary ({size}); redirect it to a file")
    document = {**skill_json(found), "file": file, "text": content.text}
    return CommandResult(document, lambda: _print(screen, found, content))


def _find_skill(bus: "Toolbus", name: str) -> Skill:
    """The skill of that name, `server/name` or URI; `Usage` if there are several."""
    listed = bus.skills()
    found = [skill for skill in listed if name in (skill.uri, skill.name, f"{skill.server}/{skill.name}")]
    found = found or [skill for skill in listed if name == f"{skill.server}/{skill.uri}"]
    if not found:
        _check_held(bus, name)
        known = [f"{skill.server}/{skill.name}" for skill in listed]
        raise NotListed("skill", name, known, servers_down(bus))
    if len(found) > 1:
        choices = " or ".join(f"{skill.server}/{skill.uri}" for skill in found)
        raise Usage(f"{len(found)} skills match {name!r}; use {choices}")
    return found[0]


def _check_held(bus: "Toolbus", name: str) -> None:
    """Raise the reason if there is such a skill, and it is held."""
    from toolbus.lock.drift import label_of  # it imports the config, which takes time

    for alias, inventory in tenant_of(bus).live.snapshot.unreviewed.items():
        for skill in inventory.skills:
            held = bus.held.get(label_of(alias, "skill", skill.uri))
            if held is not None and name in (skill.uri, skill.name, f"{alias}/{skill.name}"):
                raise CallDenied(f"skill {skill.uri!r}", held.reason)


def _print(screen: Screen, skill: Skill, content: Embedded) -> None:
    """Print text as it is; binary data only if stdout is not a terminal."""
    screen.note(f"{skill.server}: {skill.uri}")
    if sys.stdout.isatty() and content.text is not None:
        screen.line(visible(content.text.removesuffix("\n")))
        return
    data = content.data if content.text is None else content.text.encode(errors="backslashreplace")
    sys.stdout.buffer.write(data or b"")
    sys.stdout.flush()
