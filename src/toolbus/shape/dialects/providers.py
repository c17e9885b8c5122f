"""The dict that each provider takes for a tool, made from the server's own schema every time."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import cast, get_args

from toolbus.core.records import JSON, JSONObject, ToolSpec
from toolbus.schema.normalize import same
from toolbus.schema.reader import Place
from toolbus.schema.values import Node
from toolbus.shape.dialects.conversion import Conversion
from toolbus.shape.dialects.definition import Definition, Dialect, Inexact, Loss, Report
from toolbus.shape.dialects.draft2020 import fits_at_top, whole
from toolbus.shape.dialects.names import legal_name
from toolbus.shape.dialects.rules import ANTHROPIC, GOOGLE, OPENAI, OPENAI_STRICT, Rules
from toolbus.shape.dialects.strict_limits import beyond_strict_limits
from toolbus.shape.dialects.subset import choice

DIALECTS: tuple[Dialect, ...] = get_args(Dialect)
_GOOGLE_OPTIONS = {"behavior", "response", "responseJsonSchema", "response_json_schema"}


class UnknownDialect(ValueError):
    """A slip of the program, not the fault of a tool."""


def converted(spec: ToolSpec, dialect: Dialect) -> Definition:
    """The tool as a provider takes it; ValueError for an unknown dialect.

    Computed once for each spec and dialect, and then shared.
    """
    known = spec.definitions.get(dialect)
    if known is not None:
        return known
    if dialect not in _FORMS:
        close = get_close_matches(str(dialect), DIALECTS, n=1, cutoff=0.5)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise UnknownDialect(f"no dialect {dialect!r}{hint} Known are {', '.join(DIALECTS)}")
    # The memo lives in the frozen spec: it ends with it, needs no bound, and can never be stale.
    definition = spec.definitions[dialect] = _FORMS[dialect](spec)
    return definition


def _openai(spec: ToolSpec) -> Definition:
    return _chat(spec, strict=_options(spec, "openai").get("strict") is True)


def _openai_strict(spec: ToolSpec) -> Definition:
    return _chat(spec, strict=True)


def _chat(spec: ToolSpec, *, strict: bool) -> Definition:
    function, report, is_strict = _openai_function(spec, strict=strict)
    if strict:
        function["strict"] = is_strict
    return _definition({"type": "function", "function": function}, report)


def _openai_responses(spec: ToolSpec) -> Definition:
    strict = _options(spec, "openai").get("strict") is True
    function, report, is_strict = _openai_function(spec, strict=strict)
    # Said always: this interface takes a tool that does not say it for a strict one.
    return _definition({"type": "function", **function, "strict": is_strict}, report)


def _openai_function(spec: ToolSpec, *, strict: bool) -> tuple[Node, Report, bool]:
    reason: Loss | None = None
    if strict:
        try:
            schema, report = _schema(spec, OPENAI_STRICT)
            return _function(spec, schema, report, OPENAI_STRICT), report, True
        except Inexact as inexact:
            reason = inexact.loss
    schema, report = _schema(spec, OPENAI)
    if reason is not None:
        report.note("widened", reason.path, f"not strict, because of a loss: {reason.what}")
    return _function(spec, schema, report, OPENAI), report, False


def _function(spec: ToolSpec, schema: Node, report: Report, rules: Rules) -> Node:
    head = _head(spec, report, rules)
    longest = rules.longest_description
    if longest is not None and len(head["description"]) > longest:
        head["description"], rest = _parted(head["description"], longest)
        report.note("lossless", "/description", "too long; goes on in the description of the parameters")
        own = schema.get("description")
        schema = {**schema, "description": f"{rest}\n\n{own}" if own else rest}
    options = {key: value for key, value in _options(spec, "openai").items() if key != "strict"}
    return {**options, **head, "parameters": schema}


def _parted(text: str, longest: int) -> tuple[str, str]:
    """A text in two at the last break before the limit: a line, a sentence, a word, or none."""
    start = longest // 2
    cuts = (text.rfind(mark, start, longest - 1) for mark in ("\n", ". ", " "))
    at = next((cut + 1 for cut in cuts if cut > 0), longest - 1)
    return f"{text[:at].rstrip()}…", f"…{text[at:].lstrip()}"


def _anthropic(spec: ToolSpec) -> Definition:
    schema, report = _schema(spec, ANTHROPIC)
    head = _head(spec, report, ANTHROPIC)
    return _definition({**_options(spec, "anthropic"), **head, "input_schema": schema}, report)


def _google(spec: ToolSpec) -> Definition:
    # `parameters`, not `parametersJsonSchema`: the two exclude each other; the Live API and older clients
    # read only the first, and for the second it is not published which keywords a function may use.
    schema, report = _schema(spec, GOOGLE)
    form = {**_google_options(spec, report), **_head(spec, report, GOOGLE)}
    if "properties" in schema:
        form["parameters"] = schema
    else:
        report.note("lossless", "", "no parameters are declared")
    return _definition(form, report)


def _mcp(spec: ToolSpec) -> Definition:
    form: Node = {"name": spec.name, "inputSchema": spec.input_schema}
    for key, value in (
        ("title", spec.title),
        ("description", spec.description),
        ("outputSchema", spec.output_schema),
        ("annotations", spec.annotations),
        ("_meta", spec.meta),
    ):
        if value or (key == "outputSchema" and value is not None):
            form[key] = value
    return Definition(value=form)


def _schema(spec: ToolSpec, rules: Rules) -> tuple[Node, Report]:
    given: JSON = spec.input_schema
    report = Report(exact=rules.exact)
    if not rules.subset and fits_at_top(given, rules):
        return given, report
    conversion = Conversion(given, rules, report)
    schema = (choice if rules.subset else whole)(conversion, given, Place())
    if rules.exact:
        _refuse_inexact(schema, report)
    if not report.losses:
        if same(schema, given):
            return given, report
        report.note("lossless", "", "said in the words of this provider")
    return schema, report


def _refuse_inexact(schema: Node, report: Report) -> None:
    for pointer in sorted(report.absent & report.nulls):
        report.note("widened", pointer, "null is a value in one form and means absent in another")
    limit = beyond_strict_limits(schema)
    if limit is not None:
        report.note("widened", "", limit)


def _head(spec: ToolSpec, report: Report, rules: Rules) -> Node:
    name = legal_name(spec.name, rules.tool_names)
    if name != spec.name:
        report.note("lossless", "/name", f"{spec.name!r} is called {name!r} here")
    return {"name": name, "description": spec.description or spec.title or ""}


def _options(spec: ToolSpec, provider: str) -> JSONObject:
    given: JSON = spec.options.get(provider)
    if not isinstance(given, Mapping):
        return {}
    options = cast(JSONObject, given)
    # Also as OpenAI nests them: `{function: {strict: true}}`.
    inner: JSON = options.get("function")
    if not isinstance(inner, Mapping):
        return options
    outer = {key: value for key, value in options.items() if key != "function"}
    return {**outer, **cast(JSONObject, inner)}


def _google_options(spec: ToolSpec, report: Report) -> Node:
    options: Node = {}
    for key, value in _options(spec, "google").items():
        if key in _GOOGLE_OPTIONS:
            options[key] = value
        else:  # Google and its package refuse a declaration with any other field, and with it all tools
            report.note("lossless", f"/{key}", "no field of a function declaration; left out")
    return options


def _definition(value: Node, report: Report) -> Definition:
    return Definition(
        value=value,
        losses=tuple(report.losses),
        renamed=report.renamed.pop("", {}),
        renamed_within=report.renamed,
        absent=frozenset(report.absent),
    )


_FORMS: Mapping[str, Callable[[ToolSpec], Definition]] = {
    "openai": _openai,
    "openai-strict": _openai_strict,
    "openai-responses": _openai_responses,
    "anthropic": _anthropic,
    "google": _google,
    "mcp": _mcp,
}
