"""One call: the phases of its time, its error, its progress, its request and its answer."""

import json
from urllib.parse import urlencode

from toolbus.audit.history.record import HistoryCall
from toolbus.console.console import Console
from toolbus.console.elements import Child, Element, element, live
from toolbus.console.export import json_file
from toolbus.console.links import server_link, tool_link, tool_url
from toolbus.console.page import Download, Page, PageRequest
from toolbus.console.pages.calls.calls import caller_of, waits
from toolbus.console.pages.inbox.questions import call_of
from toolbus.console.widgets import as_json, facts, moment, status
from toolbus.core.operation.phases import CallPhase
from toolbus.core.text.display import duration
from toolbus.core.text.text import UNSEEN
from toolbus.core.values.errors import ToolbusError
from toolbus.core.values.records import JSON
from toolbus.shape.render import human_size

_PHASES = {
    "queue": ("queue", "waits for its turn: the limit of calls in flight is reached"),
    "hooks": ("hooks", "your hooks"),
    "arguments": ("arguments", "arguments are checked and repaired"),
    "guards": ("guards", "your guards"),
    "policy": ("policy", "the policy decides"),
    "person": ("person", "waits for a person"),
    "connection": ("connection", "waits for a connection to the server"),
    "server": ("server", "the server works"),
    "task": ("task", "the server works on it as a task"),
    "result": ("result", "the result is checked and returned"),
}
"""The name of each phase, and what happens meanwhile."""
_BAR = 1000


async def render(console: Console, request: PageRequest) -> Element:
    id_ = request.query.get("id")
    call = await console.find_call(id_)
    if call is None:
        return element("div", live("call", _unknown(console), class_="section"))
    return element(
        "div",
        live("call", _head(console, call)),
        live("call-actions", _actions(console, call), class_="actions section"),
        live("call-time", _waterfall(call), class_="section"),
        live("call-progress", _progress(call), class_="section"),
        live("call-content", _content(console, call), class_="section"),
    )


def _unknown(console: Console) -> list[Element]:
    memory = "The last 1,000 calls are remembered"
    others = ", and the calls in the history." if console.history else " while this process runs."
    return [
        element("p", "This call is not known any more. ", memory, others, class_="empty"),
        element("a", "All calls", href="calls", class_="button"),
    ]


def _head(console: Console, call: HistoryCall) -> list[Child]:
    is_known = call.route == "tools/call" and call.name in console.bus.catalog
    return [
        element(
            "div",
            element("h2", tool_link(call.name) if is_known else call.name),
            _state(console, call),
            class_="title",
        ),
        call.error and element("p", call.error, class_="problem", role="alert"),
        facts(
            {
                "server": server_link(call.server) if call.server else None,
                "server's own name": call.tool if call.tool not in (call.name, "") else None,
                "method": call.route,
                "caller": caller_of(call),
                "began": moment(call.at),
                "took": duration(call.seconds),
                "time of the server": None if call.server_seconds is None else duration(call.server_seconds),
                "result": human_size(call.size) if call.size else None,
                "id": element("code", call.id),
            }
        ),
    ]


def _state(console: Console, call: HistoryCall) -> Element:
    record = None if call.outcome else console.calls.get(call.id)
    if record is None:
        return status(call.outcome or "running")
    return waits(record, {call_of(console, one): one.number for one in console.board.waiting.values()})


def _actions(console: Console, call: HistoryCall) -> list[Child]:
    can_repeat = call.route == "tools/call" and call.name in console.bus.catalog
    again = tool_url(call.name, again=call.id) if call.arguments is not None else tool_url(call.name)
    return [
        can_repeat and bool(call.outcome) and element("a", "Call again", href=again, class_="main button"),
        element("a", "Download as JSON", href=f"call/download?id={call.id}", class_="button"),
        element("a", "Calls of this tool", href=f"calls?{_same_tool(call)}", class_="button"),
    ]


def _same_tool(call: HistoryCall) -> str:
    return urlencode({"server": call.server, "tool": call.name})


# The waterfall


def _waterfall(call: HistoryCall) -> Child:
    if not call.phases:
        return None
    whole = max((one.start + one.seconds for one in call.phases), default=0.0) or 1.0
    rows = [_phase(one, whole) for one in call.phases]
    heads = [
        element("th", text, scope="col", class_="number" if text in ("After", "Took") else None)
        for text in ("Phase", "Share", "After", "Took")
    ]
    return [
        element("h2", "Time"),
        element(
            "div",
            element("table", element("thead", element("tr", heads)), element("tbody", rows)),
            class_="table waterfall",
            role="region",
            tabindex=0,
            aria_label="Phases of the call",
        ),
    ]


def _phase(phase: CallPhase, whole: float) -> Element:
    name, about = _PHASES.get(phase.name, (phase.name, ""))
    start, wide = round(_BAR * phase.start / whole), max(4, round(_BAR * phase.seconds / whole))
    bar = element(
        "svg",
        element("rect", x=min(start, _BAR - 4), y=0, width=wide, height=10, class_=f"phase {phase.name}"),
        viewBox=f"0 0 {_BAR} 10",
        preserveAspectRatio="none",
        aria_hidden="true",
    )
    return element(
        "tr",
        element("th", name, element("div", about, class_="faint"), scope="row"),
        element("td", bar, class_="bar"),
        element("td", duration(phase.start), class_="number"),
        element("td", duration(phase.seconds), class_="number"),
    )


def _progress(call: HistoryCall) -> Child:
    if not call.progress:
        return None
    items = [
        element(
            "li",
            f"{one.progress:g}" + (f" of {one.total:g}" if one.total else ""),
            one.message and f": {one.message}",
            element("span", f" after {duration(one.at)}", class_="faint"),
        )
        for one in call.progress
    ]
    return [element("h2", "Progress"), element("ol", items)]


# What was sent and answered


def _content(console: Console, call: HistoryCall) -> Child:
    if call.arguments is None and call.result is None:
        hint = "Arguments and results of calls are not kept. To keep them, add "
        return element("p", hint, element("code", "history: everything"), " to the config.", class_="faint")
    return [
        element("p", "Secrets are masked, and long texts are cut.", class_="faint"),
        element(
            "div",
            _json("call-request", "Request", request_of(call)),
            _json("call-answer", "Answer", answer_of(call)),
            class_="sides",
        ),
    ]


def _json(key: str, title: str, shown: JSON) -> Element:
    return element(
        "section",
        element(
            "div",
            element("h2", title, id=f"{key}-title"),
            element("button", "Copy", type="button", data_copy=key, aria_label=f"Copy the {title.lower()}"),
            class_="title",
        ),
        element("pre", _copyable(shown), id=key, tabindex=0, aria_label=f"{title} as JSON"),
        class_="card",
        aria_labelledby=f"{key}-title",
    )


def _copyable(value: JSON) -> str:
    """JSON for people that is still JSON when it is copied: invisible characters are escaped."""
    return UNSEEN.sub(lambda found: json.dumps(found.group())[1:-1], as_json(value))


def request_of(call: HistoryCall) -> JSON:
    """The request as its server got it, but for secrets."""
    arguments: JSON = None if call.arguments is None else json.loads(call.arguments)
    if call.route == "tools/call":
        return {"method": call.route, "params": {"name": call.tool, "arguments": arguments}}
    return {"method": call.route, "params": arguments}


def answer_of(call: HistoryCall) -> JSON:
    """The result, or the error that there was instead."""
    if call.result is not None:
        return {"result": json.loads(call.result)}
    if call.outcome in ("", "ok", "pending"):
        return {"result": None} if call.outcome else None
    return {"error": {"reason": call.outcome, "message": call.error}}


async def download(console: Console, request: PageRequest) -> Download:
    """Everything that is known of a call."""
    call = await console.find_call(request.query.get("id"))
    if call is None:
        raise ToolbusError("this call is not known any more; go back to the calls")
    names = ("id", "at", "ended", "route", "server", "tool", "name", "face", "user", "session", "run")
    known: dict[str, JSON] = {name: getattr(call, name) for name in (*names, "outcome", "error", "size")}
    known["seconds"], known["server_seconds"] = call.seconds, call.server_seconds
    known["phases"] = [one._asdict() for one in call.phases]
    known["progress"] = [one._asdict() for one in call.progress]
    if call.arguments is not None or call.result is not None:
        known |= {"request": request_of(call), "answer": answer_of(call)}
    return Download(name=f"call-{call.id}.json", kind="application/json", content=json_file(known))


PAGE = Page(
    path="call",
    title="Call",
    render=render,
    topics={"questions"},
    every=1.0,
    downloads={"download": download},
    under="calls",
)
