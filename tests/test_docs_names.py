"""The pages name what there is: errors, events, methods without a loop, the JSON of commands."""

import re
from inspect import isclass
from pathlib import Path

import toolbus
from toolbus import errors, events
from toolbus.core.operation.events import _Event  # pyright: ignore[reportPrivateUsage]  what events have in common

DOCS = Path(__file__).resolve().parents[1] / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def test_every_error_of_the_page_is_in_toolbus_errors_and_every_error_is_on_the_page() -> None:
    text = page("errors.md")
    rows = re.findall(
        r"^\| (`\w+`(?:, `\w+`)*)", text.partition("## Causes and fixes")[2].partition("## Phases")[0], re.M
    )
    named = {name for row in rows for name in re.findall(r"\w+", row)}
    ours = {
        name
        for name, value in vars(errors).items()
        if isclass(value) and issubclass(value, toolbus.ToolbusError)
    }
    assert named <= ours
    # The two that are only there to be caught.
    assert ours - named == {"ToolbusError", "ServerError"}
    assert all(getattr(toolbus, name) is getattr(errors, name) for name in ours & set(toolbus.__all__))


def test_every_event_is_on_the_page_of_the_bus() -> None:
    ours = {
        name
        for name, value in vars(events).items()
        if isclass(value) and issubclass(value, _Event) and not name.startswith("_")
    }
    table = page("bus.md").partition("| event | when |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([A-Z]\w+)`", table)) == ours


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
