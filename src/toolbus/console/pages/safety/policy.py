"""The policy: its rules in order, how often each decided, those without effect, and a call to try."""

from collections.abc import Mapping, Sequence
from typing import cast, get_args

from toolbus.config.settings.policy import Action, PolicyRule, rule_words
from toolbus.console.console import Console
from toolbus.console.elements import Child, Element, element, live
from toolbus.console.page import Fields, Page, PageRequest
from toolbus.console.safety.rules import PolicyOverview, TargetKind, TriedCall, TriedDecision
from toolbus.console.widgets import Tone, badge, choice, form, moment, table, text_field
from toolbus.core.text.display import counted
from toolbus.core.values.errors import ToolbusError
from toolbus.policy.dead import DeadRule
from toolbus.policy.rule import label

_WORDS: Mapping[Action, str] = {"allow": "allow", "ask": "ask", "deny": "deny"}
_TONES: Mapping[Action, Tone] = {"allow": "good", "ask": "busy", "deny": "bad"}
_COLUMNS = ("Rule", "Does", "With", "Decisions", "Last", "Tools", "Remarks")
_KINDS: Mapping[str, str] = {
    "tool": "tool",
    "resource": "resource: server/URI",
    "prompt": "prompt: server/name",
    "request": "request of a server: server/elicitation",
}
_EXAMPLE = '{"policy": [{"tools": "notes/forget", "do": "deny"}, {"hint": "destructive", "do": "ask"}]}'


async def render(console: Console, request: PageRequest) -> Element:
    rules = console.rules
    overview = await rules.overview()
    tried = _tried(request.query)
    return element(
        "div",
        live("policy-summary", _summary(console, overview), tag="p"),
        live("policy-rules", _rules(console, overview) if rules.rules else _none()),
        live("policy-views", _views(rules.views, rules.counts.of_views)),
        element("h2", "Try a call", id="try"),
        element("p", "Nothing is called, and nobody is asked. The try is neither counted nor recorded."),
        _form(console, tried),
        live("policy-try", None if tried is None else await _decision(console, tried), role="status"),
    )


# The rules


def _summary(console: Console, overview: PolicyOverview) -> list[Child]:
    allowed = overview.tools - overview.denied - overview.asked
    counts = f"{overview.denied} denied, {overview.asked} asked about, {allowed} allowed"
    down = f" This leaves out the tools of {', '.join(overview.down)}." if overview.down else ""
    first = "The first rule that matches decides. " if console.rules.rules else ""
    since: list[Child] = ["Decisions are counted since the start, ", moment(console.rules.counts.since), "."]
    return [f"{first}{counted(overview.tools, 'tool')}: {counts}.{down} ", *since]


def _none() -> list[Child]:
    return [
        element("p", "There is no policy: every call is allowed. To change that, add rules to the config:"),
        element("pre", _EXAMPLE, tabindex=0, aria_label="An example of a policy"),
    ]


def _rules(console: Console, overview: PolicyOverview) -> Element:
    rows = [_row(console, index, overview) for index in range(len(overview.rules))]
    unmatched = console.rules.counts.of(None)
    last = moment(unmatched.last) if unmatched.last else None
    rows.append(["no rule", badge("allow", "good"), "every other call", f"{unmatched.decisions:,}", last])
    return table("Rules of the policy", _COLUMNS, rows, is_named=True, number=3)


def _row(console: Console, index: int, overview: PolicyOverview) -> list[Child]:
    one, count = overview.rules[index], console.rules.counts.of(label(index))
    number = f"{count.decisions:,}" + (
        f" ({count.denied:,} denied)" if count.denied and count.allowed else ""
    )
    up_to = f" + up to {one.depends}" if one.depends else ""
    return [
        element("code", label(index)),
        badge(_WORDS[one.rule.do], _TONES[one.rule.do]),
        rule_words(one.rule),
        number,
        moment(count.last) if count.last else None,
        f"{one.decides}{up_to}",
        _remarks(one.dead, is_used=count.decisions > 0),
    ]


def _remarks(dead: Sequence[DeadRule], *, is_used: bool) -> Child:
    found: list[Child] = [] if is_used else [badge("unused", "quiet"), " "]
    for one in dead:
        word = badge("note", "quiet") if one.is_note else badge("no effect", "bad")
        found.append(element("div", word, " ", str(one).partition(": ")[2]))
    return found


def _views(views: Mapping[str, Sequence[PolicyRule]], decisions: int) -> Child:
    """The rules of the gateway's views, which decide in addition."""
    rows = [
        [
            name,
            element("code", f"view.{label(index)}"),
            badge(_WORDS[rule.do], _TONES[rule.do]),
            rule_words(rule),
        ]
        for name, rules in views.items()
        for index, rule in enumerate(rules)
    ]
    if not rows:
        return None
    return [
        element("h2", "Rules of views"),
        element("p", f"They decide in addition, and decided {counted(decisions, 'call')}."),
        table("Rules of views", ("View", "Rule", "Does", "With"), rows, is_named=True),
    ]


# A call to try


def _tried(query: Fields) -> TriedCall | None:
    name, kind = query.get("name").strip(), query.get("kind", "tool")
    if not name:
        return None
    known = kind if kind in get_args(TargetKind) else "tool"
    return TriedCall(
        kind=cast(TargetKind, known),
        name=name,
        arguments=query.get("arguments"),
        view=query.get("view"),
    )


def _form(console: Console, tried: TriedCall | None) -> Element:
    given = tried or TriedCall(kind="tool", name="", arguments="")
    views = {"": "no view"} | {name: name for name, rules in console.rules.views.items() if rules}
    name = text_field(
        "try-name",
        "Name",
        "name",
        value=given.name,
        required=True,
        placeholder="files/write",
        autocomplete=None,
    )
    arguments = [
        element("label", "Arguments as JSON (empty: any)", for_="try-arguments"),
        element(
            "textarea",
            given.arguments,
            id="try-arguments",
            name="arguments",
            rows=3,
            class_="code",
            placeholder='{"path": "notes.txt"}',
        ),
    ]
    return form(
        "policy#try",
        element(
            "div",
            element("div", choice("try-kind", "What", "kind", _KINDS, given.kind)),
            element("div", name, class_="grows"),
            len(views) > 1 and element("div", choice("try-view", "View", "view", views, given.view)),
            class_="filter",
        ),
        element("div", arguments, class_="field"),
        element("button", "Try", type="submit", class_="main"),
        method="get",
    )


async def _decision(console: Console, tried: TriedCall) -> Child:
    try:
        found = await console.rules.decide(tried)
    except ToolbusError as error:
        return element("p", str(error), class_="problem")
    rows: list[list[Child]] = [
        [
            element("code", name),
            _match(step.matched),
            [step.text, step.decides and element("strong", " (decides)")],
        ]
        for name, step in found.steps
    ]
    return element(
        "div",
        element("h3", found.target, " ", _verdict(found), class_="breakable"),
        element("p", _because(found)),
        found.held and element("p", f"The lock has put it on hold: {found.held}.", class_="problem"),
        table("The rules up to the decision", ("Rule", "Matches", "Why"), rows) if rows else None,
        class_="card",
    )


def _verdict(found: TriedDecision) -> Element:
    if found.depends:
        return badge("depends on the arguments", "busy")
    words: Mapping[Action, str] = {"allow": "allowed", "ask": "asks a person", "deny": "denied"}
    return badge(words[found.action], _TONES[found.action])


def _because(found: TriedDecision) -> str:
    if found.depends:
        return "Enter arguments to see which rule matches them."
    if found.settled:
        return f"{found.label} asks, and a {found.settled} decides."
    if found.label is None:
        return "No rule matches, so it is allowed."
    return f"{found.label} decides: {found.reason}" if found.reason else f"{found.label} decides."


def _match(matched: bool | None) -> str:
    return "perhaps" if matched is None else "yes" if matched else "no"


# Counts change with every call: they are looked at, not announced.
PAGE = Page(path="policy", title="Policy", render=render, topics={"catalog", "servers"}, every=2.0)
