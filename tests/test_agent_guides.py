"""The guides for coding agents, llms.txt and the skill, are true: commands, programs and configs work."""

import asyncio
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.exceptions import TyperException

from tests.adapters.environments import ADAPTERS
from tests.codeblocks import code_blocks
from tests.inside.cli import commands
from tests.pages import ROOT, load, run_python
from tests.test_docs import in_examples

GUIDES = [ROOT / "llms.txt", ROOT / "skills" / "toolbus" / "SKILL.md"]
SPAN = re.compile(r"`([^`\n]+)`")


def command_lines(text: str) -> list[str]:
    """The `toolbus ...` lines of a guide: those in its blocks, and those in its sentences."""
    blocks = [line for block in code_blocks(text) for line in block.text.splitlines()]
    return [line for line in [*blocks, *SPAN.findall(text)] if line.startswith("toolbus ")]


def parse(line: str) -> None:
    """Raise unless the command is listed in the help, and takes these options and arguments."""
    words = shlex.split(line, comments=True)[1:]
    command: Any = commands()
    context: Any = command.make_context("toolbus", words)
    while words and hasattr(command, "list_commands"):
        group = command
        runs_alone = command.invoke_without_command and command.get_command(context, words[0]) is None
        if words[0].startswith("-") or (runs_alone and "." in words[0]):
            break  # an option, or the file, of a group that does something by itself
        name, command, words = group.resolve_command(context, words)
        assert name in group.list_commands(context), f"{name} is an old spelling"
    if words:  # in a sentence, a command may stand without its arguments
        command.make_context(line, words, parent=context)


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.name)
def test_every_command_of_the_guide_exists_with_its_options(guide: Path) -> None:
    lines = command_lines(guide.read_text(encoding="utf-8"))
    assert len(lines) > 3
    for line in lines:
        if line not in ("toolbus COMMAND --help", "toolbus --version"):
            parse(line)


WRONG = {
    "toolbus cal notes_add": "No such command 'cal'",
    "toolbus call notes_add --colour": "No such option: --colour",
    "toolbus key ad ann": "No such command 'ad'",
    "toolbus lock aprove notes": "No such command 'aprove'",
    "toolbus run notes.py": "run is an old spelling",
    "toolbus remove --json": "Missing parameter",
}


@pytest.mark.parametrize(("line", "problem"), WRONG.items())
def test_a_wrong_command_is_found(line: str, problem: str) -> None:
    with pytest.raises((TyperException, AssertionError), match=problem):
        parse(line)


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.name)
def test_the_programs_and_configs_of_the_guide_work(
    guide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_examples(tmp_path, monkeypatch)
    for block in code_blocks(guide.read_text(encoding="utf-8")):
        if block.language == "python":
            with asyncio.Runner() as runner:
                assert run_python(guide, block, {"__name__": "__main__"}, runner) == "kept as note 1\n"
        elif block.language == "yaml":
            load(guide, block)


def test_the_skill_names_every_adapter() -> None:
    named = set(SPAN.findall(GUIDES[1].read_text(encoding="utf-8")))
    assert {*ADAPTERS} - {"langchain"} <= named


def test_the_skill_says_when_to_use_it() -> None:
    _, front, _ = GUIDES[1].read_text(encoding="utf-8").split("---\n", 2)
    about = yaml.safe_load(front)
    assert set(about) == {"name", "description"}
    assert about["name"] == GUIDES[1].parent.name
    assert len(about["description"]) <= 1024  # the most that an agent reads
