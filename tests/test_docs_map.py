"""The map of the project is true: its paths exist, its tree is complete, and its names are in the files.

The map is docs/architecture.md, and the section "Where things are" of CONTRIBUTING. Its paths start at the
root of the repository or at src/toolbus.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.codeblocks import code_blocks
from tests.pages import ROOT

SOURCE = ROOT / "src" / "toolbus"
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"(?:[\w-][\w.-]*/)+(?:[\w.-]+\.(?:py|md|json))?|\w+\.py")
NAME = re.compile(r"\w+(?:\.\w+)*")
DEFINED = re.compile(r"^\s*(?:(?:async )?def |class |(?=\w+(?::| =)))(\w+)", re.MULTILINE)
BRANCH = re.compile(r"(?P<indent>(?:  )*)(?P<folders>\S+/(?:, \S+/)*)  +\S.*")


def section(file: str, heading: str | None = None) -> str:
    """The text of a page, or of one section of it."""
    text = (ROOT / file).read_text(encoding="utf-8")
    if heading is None:
        return text
    _, _, after = text.partition(f"\n## {heading}\n")
    assert after, f"{file} has no section {heading!r}"
    return after.partition("\n## ")[0]


def located(path: str) -> Path | None:
    """The file or folder that a path on the map means; None if there is none."""
    places = (ROOT / path, SOURCE / path)
    return next((place for place in places if place.exists() and place.is_dir() == path.endswith("/")), None)


def missing_paths(text: str) -> list[str]:
    """The paths in a text, outside of its code blocks, that lead nowhere."""
    spans = SPAN.findall(FENCE.sub("", text))
    return [span for span in spans if PATH.fullmatch(span) and located(span) is None]


def misplaced_names(text: str) -> list[str]:
    """The names in the last cell of each table row that none of the files in this cell defines."""
    return [
        f"{name} is not defined in {', '.join(paths)}"
        for row in text.splitlines()
        if row.startswith("| ") and (spans := SPAN.findall(row.rstrip("| ").rpartition(" | ")[2]))
        if (paths := [span for span in spans if PATH.fullmatch(span) and located(span)])
        for name in spans
        if name not in paths and NAME.fullmatch(name) and not _defines(paths, name)
    ]


def _defines(paths: list[str], name: str) -> bool:
    """Whether one of the files, or a file of one of the folders, defines every part of a dotted name."""
    places = [place for place in map(located, paths) if place is not None]
    files = [file for place in places for file in (place.glob("*.py") if place.is_dir() else [place])]
    defined = (set(DEFINED.findall(file.read_text(encoding="utf-8"))) for file in files)
    return any(names.issuperset(name.split(".")) for names in defined)


def shown_folders(text: str) -> list[str]:
    """The folders of a drawn tree, by their paths; each level is indented by two more spaces."""
    found: list[str] = []
    above: list[str] = []
    for line in text.splitlines():
        branch = BRANCH.fullmatch(line)
        assert branch, f"not a folder and what it is for: {line!r}"
        level = len(branch["indent"]) // 2
        assert level <= len(above), f"indented too far: {line!r}"
        names = branch["folders"].split(", ")
        found += ["".join([*above[:level], name]) for name in names]
        above = [*above[:level], names[-1]]
    return found


def folders_of(source: Path) -> Iterator[str]:
    """The folders below a folder that have files of their own, or folders that have."""
    for folder in sorted(path for path in source.rglob("*") if path.is_dir()):
        files = (path for path in folder.rglob("*") if path.is_file())
        if folder.name != "__pycache__" and any("__pycache__" not in path.parts for path in files):
            yield f"{folder.relative_to(source).as_posix()}/"


MAPS = [("docs/architecture.md", None), ("CONTRIBUTING.md", "Where things are")]


@pytest.mark.parametrize(("file", "heading"), [*MAPS, ("docs/decisions.md", None)])
def test_every_path_on_the_map_exists(file: str, heading: str | None) -> None:
    text = section(file, heading)
    assert any(map(PATH.fullmatch, SPAN.findall(text)))
    assert missing_paths(text) == []


@pytest.mark.parametrize(("file", "heading"), MAPS)
def test_every_name_on_the_map_is_defined_in_a_file_beside_it(file: str, heading: str | None) -> None:
    assert misplaced_names(section(file, heading)) == []


def test_the_tree_on_the_page_has_every_folder_of_the_source_once() -> None:
    [tree] = code_blocks(section("docs/architecture.md", "The tree"))
    shown, real = shown_folders(tree.text), set(folders_of(SOURCE))
    assert real - set(shown) == set()
    assert set(shown) - real == set()
    assert len(shown) == len(real)


def test_the_guide_answers_the_ten_questions() -> None:
    rows = [row for row in section("CONTRIBUTING.md", "Where things are").splitlines() if "? | " in row]
    assert len(rows) == 10
    assert [row for row in rows if not any(map(PATH.fullmatch, SPAN.findall(row)))] == []


def test_a_wrong_map_is_found() -> None:
    text = (
        "`call/path.py`, `call/`, `call/gone.py`, `core`, `tools/call`\n"
        "`SKILL.md`, `bench/`, `gone.py`, `call/path.py/`\n"
        "```text\n`call/lost.py`\n```\n"
        "| a station | `call/path.py`: `CallPath.run`, `CallPath.runs`, `CallPath.operations` |\n"
        "| `Nothing` | `call/`: `CallPath`, `Lost` |\n"
    )
    assert missing_paths(text) == ["call/gone.py", "gone.py", "call/path.py/"]
    assert misplaced_names(text) == [
        "CallPath.runs is not defined in call/path.py",
        "CallPath.operations is not defined in call/path.py",
        "Lost is not defined in call/",
    ]


def test_a_tree_is_read_by_its_indentation(tmp_path: Path) -> None:
    drawn = "core/   what all share\n  text/, values/  both\nbus/  together\n  rules/  who may\n"
    folders = ["core/", "core/text/", "core/values/", "bus/", "bus/rules/"]
    assert shown_folders(drawn) == folders
    for folder in [*folders, "gone/__pycache__/", "empty/"]:
        (tmp_path / folder).mkdir(parents=True)
        if folder != "empty/":
            (tmp_path / folder / "x.py").touch()
    assert sorted(folders_of(tmp_path)) == sorted(folders)
