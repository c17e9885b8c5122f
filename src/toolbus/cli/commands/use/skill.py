"""`toolbus skill`: print a skill, or one of its files."""

import sys
from typing import TYPE_CHECKING

from rich.text import Text

from toolbus.cli.commands.use.skills import skill_json
from toolbus.cli.errors import Usage
from toolbus.cli.input.elicitation import terminal_interactions
from toolbus.cli.input.lookup import NotListed, raise_if_down, servers_down
from toolbus.cli.options import Settings
from toolbus.cli.output.screen import Screen, visible
from toolbus.cli.session import (
    async_command,
    command_line,
    load_trusted_config,
    open_bus,
    selected_servers,
)
from toolbus.core.values.errors import CallRefused
from toolbus.core.values.records import Embedded
from toolbus.core.values.skills import MANIFEST, Skill
from toolbus.lock.drift import label_of
from toolbus.shape.render import human_size

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus


@async_command
async def run(settings: Settings, name: str, path: str | None) -> int:
    """Print the file of the skill."""
    screen, config = Screen(settings), load_trusted_config(settings)
    named = [alias for alias in selected_servers(config, ()) if name.startswith(f"{alias}/")]
    started = named or list(config.servers)
    async with open_bus(screen, config, started, interactions=terminal_interactions(screen)) as bus:
        for alias in named:
            raise_if_down(bus, alias)
        skill, file = _find_skill(bus, name), path or MANIFEST
        with screen.spinner(f"reading {skill.name}"):
            content = await bus.view(caller=command_line()).read_skill_file(skill, file)
    if screen.as_json:
        if content.text is None:
            raise _binary(content)
        screen.json({**skill_json(skill), "file": file, "text": content.text})
    else:
        screen.note(f"{skill.server}: {skill.uri}")
        _print(screen, content)
    return 0


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
    for alias, inventory in bus.unreviewed.items():
        for skill in inventory.skills:
            held = bus.held.get(label_of(alias, "skill", skill.uri))
            if held is not None and name in (skill.uri, skill.name, f"{alias}/{skill.name}"):
                raise CallRefused(f"skill {skill.uri!r}", held.reason)


def _print(screen: Screen, content: Embedded) -> None:
    """Print text as it is; binary data only if stdout is not a terminal."""
    if sys.stdout.isatty():
        if content.text is None:
            raise _binary(content)
        screen.print(Text(visible(content.text.removesuffix("\n"))))
        return
    data = content.data if content.text is None else content.text.encode(errors="backslashreplace")
    sys.stdout.buffer.write(data or b"")
    sys.stdout.flush()


def _binary(content: Embedded) -> Usage:
    return Usage(f"{content.uri} is binary ({human_size(len(content.data or b''))}); redirect it to a file")
