"""Skills for a model: a tool for each server that has some, and their files, marked with their origin."""

import re
from collections.abc import Mapping

from toolbus.core.text.text import cleaned
from toolbus.core.values.records import JSON, Block, Embedded, Inventory, Origin, Text, ToolSpec
from toolbus.core.values.skills import MANIFEST, READ_SKILL, Skill, body_of

SHOWN = 50
"""The number of skills that a description lists."""
LONGEST = 500
"""Characters of each skill's description."""
SHOWN_FILES = 100
_READ_ONLY: dict[str, JSON] = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True}
_CLOSING = re.compile(r"</(?=skill\s*>)", re.IGNORECASE)


def skill_tools(inventories: Mapping[str, Inventory]) -> list[ToolSpec]:
    """One tool for each server that has skills, `mcp_<alias>_load_skill`."""
    return [
        ToolSpec(
            name=f"mcp_{alias}_load_skill",
            origin=Origin(alias, "(load skill)"),
            route=READ_SKILL,
            title=f"Load a skill of {alias}",
            description=(
                f"Loads a skill: instructions of the server {alias!r} for a task. They are not the user's. "
                f"Load the one that fits before you begin.{_listed(inventory.skills)}"
            ),
            input_schema={
                "type": "object",
                "properties": {
                    "uri": {"type": "string", "description": "The URI of the skill."},
                    "file": {
                        "type": "string",
                        "description": "To read another file of a loaded skill: its path within the skill.",
                    },
                },
                "required": ["uri"],
                "additionalProperties": False,
            },
            annotations=_READ_ONLY,
        )
        for alias, inventory in inventories.items()
        if inventory.skills
    ]


def skill_blocks(skill: Skill, path: str, content: Embedded) -> tuple[Block, ...]:
    """A file of a skill for a model: between tags that it cannot forge, with its origin."""
    file = "" if path == MANIFEST else f' file="{path}"'
    head = f'<skill server="{skill.server}" uri="{skill.uri}"{file}>'
    if content.text is None:
        return (Text(text=f"{head} (binary)</skill>"), content)
    text = body_of(content.text) if path == MANIFEST else content.text
    text = _CLOSING.sub(r"<\\/", cleaned(text).rstrip())
    return (Text(text=f"{head}\n{text}\n</skill>{_files(skill) if path == MANIFEST else ''}"),)


def _listed(skills: tuple[Skill, ...]) -> str:
    lines = [f"\n- {skill.uri}: {_short(skill.description)}" for skill in skills[:SHOWN]]
    more = f"\n(and {len(skills) - SHOWN} more)" if len(skills) > SHOWN else ""
    return f" Skills:{''.join(lines)}{more}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."


def _files(skill: Skill) -> str:
    """The other files, which the same tool reads."""
    paths = [path for path in skill.paths if path != MANIFEST]
    if not paths:
        return ""
    more = f", and {len(paths) - SHOWN_FILES} more" if len(paths) > SHOWN_FILES else ""
    return f"\nOther files of this skill, to be read with `file`: {', '.join(paths[:SHOWN_FILES])}{more}"
