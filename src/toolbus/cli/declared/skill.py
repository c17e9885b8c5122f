"""The commands about skills."""

from typing import Annotated

import typer

from toolbus.cli.declared.parameters import Servers
from toolbus.cli.options import Settings, with_bus_settings

SkillName = Annotated[
    str, typer.Argument(metavar="SKILL", help="The name of a skill, server/name, or its URI.")
]
SkillPath = Annotated[
    str | None, typer.Argument(metavar="FILE", help="A file of the skill, by default its SKILL.md.")
]


def add_skill_commands(app: typer.Typer) -> None:
    """Add `skills` and `skill` to the program."""
    app.command()(with_bus_settings(skills))
    app.command()(with_bus_settings(skill))


def skills(settings: Settings, servers: Servers = None) -> int:
    """List skills: instructions for a task, with their files.

    Nothing of a skill is read for that.
    """
    from toolbus.cli.commands.use.skills import run

    return run(settings, servers or [])


def skill(settings: Settings, name: SkillName, path: SkillPath = None) -> int:
    """Print a skill, or a file of it, if it is as the server listed it.

    toolbus skill handbook/refunds references/LIMITS.md
    """
    from toolbus.cli.commands.use.skill import run

    return run(settings, name, path)
