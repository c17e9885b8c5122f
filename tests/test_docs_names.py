"""The pages name what there is: errors, events, methods without a loop, the JSON of commands."""

import ast
import re
from importlib import import_module
from inspect import isclass
from pathlib import Path

import pytest

import toolbus
from tests.adapters.environments import OWN
from tests.codeblocks import code_blocks
from tests.pages import ROOT
from toolbus import errors, events
from toolbus.core.operation.events import _Event  # pyright: ignore[reportPrivateUsage]  what events have in common

DOCS = Path(__file__).resolve().parents[1] / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def names_in(cell: str) -> list[str]:
    return re.findall(r"`(\w+)`", cell)


def public_names() -> dict[str, dict[str, str]]:
    """The page of the public names: module, then name, then what the page says about it."""
    found: dict[str, dict[str, str]] = {}
    for section in re.split(r"^## ", page("api.md"), flags=re.M)[1:]:
        module, _, text = section.partition("\n")
        for first, last in re.findall(r"^\| (`.+?) \| (.+) \|$", text, flags=re.M):
            if first.startswith("`toolbus.adapters."):
                framework = first.strip("`").rpartition(".")[2]
                own_page = f"[it](frameworks/{framework}.md)"
                found[first.strip("`")] = dict.fromkeys(names_in(last), own_page)
            else:
                names: dict[str, str] = dict.fromkeys(names_in(first), str(last))
                found[module] = found.get(module, {}) | names
    found["toolbus"] |= found["toolbus.errors"]
    return found


PUBLIC = public_names()
ELSEWHERE = {f"toolbus.adapters.{name}" for name in OWN}
"""Modules whose framework has an environment of its own."""


def declared(module: str) -> list[str]:
    """The names that a module declares."""
    if module not in ELSEWHERE:
        return list(import_module(module).__all__)
    source = (ROOT / "src" / f"{module.replace('.', '/')}.py").read_text("utf-8")
    [given] = [
        node.value
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    return ast.literal_eval(given)


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_is_on_the_page_and_every_name_of_the_page_is_public(module: str) -> None:
    assert sorted(declared(module)) == sorted(PUBLIC[module])


@pytest.mark.parametrize("module", sorted(PUBLIC.keys() - ELSEWHERE))
def test_a_star_import_of_a_public_module_brings_its_public_names_alone(module: str) -> None:
    names: dict[str, object] = {}
    exec(f"from {module} import *", names)
    assert names.keys() - {"__builtins__"} == PUBLIC[module].keys()


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_is_explained_there_or_on_the_page_it_links_to(module: str) -> None:
    for name, text in PUBLIC[module].items():
        assert text.strip(), name
        if (link := re.search(r"\]\(([\w/.-]+)", text)) is not None:
            assert re.search(rf"\b{name}\b", page(link[1])), f"{link[1]} does not mention {name}"


def test_the_pages_import_public_names_alone() -> None:
    made = set((DOCS / "reference").rglob("*.md"))  # from docstrings
    for path in [ROOT / "README.md", *sorted({*DOCS.rglob("*.md")} - made)]:
        for block in code_blocks(path.read_text("utf-8")):
            if block.language != "python":
                continue
            for node in ast.walk(ast.parse(block.text)):
                if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "toolbus":
                    known = PUBLIC.get(node.module or "", {}).keys() | {"errors", "events", "records"}
                    assert known >= {one.name for one in node.names}, f"{path.name}: {ast.unparse(node)}"


def test_every_error_and_event_is_public() -> None:
    """The reference pages of errors and events have the public names: `tests/reference`."""
    raised = {name for name, value in vars(errors).items() if isclass(value) and issubclass(value, Exception)}
    assert raised == set(errors.__all__)
    told = {name for name, value in vars(events).items() if isclass(value) and issubclass(value, _Event)}
    assert {name for name in told if not name.startswith("_")} <= set(events.__all__)
    assert all(getattr(toolbus, name) is getattr(errors, name) for name in raised & set(toolbus.__all__))


def test_the_synchronous_bus_has_every_method_that_the_pages_show() -> None:
    shown = {
        name
        for path in DOCS.rglob("*.md")
        for name in re.findall(r"\bbus\.(\w+)", path.read_text(encoding="utf-8"))
    }
    pages, made = {"md"}, {"scripts"}  # made when the bus is
    assert shown - pages - made - set(dir(toolbus.SyncToolbus)) == set()


def test_the_page_of_the_commands_says_what_json_each_prints() -> None:
    sections = re.split(r"^### toolbus ", page("cli.md"), flags=re.M)[1:]
    option = "Print one JSON document"
    assert [
        text.split()[0] for text in sections if "JSON" not in text.replace(option, "").replace("--json", "")
    ] == []
