"""`toolbus skills`: list skills and their files."""

from collections.abc import Sequence

from rich.text import Text

from toolbus.cli.commands.use.tools import exit_code, servers_json
from toolbus.cli.options import Settings
from toolbus.cli.output.headline import print_headline
from toolbus.cli.output.screen import Screen, one_line
from toolbus.cli.session import async_command, load_trusted_config, open_bus, selected_servers
from toolbus.core.text.display import counted
from toolbus.core.values.records import JSON
from toolbus.core.values.skills import Skill
from toolbus.shape.render import human_size


@async_command
async def run(settings: Settings, servers: Sequence[str]) -> int:
    """Print these servers' skills, by default of all."""
    screen, config = Screen(settings), load_trusted_config(settings)
    selected = selected_servers(config, servers)
    async with open_bus(screen, config, selected) as bus:
        await bus.calls.refresh("skills")
        statuses = {alias: status for alias, status in bus.servers.items() if alias in selected}
        skills = {alias: bus.skills(alias) for alias in selected}
    if screen.as_json:
        listed = [skill_json(skill) for own in skills.values() for skill in own]
        screen.json({"servers": servers_json(statuses), "skills": listed})
    else:
        for alias in selected:
            print_headline(screen, alias, statuses[alias], counted(len(skills[alias]), "skill"))
            screen.rows([_row(skill) for skill in skills[alias]])
    return exit_code(config, statuses, servers)


def skill_json(skill: Skill) -> dict[str, JSON]:
    """A skill for programs."""
    files = [
        {"path": path, "uri": file.uri, "size": file.size, "digest": file.digest}
        for path, file in zip(skill.paths, skill.files or (), strict=True)
    ]
    facts = {"server": skill.server, "uri": skill.uri, "name": skill.name, "description": skill.description}
    return {**facts, "frontmatter": dict(skill.frontmatter), "files": files if skill.files else None}


def _row(skill: Skill) -> list[Text]:
    """Server and name, files and their size, the URI, and what it is for."""
    if skill.files is None:
        extent = "generated"
    else:
        extent = f"{counted(len(skill.files), 'file')}, {human_size(sum(file.size for file in skill.files))}"
    return [
        Text(one_line(f"{skill.server}/{skill.name}"), style="cyan"),
        Text(one_line(skill.uri), style="yellow"),
        Text(extent, style="dim"),
        Text(one_line(" ".join(skill.description.split()))),
    ]
