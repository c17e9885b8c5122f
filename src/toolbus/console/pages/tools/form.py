"""The form of a tool as HTML: fields or JSON, the problem of each field, and the verdict of the policy."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from toolbus.bus.calls import ForeseenCall
from toolbus.console.elements import Child, Element, element
from toolbus.console.fields import Typed, field_widget, problem_note, required_mark
from toolbus.console.pages.tools.arguments import AS, ArgumentForm, FormPart, arguments_in, as_json
from toolbus.console.widgets import Tone, badge, form, hidden_fields
from toolbus.core.values.records import JSON, JSONObject, ToolSpec

JSON_FIELD = "json"
EDIT = "tools/edit"
_FORM = "call"
_TONES: Mapping[str, Tone] = {"allow": "good", "ask": "busy", "deny": "bad"}
_WORDS = {"allow": "allowed", "ask": "asks a person", "deny": "denied"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedArguments:
    """The typed form of a tool, and the arguments in it."""

    form: ArgumentForm | None
    """None if JSON was typed instead."""
    text: str = ""
    """That JSON."""
    arguments: dict[str, JSON]
    problem: str = ""
    """The problem of the form as a whole."""
    problems: Mapping[str, str] = field(default_factory=dict[str, str])
    """The problems of its parts, by key."""

    @property
    def is_readable(self) -> bool:
        return not self.problem and not self.problems

    @property
    def typed(self) -> dict[str, list[str]]:
        """All of it, as the form would send it."""
        return {JSON_FIELD: [self.text]} if self.form is None else self.form.typed

    @classmethod
    def read(cls, schema: JSONObject, typed: Typed | None) -> "TypedArguments":
        """Read a typed form, or else the defaults; it takes a while with a large schema."""
        if typed is not None and JSON_FIELD in typed:
            text = (typed[JSON_FIELD] or [""])[0]
            try:
                return cls(form=None, text=text, arguments=arguments_in(text))
            except ValueError as error:
                return cls(form=None, text=text, arguments={}, problem=f"This is not JSON: {error}")
        made = ArgumentForm(schema, typed)
        arguments, problems = made.read()
        return cls(form=made, arguments=arguments, problems=problems)

    def as_text(self) -> dict[str, list[str]]:
        """The same as JSON."""
        if self.form is None:
            return self.typed
        kept, _ = self.form.read(keeps_faults=True)
        return {JSON_FIELD: [as_json(kept)]}

    def as_fields(self, schema: JSONObject) -> dict[str, list[str]]:
        """The same as a form; JSON that cannot be read stays."""
        if self.form is not None or self.problem:
            return self.typed
        return ArgumentForm(schema, value=self.arguments).typed

    def with_foreseen(self, call: ForeseenCall) -> tuple[str, dict[str, str]]:
        """The problem of the arguments as a whole, and the problems of their parts by key."""
        if call.problem is None:
            return self.problem, dict(self.problems)
        found, others = dict(self.problems), list[str]()
        for place, line in call.places.items():
            key = None if self.form is None else self.form.key_at(place)
            if key is None:
                others.append(line)
            elif line:
                found.setdefault(key, line)
        problem = "\n".join(filter(None, others)) or ("" if found else call.problem)
        return problem, found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """A form with its problems, as a page shows it."""

    form: ArgumentForm
    problems: Mapping[str, str]
    focus: str
    """The key of the part that gets the focus."""


def form_widget(
    spec: ToolSpec, typed: TypedArguments, problem: str, problems: Mapping[str, str], focus: str
) -> Element:
    """The form of a tool; `problem` and `problems` are shown."""
    if typed.form is None:
        fields: Child = _json_area(typed.text, problem)
    else:
        shown = _Shown(form=typed.form, problems=problems, focus=focus)
        fields = [
            problem != "" and element("p", problem, class_="problem", role="alert"),
            _parts(shown, typed.form.root) or element("p", "It takes no arguments.", class_="faint"),
        ]
    return form(
        "tools/call",
        # The first button is the one that Enter presses.
        element("button", "Call", type="submit", class_="spoken", tabindex=-1, aria_hidden="true"),
        hidden_fields({"name": spec.name}),
        element("div", element("h3", "Arguments"), _switch(is_json=typed.form is None), class_="title"),
        fields,
        element(
            "div",
            element("button", "Call", type="submit", class_="main", id="call"),
            _button("Check", "check", "Check the arguments and the policy without a call"),
            class_="actions",
        ),
        id="call-form",
        novalidate=True,
        class_="stacked arguments",
    )


def _switch(*, is_json: bool) -> Element:
    choices = (("Form", "form", not is_json), ("JSON", "json", is_json))
    return element(
        "span",
        [
            element(
                "button",
                label,
                type="submit",
                formaction=EDIT,
                name="do",
                value=do,
                aria_pressed="true" if is_chosen else "false",
            )
            for label, do, is_chosen in choices
        ],
        class_="switch",
        role="group",
        aria_label="How to type the arguments",
    )


def _button(label: str, do: str, hint: str = "", class_: str | None = None) -> Element:
    """A button that posts the form to be changed, not to be sent."""
    return element(
        "button",
        label,
        type="submit",
        formaction=EDIT,
        name="do",
        value=do,
        aria_label=f"{label}: {hint}" if hint else None,
        class_=class_,
    )


def _json_area(text: str, problem: str) -> Element:
    key = f"{_FORM}-{JSON_FIELD}"
    return element(
        "div",
        element("label", "All arguments, as one JSON object", for_=key),
        element(
            "textarea",
            f"\n{text}",
            id=key,
            name=JSON_FIELD,
            rows=max(6, min(24, text.count("\n") + 2)),
            spellcheck="false",
            class_="code",
            aria_invalid="true" if problem else None,
            aria_describedby=f"{key}-problem" if problem else None,
            autofocus=problem != "",
        ),
        problem_note(key, problem),
        class_="field",
    )


def _parts(shown: _Shown, part: FormPart) -> list[Element]:
    """The parts within one, without a frame around them."""
    return (
        [_choice(shown, part), *(_part(shown, one) for one in part.parts)]
        if part.shape == "union"
        else [_part(shown, one) for one in part.parts]
    )


def _part(shown: _Shown, part: FormPart, beside: Child = None) -> Element:
    match part.shape:
        case "field":
            typed: Typed = {part.key: part.texts}
            problem, is_first = shown.problems.get(part.key, ""), shown.focus == part.key
            own = field_widget(part.about, typed, _FORM, problem, is_first=is_first)
            return element("div", _mark(part), own, beside, class_="part") if part.mark or beside else own
        case "object":
            return _frame(shown, part, _object(shown, part), beside)
        case "list":
            return _frame(shown, part, _items(shown, part), beside)
        case "union":
            inner = [_part(shown, one) for one in part.parts]
            return _frame(shown, part, [_choice(shown, part), inner], beside)


def _mark(part: FormPart) -> Child:
    return hidden_fields({f"{part.key}{AS}": part.mark}) if part.mark else None


def _frame(shown: _Shown, part: FormPart, content: Child, beside: Child) -> Element:
    """A part with parts in it."""
    key, about = f"{_FORM}-{part.key}", part.about
    return element(
        "fieldset",
        element("legend", about.title, about.required and required_mark()),
        about.description != "" and element("p", about.description, class_="faint"),
        _mark(part),
        content,
        problem_note(key, shown.problems.get(part.key, "")),
        beside,
        id=key,
        tabindex=-1,
        autofocus=shown.focus == part.key,
        class_="field nested",
    )


def _object(shown: _Shown, part: FormPart) -> Child:
    name = part.about.title
    if not part.is_open:
        return _button("Add", f"add {part.key}", name)
    fields = [_part(shown, one) for one in part.parts]
    return [fields, not part.about.required and _button("Remove", f"remove {part.key}", name, "small")]


def _items(shown: _Shown, part: FormPart) -> Child:
    name = part.about.title
    items = [
        _part(
            shown,
            one,
            _button("Remove", f"remove {part.key} {item}", f"{one.about.title} of {name}", "small"),
        )
        for item, one in zip(part.ids, part.parts, strict=True)
    ]
    can_grow = shown.form.can_grow(part)
    return [items, can_grow and _button("Add item", f"add {part.key}", f"to {name}", "small")]


def _choice(shown: _Shown, part: FormPart) -> Element:
    key = f"{_FORM}-{part.key}-kind"
    chosen = part.texts[0] if part.texts else ""
    options = [
        element("option", name, value=index, selected=str(index) == chosen)
        for index, name in enumerate(part.variants)
    ]
    none = element("option", "none", value="")
    return element(
        "div",
        element("label", "Kind", for_=key),
        element(
            "div",
            element("select", none, options, id=key, name=part.key, class_="chooses"),
            _button("Use", f"show {part.key}", "the chosen kind", "small unscripted"),
            class_="choose",
        ),
        class_="field",
    )


def verdict_widget(typed: TypedArguments, call: ForeseenCall | None) -> Element:
    """The verdict about a call with these arguments."""
    return element("div", _verdict(typed, call), id="verdict", class_="verdict", role="status")


def _verdict(typed: TypedArguments, call: ForeseenCall | None) -> Child:
    if call is None or call.problem is not None or not typed.is_readable:
        problem, problems = (typed.problem, typed.problems) if call is None else typed.with_foreseen(call)
        reasons = [*problem.splitlines(), *problems.values()]
        return [
            badge("not ready", "quiet"),
            " ",
            element("span", reasons[0] if reasons else "Some arguments are missing or wrong."),
            len(reasons) > 1 and element("span", f" And {len(reasons) - 1} more.", class_="faint"),
        ]
    return [
        badge(_WORDS[call.action], _TONES[call.action]),
        " ",
        element("span", _because(call)),
        [element("p", f"Repaired before it is sent: {one}", class_="faint") for one in call.repairs],
        _steps(call.steps),
    ]


def _because(call: ForeseenCall) -> str:
    if call.rule is None:
        return "No rule of the policy is about this call."
    reason = f": {call.reason}" if call.reason else "."
    if call.by:
        answered = "allowed" if call.action == "allow" else "did not allow"
        return f"Rule {call.rule} asks, and a person {answered} it before ({call.by}){reason}"
    verb = {"allow": "allows", "ask": "asks about", "deny": "denies"}[call.action]
    return f"Rule {call.rule} {verb} this call{reason}"


def _steps(steps: Iterable[str]) -> Child:
    lines = [element("li", step) for step in steps]
    if not lines:
        return None
    return element(
        "details", element("summary", "The rules, one by one"), element("ul", lines), id="verdict-steps"
    )
