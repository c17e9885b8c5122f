"""The audit trail: what was decided and called, newest first, and whether the record is unchanged."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

from toolbus.audit.read import Query, Recorded, decision_of, newest_events, target_of, what_happened
from toolbus.console.console import Console
from toolbus.console.elements import Child, Element, element, live
from toolbus.console.page import Fields, Page, PageRequest
from toolbus.console.widgets import Tone, badge, button, choice, form, moment, moment_of, table, text_field
from toolbus.core.values.errors import AuditFailed
from toolbus.shape.render import human_size

EVENTS_SHOWN = 50
MOST_READ = 50_000
"""Lines that are searched for one page, so that a rare event in a huge trail does not keep the bus busy."""
_DECISIONS = {"": "all decisions", "allow": "allowed", "deny": "denied"}
_CALLERS = ("user", "face", "run", "session")
_TONES: dict[str, Tone] = {"deny": "bad", "recovered": "bad", "started": "quiet", "removed": "quiet"}
_GOOD = ("allow", "ok", "accept")


@dataclass(frozen=True, slots=True, kw_only=True)
class _AuditFilter:
    """What a reader wants to see."""

    tool: str
    caller: str
    decision: str
    page: int
    """From 1."""

    @classmethod
    def of(cls, query: Fields) -> "_AuditFilter":
        page, decision = query.get("page", "1"), query.get("decision")
        # More digits than any trail has pages.
        number = int(page) if page.isascii() and page.isdigit() and len(page) < 8 else 1
        return cls(
            tool=query.get("tool").strip(),
            caller=query.get("caller").strip(),
            decision=decision if decision in _DECISIONS else "",
            page=max(1, number),
        )

    def link(self, page: int) -> str:
        """The URL of another page of the same."""
        fields = {"tool": self.tool, "caller": self.caller, "decision": self.decision, "page": page}
        return f"audit?{urlencode({name: value for name, value in fields.items() if value})}"


class _Found(NamedTuple):
    """A page of the trail."""

    events: list[Recorded]
    has_older: bool
    was_cut: bool
    """Whether there are lines that were not searched."""


async def render(console: Console, request: PageRequest) -> Element:
    audit = console.bus.config.audit
    if audit is None:
        return element("div", _how_to_turn_it_on(console))
    path, wanted = Path(audit.file), _AuditFilter.of(request.query)
    try:
        found = await asyncio.to_thread(_read, path, wanted)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        shown: Child = element("p", f"The trail cannot be read: {reason}", class_="problem")
    else:
        shown = _page(found, wanted)
    return element(
        "div",
        element("p", "Every decision and every call, in ", element("code", str(path)), ", newest first."),
        live("audit-check", await _check(console, path), role="status"),
        button("Check the trail", "audit/check", {}),
        _filter(wanted),
        live("audit-events", shown),
    )


async def check(console: Console, request: PageRequest) -> str:
    """Check whether the trail is unchanged; the page shows what was found."""
    audit = console.bus.config.audit
    if audit is None:
        raise AuditFailed("the trail", "there is none", "add 'audit: audit.jsonl' to the config")
    console.begin(console.trail_check.run(Path(audit.file)), "check the audit trail")
    return "audit"


def _how_to_turn_it_on(console: Console) -> list[Element]:
    file = console.bus.config.file
    return [
        element("p", "Nothing is recorded: the config has no audit trail."),
        element(
            "p",
            "Add ",
            element("code", "audit: audit.jsonl"),
            " to ",
            element("code", str(file)) if file is not None else "the config",
            ". Then every decision and every call is a line in that file, chained so that changes show.",
        ),
    ]


def _read(path: Path, wanted: _AuditFilter) -> _Found:
    """The events of one page; in a thread, because a trail may be large."""
    query = Query(tool=wanted.tool or None, decision=wanted.decision or None)
    to_skip, events = (wanted.page - 1) * EVENTS_SHOWN, list[Recorded]()
    for number, event in enumerate(newest_events(path)):
        if number == MOST_READ:
            return _Found(events, has_older=False, was_cut=True)
        if not (query.matches(event) and _is_by(event, wanted.caller)):
            continue
        if to_skip:
            to_skip -= 1
        elif len(events) == EVENTS_SHOWN:
            return _Found(events, has_older=True, was_cut=False)
        else:
            events.append(event)
    return _Found(events, has_older=False, was_cut=False)


def _is_by(event: Recorded, caller: str) -> bool:
    return not caller or any(event.get(key) == caller for key in _CALLERS)


async def _check(console: Console, path: Path) -> Child:
    last = console.trail_check
    if last.is_running:
        return element("p", "Checking the trail.")
    if not last.found or last.file != path:
        return None
    if last.is_intact is None:
        return element("p", last.found)
    state = badge("intact", "good") if last.is_intact else badge("not intact", "bad")
    is_current = await asyncio.to_thread(last.is_current)
    since = "" if is_current else "; more was written since, which is not checked"
    return element("p", state, " ", last.found, ", as of ", moment(last.at), since)


def _filter(wanted: _AuditFilter) -> Element:
    fields = [
        text_field(
            "field-tool", "Tool", "tool", value=wanted.tool, placeholder="files/read*", autocomplete=None
        ),
        text_field(
            "field-caller", "Caller", "caller", value=wanted.caller, placeholder="ann", autocomplete=None
        ),
        choice("field-decision", "Decision", "decision", _DECISIONS, wanted.decision),
    ]
    shown = [element("div", field) for field in fields]
    return form("audit", shown, element("button", "Show", type="submit"), method="get", class_="filter")


def _page(found: _Found, wanted: _AuditFilter) -> Child:
    is_filtered = wanted.tool or wanted.caller or wanted.decision or wanted.page > 1
    none = "No such event is recorded." if is_filtered else "Nothing is recorded yet."
    rows = [
        [
            moment_of(str(event["time"])),
            _what(event),
            target_of(event),
            _caller(event),
            ", ".join(_details(event)),
        ]
        for event in found.events
    ]
    cut = f"Only the last {MOST_READ:,} lines are searched here; 'toolbus audit' searches all of them."
    return [
        table("Events of the trail", ("Time", "What", "Target", "Caller", "Details"), rows)
        if rows
        else element("p", none, class_="empty"),
        found.was_cut and element("p", cut, class_="faint"),
        element(
            "nav",
            wanted.page > 1 and element("a", "Newer", href=wanted.link(wanted.page - 1), class_="button"),
            found.has_older
            and element("a", "Older", href=wanted.link(wanted.page + 1), class_="button", rel="next"),
            class_="actions",
            aria_label="Pages of the trail",
        ),
    ]


def _what(event: Recorded) -> Element:
    what = what_happened(event)
    return badge(what.replace("_", " "), "good" if what in _GOOD else _TONES.get(what, "busy"))


def _caller(event: Mapping[str, object]) -> str:
    words = (("user", ""), ("face", "via "), ("run", "run "))
    return ", ".join(f"{word}{event[key]}" for key, word in words if event.get(key))


def _details(event: Recorded) -> Iterable[str]:
    yield from decision_of(event)
    for key in ("error", "file"):
        if key in event:
            yield str(event[key])
    if isinstance(event.get("ms"), int | float):
        yield f"{event['ms']:,.1f} ms"
    if isinstance(event.get("bytes"), int):
        yield human_size(event["bytes"])


PAGE = Page(path="audit", title="Audit", render=render, topics={"audit"}, actions={"check": check}, every=5.0)
