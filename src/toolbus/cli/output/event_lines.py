"""An event of the bus as one line, for people who watch."""

import json
import time
from typing import assert_never

from rich.text import Text

from toolbus.cli.options import suggested
from toolbus.cli.output.headline import STATE_STYLES
from toolbus.cli.output.screen import one_line
from toolbus.core.operation.events import (
    CallEnded,
    CallStarted,
    CatalogChanged,
    Event,
    InputAnswered,
    InputAsked,
    ListChanged,
    Logged,
    LoginNeeded,
    Progressed,
    ResourceUpdated,
    StateChanged,
    ToolHeld,
    Warned,
)
from toolbus.core.text.display import login_line

TIME, DATE_AND_TIME = "%H:%M:%S", "%Y-%m-%d %H:%M:%S"


def timed_line(who: str, what: str, style: str = "", at: float | None = None, form: str = TIME) -> Text:
    """A line with the time, by default now."""
    clock = time.strftime(form, time.localtime(at))
    return Text.assemble((f"{clock}  {one_line(who):12}  ", "dim"), (one_line(what), style))


def clock(at: float) -> str:
    """The time of day, with the date unless it is today."""
    then, now = time.localtime(at), time.localtime()
    return time.strftime("%H:%M" if then[:3] == now[:3] else "%Y-%m-%d %H:%M", then)


def event_line(event: Event) -> tuple[str, str, str]:
    """Subject, text and style of an event's line."""
    match event:
        case StateChanged():
            reason = (
                "" if event.error is None else f": {event.error.removeprefix(f'server {event.server!r}: ')}"
            )
            return (
                event.server,
                f"{event.previous} -> {event.state}{suggested(reason)}",
                STATE_STYLES.get(event.state, ""),
            )
        case CatalogChanged():
            marked = (("+", event.added), ("-", event.removed), ("~", event.changed))
            return "catalog", " ".join(f"{sign}{name}" for sign, names in marked for name in names), "cyan"
        case CallStarted():
            return event.server or "toolbus", f"call {event.name}", ""
        case CallEnded():
            outcome = suggested(event.error or "") or ("tool error" if event.is_error else "done")
            return event.server or "toolbus", f"call {event.name}: {outcome} in {event.elapsed_ms:.0f} ms", ""
        case Progressed():
            total = "" if event.total is None else f"/{event.total:g}"
            return event.name, f"{event.progress:g}{total} {event.message or ''}", "dim"
        case Logged():
            text = event.data if isinstance(event.data, str) else json.dumps(event.data, default=str)
            return event.server, f"{event.level}: {text}", "dim"
        case ResourceUpdated() | ListChanged():
            what = (
                f"resource {event.uri} changed"
                if isinstance(event, ResourceUpdated)
                else f"{event.kind} listed"
            )
            return event.server, what, "cyan"
        case InputAsked() | InputAnswered():
            text = f"asks: {event.message}" if isinstance(event, InputAsked) else f"answered: {event.action}"
            return event.server, f"{event.kind} {text}", "yellow"
        case Warned() | ToolHeld() | LoginNeeded():
            return event.server, suggested(_warning_text(event)), "yellow"
        case _:
            assert_never(event)


def _warning_text(event: Warned | ToolHeld | LoginNeeded) -> str:
    if isinstance(event, LoginNeeded):
        return f"{event.reason or 'sign-in required'}; sign in: {login_line(event.server, event.user)}"
    text = event.message if isinstance(event, Warned) else f"{event.kind} on hold: {event.reason}"
    return f"{event.tool + ': ' if event.tool else ''}{text}"
