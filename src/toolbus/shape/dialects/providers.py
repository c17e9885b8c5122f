"""Build the dict that each provider expects for a tool, always from the server's own schema, trimmed."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import cast, get_args

from toolbus.core.values.records import JSON, JSONObject, ToolSpec
from toolbus.schema.reader import Place, TooMuchWork
from toolbus.schema.values import Node, entries_of
from toolbus.shape.dialects.conversion import SchemaConversion
from toolbus.shape.dialects.definition import Definition, Dialect, Inexact, Loss, Report
from toolbus.shape.dialects.draft2020 import converted_to_draft2020, is_accepted
from toolbus.shape.dialects.rules import ANTHROPIC, GOOGLE, OPENAI, OPENAI_STRICT, Rules, legal_name
from toolbus.shape.dialects.subset import converted_to_subset
from toolbus.shape.trim import trimmed_schema, trimmed_text

DIALECTS: tuple[Dialect, ...] = get_args(Dialect)
_MOST_NAMES = 50
_LONGEST_NAME = 100
"""Arguments of a schema that cannot be converted, and characters of a name."""
_GOOGLE_OPTIONS = {"behavior", "response", "responseJsonSchema", "response_json_schema"}


class UnknownDialect(ValueError):
    """A mistake in the calling program, not in a tool."""


def converted(spec: ToolSpec, dialect: Dialect) -> Definition:
    """The tool in a provider's format; `UnknownDialect` if there is no such dialect.

    Computed once for each spec and dialect, then shared.
    """
    # Cached in the frozen spec: it lives as long, needs no limit, and is never stale.
    definition = spec.definitions[dialect] = converted_once(spec, dialect)
    return definition


def converted_once(spec: ToolSpec, dialect: Dialect) -> Definition:
    """As `converted`, but not kept in memory if it is not known yet."""
    known = spec.definitions.get(dialect)
    if known is not None:
        return known
    if dialect not in _BUILDERS:
        close = get_close_matches(str(dialect), DIALECTS, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise UnknownDialect(f"unknown dialect {dialect!r}; {hint}known dialects: {', '.join(DIALECTS)}")
    return _BUILDERS[dialect](spec)


def _is_strict(spec: ToolSpec) -> bool:
    return _options(spec, "openai").get("strict") is True


def _chat(spec: ToolSpec, *, strict: bool) -> Definition:
    function, report, is_strict = _openai_function(spec, strict=strict)
    if strict:
        function["strict"] = is_strict
    return _definition({"type": "function", "function": function}, report)


def _openai_responses(spec: ToolSpec) -> Definition:
    function, report, is_strict = _openai_function(spec, strict=_is_strict(spec))
    # Always present: this API treats a tool without it as strict.
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
        head["description"], rest = _split(head["description"], longest)
        report.note("lossless", "/description", "too long; continued in the description of the parameters")
        own = schema.get("description")
        schema = {**schema, "description": f"{rest}\n\n{own}" if own else rest}
    options = {key: value for key, value in _options(spec, "openai").items() if key != "strict"}
    return {**options, **head, "parameters": schema}


def _split(text: str, longest: int) -> tuple[str, str]:
    """The text in two parts, at the last line, sentence or word break before the limit."""
    start = longest // 2
    cuts = (text.rfind(mark, start, longest - 1) for mark in ("\n", ". ", " "))
    at = next((cut + 1 for cut in cuts if cut > 0), longest - 1)
    return f"{text[:at].rstrip()}…", f"…{text[at:].lstrip()}"


def _anthropic(spec: ToolSpec) -> Definition:
    schema, report = _schema(spec, ANTHROPIC)
    head = _head(spec, report, ANTHROPIC)
    return _definition({**_options(spec, "anthropic"), **head, "input_schema": schema}, report)


def _google(spec: ToolSpec) -> Definition:
    # `parameters`, not `parametersJsonSchema`: they exclude each other, the Live API and older clients only
    # read the first, and the keywords that the second supports are not documented.
    schema, report = _schema(spec, GOOGLE)
    declaration = {**_google_options(spec, report), **_head(spec, report, GOOGLE)}
    if "properties" in schema:
        declaration["parameters"] = schema
    else:
        report.note("lossless", "", "no parameters are declared")
    return _definition(declaration, report)


def _mcp(spec: ToolSpec) -> Definition:
    tool: Node = {"name": spec.name, "inputSchema": spec.input_schema}
    for key, value in (
        ("title", spec.title),
        ("description", spec.description),
        ("outputSchema", spec.output_schema),
        ("annotations", spec.annotations),
        ("_meta", spec.meta),
    ):
        if value or (key == "outputSchema" and value is not None):
            tool[key] = value
    return Definition(value=tool)


def _schema(spec: ToolSpec, rules: Rules) -> tuple[Node, Report]:
    given: JSON = trimmed_schema(spec.input_schema, keep_open=rules.subset)
    report = Report(exact=rules.exact)
    if not rules.subset and is_accepted(given, rules):
        return given, report
    try:
        return _converted_schema(given, rules, report), report
    except TooMuchWork as exceeded:
        report = Report(exact=rules.exact)
        report.note("permissive", "", f"{exceeded}; any arguments are accepted")
        return _converted_schema(_outline(given), rules, report), report


def _converted_schema(given: Node, rules: Rules, report: Report) -> Node:
    conversion = SchemaConversion(given, rules, report)
    schema = (converted_to_subset if rules.subset else converted_to_draft2020)(conversion, given, Place())
    if rules.exact:
        _reject_inexact(schema, report)
    if not report.losses:
        if conversion.work.same(schema, given):
            return given
        report.note("lossless", "", "rewritten for this provider")
    return schema


def _outline(given: Node) -> Node:
    """The remains of a schema that takes too much work: the names of the first arguments."""
    names = [name for name in entries_of(given.get("properties")) if len(name) <= _LONGEST_NAME]
    return {
        "type": "object",
        "properties": dict.fromkeys(names[:_MOST_NAMES], True),
        "description": "The schema of the arguments is too complex to be shown.",
    }


def _reject_inexact(schema: Node, report: Report) -> None:
    for pointer in sorted(report.absent & report.nulls):
        report.note("widened", pointer, "null is a value in one alternative and means absent in another")
    limit = beyond_strict_limits(schema)
    if limit is not None:
        report.note("widened", "", limit)


def _head(spec: ToolSpec, report: Report, rules: Rules) -> Node:
    name = legal_name(spec.name, rules.tool_names)
    if name != spec.name:
        report.note("lossless", "/name", f"{spec.name!r} is renamed to {name!r}")
    return {"name": name, "description": trimmed_text(spec.description) or spec.title or ""}


def _options(spec: ToolSpec, provider: str) -> JSONObject:
    given: JSON = spec.options.get(provider)
    if not isinstance(given, Mapping):
        return {}
    options = cast(JSONObject, given)
    # OpenAI's nested notation is accepted too: `{function: {strict: true}}`.
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
        else:  # Google and its package reject a declaration with any other field, and all tools with it
            report.note("lossless", f"/{key}", "not a field of a function declaration; left out")
    return options


def _definition(value: Node, report: Report) -> Definition:
    return Definition(
        value=value,
        losses=tuple(report.losses),
        renamed=report.renamed.pop("", {}),
        renamed_within=report.renamed,
        absent=frozenset(report.absent),
    )


_BUILDERS: Mapping[str, Callable[[ToolSpec], Definition]] = {
    "openai": lambda spec: _chat(spec, strict=_is_strict(spec)),
    "openai-strict": lambda spec: _chat(spec, strict=True),
    "openai-responses": _openai_responses,
    "anthropic": _anthropic,
    "google": _google,
    "mcp": _mcp,
}


MOST_PROPERTIES = 5_000
MOST_ENUM_VALUES = 1_000
MOST_TEXT = 120_000  # characters of all names and enum values together
LARGE_ENUM = 250  # from here on, one enum has its own limit
MOST_TEXT_IN_LARGE_ENUM = 15_000


def beyond_strict_limits(schema: Node) -> str | None:
    """The limit of strict mode that a converted schema exceeds, if any."""
    properties = values = text = 0
    waiting: list[JSON] = [schema]
    while waiting:
        node = waiting.pop()
        names = node.get("properties", {})
        enum = [value for value in node.get("enum", ()) if isinstance(value, str)]
        length = sum(map(len, enum))
        if len(enum) > LARGE_ENUM and length > MOST_TEXT_IN_LARGE_ENUM:
            return (
                f"an enum of more than {LARGE_ENUM} values has more than {MOST_TEXT_IN_LARGE_ENUM} characters"
            )
        properties += len(names)
        values += len(node.get("enum", ()))
        text += length + sum(map(len, names))
        waiting += [*names.values(), *node.get("anyOf", ())]
        if "items" in node:
            waiting.append(node["items"])
    for count, most, what in (
        (properties, MOST_PROPERTIES, "properties"),
        (values, MOST_ENUM_VALUES, "enum values"),
        (text, MOST_TEXT, "characters of names and values"),
    ):
        if count > most:
            return f"strict mode accepts at most {most} {what}"
    return None
