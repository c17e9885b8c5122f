"""The durable runs of a store: what they do, what they wait for, and how they ended."""

from collections.abc import Mapping, Sequence

from toolbus.console.console import MOST_RUNS, Console, ConsoleRuns, RunFacts
from toolbus.console.elements import Child, Element, element, live
from toolbus.console.links import run_link, run_url
from toolbus.console.page import Fields, Page, PageRequest
from toolbus.console.widgets import choice, form, moment, status, table
from toolbus.core.text.display import duration, shortened
from toolbus.core.values.errors import ToolbusError

_SHOWN: Mapping[str, str] = {
    "": "all runs",
    "open": "not ended",
    "waiting": "waiting for a person",
    "failed": "failed",
    "cancelled": "canceled",
    "done": "done",
}
_COLUMNS = ("Run", "Status", "Agent", "Took", "About", "Started", "Updated")


class NoRuns(ToolbusError):
    """The console has no store of runs."""


def runs_of(console: Console) -> ConsoleRuns:
    if console.runs is None:
        raise NoRuns("this console has no store of runs; start it with $TOOLBUS_RUNS")
    return console.runs


async def render(console: Console, request: PageRequest) -> Element:
    wanted = _wanted(request.query)
    try:
        found = await runs_of(console).recent(ended=wanted not in ("open", "waiting"), limit=MOST_RUNS)
    except ToolbusError as error:
        return element("div", live("runs", element("p", str(error), class_="problem")))
    shown = [info for info in found if _is_wanted(info, wanted)]
    empty = "There are no runs." if not wanted else "None of the newest runs is like that."
    return element(
        "div",
        _filter(wanted),
        live("runs", _table(shown) if shown else element("p", empty, class_="empty")),
        live(
            "runs-more",
            len(found) == MOST_RUNS
            and element(
                "p", f"The newest {MOST_RUNS} runs. 'toolbus runs list' shows others.", class_="faint"
            ),
        ),
    )


def _wanted(query: Fields) -> str:
    status = query.get("status")
    return status if status in _SHOWN else ""


def _is_wanted(info: RunFacts, wanted: str) -> bool:
    return wanted == "" or (info.is_open if wanted == "open" else info.status == wanted)


def _filter(wanted: str) -> Element:
    return form(
        "runs",
        element("div", choice("field-status", "Status", "status", _SHOWN, wanted)),
        element("button", "Show", type="submit"),
        method="get",
        class_="filter",
    )


def _table(found: Sequence[RunFacts]) -> Element:
    rows: list[list[Child]] = [
        [
            run_link(info.id),
            [
                status(info.status),
                info.question is not None and [" ", element("a", "Answer", href=run_url(info.id))],
            ],
            info.agent,
            element("span", duration(max(0.0, info.updated - info.created)), class_="when"),
            shortened(info.error or info.output or info.prompt, 200),
            moment(info.created),
            moment(info.updated),
        ]
        for info in found
    ]
    return table("Runs", _COLUMNS, rows, is_named=True)


PAGE = Page(
    path="runs",
    title="Runs",
    render=render,
    every=2.0,
    is_there=lambda console: console.runs is not None,
)
