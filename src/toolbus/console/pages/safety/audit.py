"""The audit trail: a row per call with decision and outcome, filters, export, and the check of the record."""

import asyncio
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlencode

from toolbus.audit.calls import NO_END, AuditedCall, AuditPage, AuditQuery, audited_calls
from toolbus.audit.read import target_of
from toolbus.audit.verify import ChainReport
from toolbus.console.console import Console
from toolbus.console.elements import Child, Element, element, live
from toolbus.console.export import Cell, exported
from toolbus.console.links import run_link, tool_url
from toolbus.console.page import Download, Fields, Page, PageRequest
from toolbus.console.widgets import (
    Tone,
    badge,
    button,
    choice,
    form,
    moment,
    short_session,
    status,
    table,
    text_field,
)
from toolbus.core.text.display import counted, duration
from toolbus.core.values.errors import AuditFailed

CALLS_SHOWN = 50
MOST_READ = 50_000
"""Lines that are searched for one page, so that a rare event in a huge trail does not keep the bus busy."""
MOST_EXPORTED = 50_000
MOST_CHECKED = 50
"""Files of a trail that are listed after a check."""
_DECISIONS = {"": "all decisions", "allow": "allowed", "deny": "denied"}
_OUTCOMES = {
    "": "all outcomes",
    "ok": "ok",
    "failed": "every failure",
    "pending": "pending",
    NO_END: "no end",
}
_COLUMNS = ("Time (UTC)", "Decision", "Outcome", "Target", "Caller", "Took", "Details")
_EXPORTED = (
    *("time", "id", "during", "decision", "by", "rule", "reason", "outcome", "error", "route", "server"),
    *("tool", "user", "face", "session", "run", "ms", "bytes", "definition", "event"),
)
_TONES: Mapping[str, Tone] = {NO_END: "busy", "accept": "good", "decline": "quiet", "cancel": "quiet"}
"""The colors of outcomes that calls of tools do not have."""
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?)?")
_FIELDS = ("tool", "server", "caller", "decision", "outcome", "since", "until")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """The filters and the page that a reader chose."""

    query: AuditQuery
    page: int
    """The number of the page, from 1."""

    @classmethod
    def of(cls, given: Fields) -> "_Wanted":
        page, texts = given.get("page", "1"), {name: given.get(name).strip() for name in _FIELDS}
        # More digits than any trail has pages.
        number = int(page) if page.isascii() and page.isdigit() and len(page) < 8 else 1
        return cls(
            query=AuditQuery(
                **{
                    **texts,
                    "decision": texts["decision"] if texts["decision"] in _DECISIONS else "",
                    "since": _trail_time(texts["since"]),
                    "until": _trail_time(texts["until"]),
                }
            ),
            page=max(1, number),
        )

    @property
    def fields(self) -> dict[str, str]:
        return {name: value for name, value in asdict(self.query).items() if value}

    def link(self, page: int) -> str:
        """The URL of another page of the same."""
        return f"audit?{urlencode({**self.fields, 'page': page})}"

    def export(self, kind: str) -> str:
        return f"audit/export?{urlencode({**self.fields, 'form': kind})}"


def _trail_time(text: str) -> str:
    """A time as the trail has it, or its beginning; empty if it is not one."""
    return text.replace(" ", "T") if _TIME.fullmatch(text) else ""


async def render(console: Console, request: PageRequest) -> Element:
    audit = console.bus.config.audit
    if audit is None:
        return element("div", _how_to_turn_it_on(console))
    path, wanted = Path(audit.file), _Wanted.of(request.query)
    try:
        found = await asyncio.to_thread(_read, path, wanted)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        shown: Child = element("p", f"The audit log cannot be read: {reason}", class_="problem")
    else:
        shown = _page(console, found, wanted)
    return element(
        "div",
        element("p", "Every decision and every call, in ", element("code", str(path)), ", newest first."),
        live("audit-check", await _check(console, path), role="status"),
        button("Check the audit log", "audit/check", {}),
        _filter(console, wanted),
        element(
            "p",
            element("a", "Export as CSV", href=wanted.export("csv"), class_="button", download=True),
            " ",
            element("a", "Export as JSON", href=wanted.export("json"), class_="button", download=True),
        ),
        live("audit-events", shown),
    )


async def check(console: Console, request: PageRequest) -> str:
    """Check whether the trail is unchanged; the page shows what was found."""
    path = _path(console)
    console.begin(console.trail_check.run(path), "check the audit log")
    return "audit"


async def export(console: Console, request: PageRequest) -> Download:
    """The calls that a reader wants, as a file."""
    path, wanted = _path(console), _Wanted.of(request.query)

    def made() -> Download:
        found = audited_calls(path, wanted.query, skip=0, most=MOST_EXPORTED, lines=4 * MOST_EXPORTED)
        return exported("audit", request.query.get("form"), _EXPORTED, map(_exported, found.calls))

    try:
        return await asyncio.to_thread(made)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise AuditFailed("of this config", f"cannot be read: {reason}", "check its file") from error


def _path(console: Console) -> Path:
    audit = console.bus.config.audit
    if audit is None:
        raise AuditFailed("of this config", "there is none", "add 'audit: audit.jsonl' to the config")
    return Path(audit.file)


def _exported(call: AuditedCall) -> dict[str, Cell]:
    found = {name: call.get(name) for name in _EXPORTED}
    found |= {"time": call.at, "decision": call.decision, "outcome": call.outcome}
    # All of it would let a reader use the session.
    found["session"] = short_session(str(found["session"] or ""))
    found["event"] = call.other["event"] if call.other is not None else "call"
    return {
        name: value if isinstance(value, str | int | float | None) else str(value)
        for name, value in found.items()
    }


def _read(path: Path, wanted: _Wanted) -> AuditPage:
    """One page of the calls; in a thread, because a trail may be large."""
    skip = (wanted.page - 1) * CALLS_SHOWN
    return audited_calls(path, wanted.query, skip=skip, most=CALLS_SHOWN, lines=MOST_READ)


def _how_to_turn_it_on(console: Console) -> list[Element]:
    file = console.bus.config.file
    return [
        element("p", "Nothing is recorded: the config has no audit log."),
        element(
            "p",
            "Add ",
            element("code", "audit: audit.jsonl"),
            " to ",
            element("code", str(file)) if file is not None else "the config",
            ". Then every decision and every call is a line in that file, chained so that changes show.",
        ),
    ]


# The check


async def _check(console: Console, path: Path) -> Child:
    last = console.trail_check
    if last.is_running:
        return element("p", "Checking the audit log.")
    if last.file != path or not last.found:
        return element("p", "This process has not checked the audit log yet.", class_="faint")
    if last.is_intact is None:
        return element("p", last.found)
    state = badge("intact", "good") if last.is_intact else badge("not intact", "bad")
    is_current = await asyncio.to_thread(last.is_current)
    since = "" if is_current else "; more was written since, which is not checked"
    return [
        element("p", state, " ", last.found, ", as of ", moment(last.at), since),
        element(
            "details",
            element("summary", "What was checked"),
            table("What was checked", ("File", "Lines", "Result"), _extent(last.reports)),
            id="audit-extent",
        ),
    ]


def _extent(reports: list[ChainReport]) -> Iterator[list[Child]]:
    """The lines that were checked, for each process that wrote."""
    for one in reports[:MOST_CHECKED]:
        result = [f"{problem.file.name}:{problem.line}: {problem.problem}" for problem in one.problems[:20]]
        lines = f"{one.first} to {one.end.seq}" if one.lines else "none"
        files = f" and {counted(len(one.files) - 1, 'full file')}" if len(one.files) > 1 else ""
        yield [
            f"{one.file.name}{files}",
            lines,
            [element("div", text) for text in (*(result or ["unchanged"]), *one.notes)],
        ]


# The calls


def _filter(console: Console, wanted: _Wanted) -> Element:
    query = wanted.query
    servers = dict.fromkeys(["", *console.bus.config.servers, query.server], "")
    shown = [
        text_field("field-tool", "Tool", "tool", value=query.tool, placeholder="files/read*"),
        choice(
            "field-server", "Server", "server", {one: one or "all servers" for one in servers}, query.server
        ),
        text_field("field-caller", "Caller", "caller", value=query.caller, placeholder="ann"),
        choice("field-decision", "Decision", "decision", _DECISIONS, query.decision),
        choice("field-outcome", "Outcome", "outcome", _with(_OUTCOMES, query.outcome), query.outcome),
        text_field("field-since", "From (UTC)", "since", value=query.since, placeholder="2026-11-16 15:04"),
        text_field("field-until", "To (UTC)", "until", value=query.until, placeholder="2026-11-17"),
    ]
    fields = [element("div", field) for field in shown]
    return form("audit", fields, element("button", "Show", type="submit"), method="get", class_="filter")


def _with(options: Mapping[str, str], chosen: str) -> Mapping[str, str]:
    return options if chosen in options else {**options, chosen: chosen}


def _page(console: Console, found: AuditPage, wanted: _Wanted) -> Child:
    is_filtered = bool(wanted.fields) or wanted.page > 1
    none = "No such call is recorded." if is_filtered else "Nothing is recorded yet."
    rows = [_row(console, call) for call in found.calls]
    cut = f"Only the last {MOST_READ:,} lines are searched here; 'toolbus audit' searches all of them."
    return [
        table("Calls of the audit log", _COLUMNS, rows) if rows else element("p", none, class_="empty"),
        found.was_cut and element("p", cut, class_="faint"),
        element(
            "nav",
            wanted.page > 1 and element("a", "Newer", href=wanted.link(wanted.page - 1), class_="button"),
            found.has_older
            and element("a", "Older", href=wanted.link(wanted.page + 1), class_="button", rel="next"),
            class_="actions",
            aria_label="Pages of the audit log",
        ),
    ]


def _row(console: Console, call: AuditedCall) -> list[Child]:
    ms = call.get("ms")
    return [
        _time(call.at),
        _decision(call),
        _outcome(call),
        _target(console, call),
        _caller(call),
        element("span", duration(ms / 1000), class_="when") if isinstance(ms, int | float) else None,
        _details(call),
    ]


def _time(text: str) -> Element:
    """A time as it is recorded: in an audit, how long ago it was is not enough."""
    return element("span", text.removesuffix("Z").replace("T", " ")[:23], class_="when", title=text)


def _decision(call: AuditedCall) -> Child:
    if call.other is not None:
        return badge(str(call.other.get("event")), "quiet")
    if call.decided is None:
        return element("span", "none", class_="faint")
    is_allowed = call.decision == "allow"
    rule, by = call.decided.get("rule"), call.decided.get("by")
    source = f"{rule} by {by}" if rule and by != "policy" else str(rule or by or "")
    shown = badge(call.decision, "good" if is_allowed else "bad")
    return [shown, " ", element("span", source, class_="faint")]


def _outcome(call: AuditedCall) -> Child:
    if call.outcome in _TONES:
        return badge(call.outcome, _TONES[call.outcome])
    return status(call.outcome) if call.outcome else None


def _target(console: Console, call: AuditedCall) -> Child:
    shown = target_of(call.first)
    spec = console.bus.catalog.get(shown) if call.get("route") == "tools/call" else None
    return shown if spec is None else element("a", shown, href=tool_url(spec.name))


def _caller(call: AuditedCall) -> list[Child]:
    user, face, run = (call.get(key) for key in ("user", "face", "run"))
    session = short_session(str(call.get("session") or ""))
    words = [str(user or ""), f"via {face}" if face else "", f"session {session}" if session else ""]
    named = ", ".join(filter(None, words))
    return [named, [", run " if named else "run ", run_link(str(run))] if run else None]


def _details(call: AuditedCall) -> Child:
    reason = None if call.decided is None else call.decided.get("reason")
    reasons = [] if reason is None else [str(reason)]
    if call.other is not None:
        reasons = [str(call.other[key]) for key in ("file", "reason") if key in call.other]
    error = call.get("error")
    return [
        [element("div", reason) for reason in reasons],
        error is not None and element("div", str(error), class_="problem"),
    ]


PAGE = Page(
    path="audit",
    title="Audit",
    render=render,
    topics={"audit"},
    actions={"check": check},
    downloads={"export": export},
    every=5.0,
)
