"""The tools that a model is shown: all of a catalog, or a few that lead to the others.

In search mode, a model gets a few tools: `search_tools` returns the definitions of matching tools, and
`call_tool` calls one. If some of the tools only read, `call_read_tool` calls those, and a host can allow it
permanently. These definitions stay the same as long as the catalog does, so prompt caches hit. Exposure does
not change the permissions of a view: a hidden tool can still be called, even by its own name. In code mode,
`search_tools` returns tools as Python functions, and `run_code` runs a script that calls them.

Providers that can load tools during a conversation need no `call_tool`. They get `search_tools`, and the
definitions that it finds are loaded and called like any other (`Exposure.loadable`).
"""

import json
from collections import Counter
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import cast

from toolbus.call.result_store import READ_RESULT
from toolbus.config.settings.expose import EXPOSE_BUDGET, ExposeMode
from toolbus.core.values.catalog import Catalog
from toolbus.core.values.records import OWN, JSONObject, Origin, ToolSpec
from toolbus.shape.budget import estimated_tokens

SEARCH = "toolbus/search_tools"
CALL = "toolbus/call_tool"
CALL_READ = "toolbus/call_read_tool"
"""The routes of the tools of search mode."""
CALLS = frozenset({CALL, CALL_READ})
"""The routes of those that call another tool."""
SEARCH_FUNCTIONS = "toolbus/search_functions"
RUN_CODE = "toolbus/run_code"
"""The routes of the tools of code mode."""
OWN_ROUTES = CALLS | {SEARCH, SEARCH_FUNCTIONS, RUN_CODE}
MOST_SERVERS = 200
"""Servers that the description of `search_tools` lists."""

_SEARCH_SCHEMA: JSONObject = {
    "type": "object",
    "properties": {
        "queries": {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 1,
            "description": "Tasks for the tools, one query for each step; or names of tools.",
        }
    },
    "required": ["queries"],
    "additionalProperties": False,
}
_READ_ONLY: JSONObject = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True}
_RETURNS = "Returns names, descriptions and input schemas; call what you need with call_tool."
_RETURNS_READ_ONLY = (
    "Returns names, descriptions and input schemas; call those marked read_only with call_read_tool, and "
    "the others with call_tool."
)
_WRITES = "Returns tools as typed Python functions; call what you need in a script, with run_code."
_LOADS = "Loads the tools that it finds; from then on you can call them."
_DEFERRED = {"defer_loading": True}

_CALL_SCHEMA: JSONObject = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "The name of the tool, as search_tools returned it."},
        "arguments": {"type": "object", "description": "The arguments of the tool."},
    },
    "required": ["name", "arguments"],
}
CALL_TOOL = ToolSpec(
    name="call_tool",
    origin=Origin(OWN, "call_tool"),
    route=CALL,
    title="Call a tool",
    description=(
        "Calls a tool that search_tools returned, with arguments that match its input_schema. "
        "Also calls read_result, when a result mentions it."
    ),
    input_schema=_CALL_SCHEMA,
    annotations={"readOnlyHint": False, "destructiveHint": True},
)
CALL_READ_TOOL = ToolSpec(
    name="call_read_tool",
    origin=Origin(OWN, "call_read_tool"),
    route=CALL_READ,
    title="Call a tool that only reads",
    description=(
        "Calls a tool that search_tools returned with read_only: true, with arguments that match its "
        "input_schema; refuses any other. Also calls read_result, when a result mentions it."
    ),
    input_schema=_CALL_SCHEMA,
    annotations={"readOnlyHint": True, "destructiveHint": False},
    trusted=True,
)


MODULES = (
    *("asyncio", "base64", "bisect", "collections", "copy", "csv", "dataclasses", "datetime", "decimal"),
    *("functools", "hashlib", "itertools", "json", "math", "random", "re", "time", "typing"),
)
HAS = (
    *("functions", "lambda", "decorators", "comprehensions", "f-strings", "try/except/finally", "match"),
    *("simple classes", "dataclasses", "asyncio.gather", "asyncio.sleep"),
)
LACKS = (
    *("yield", "class inheritance", "properties", "del", "async with", "async for", "asyncio.create_task"),
    *("methods as values such as key=d.get (use a lambda)", "next() of a generator (use a list and iter)"),
    *("import *", "input()", "files", "network", "environment variables", "other modules"),
)
LANGUAGE = (
    f"The language is a part of Python. It has {', '.join(HAS)}, and the modules {', '.join(MODULES)}, "
    f"which have to be imported. It lacks {', '.join(LACKS)}."
)


RUN_SCRIPT = ToolSpec(
    name="run_code",
    origin=Origin(OWN, "run_code"),
    route=RUN_CODE,
    title="Run a script",
    description=(
        "Runs a Python script that calls tools: each is an async function, as search_tools returned it, to "
        "be awaited with keyword arguments. Mistakes in calls are found before anything runs. Returns what "
        "the script prints and the value of its last expression, so print or end with only what you need. "
        "A call that fails raises RuntimeError. " + LANGUAGE
    ),
    input_schema={
        "type": "object",
        "properties": {"script": {"type": "string", "description": "The Python script."}},
        "required": ["script"],
        "additionalProperties": False,
    },
)


def search_tool(hidden: Catalog, *, what: str = _RETURNS, route: str = SEARCH) -> ToolSpec:
    """The tool that finds those tools; its description is the same for the same catalog.

    `what` says what happens to the tools that it finds.
    """
    counts = Counter(spec.origin.server for spec in hidden if spec.origin.server != OWN)
    listed = [f"{server} ({count})" for server, count in list(counts.items())[:MOST_SERVERS]]
    if (more := len(counts) - MOST_SERVERS) > 0:
        listed.append(f"and {more} more servers")
    about = (
        f"Finds tools by what they do or by name. {counts.total()} tools are available that are not listed "
        "here: search before you conclude that something cannot be done. "
        f"{what} Servers and their numbers of tools: "
    )
    return ToolSpec(
        name="search_tools",
        origin=Origin(OWN, "search_tools"),
        route=route,
        title="Search for tools",
        description=f"{about}{', '.join(listed)}.",
        input_schema=_SEARCH_SCHEMA,
        annotations=_READ_ONLY,
        trusted=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """The way a view shows its tools to a model."""

    mode: ExposeMode = "all"
    always: tuple[str, ...] = ()
    """Patterns of tools that are shown in every mode, for public names and `server/tool`."""
    budget: int = EXPOSE_BUDGET
    """For `auto`: the tokens that all definitions may take, before they are searched."""

    def shown(self, catalog: Catalog) -> Catalog:
        """The part of a catalog that a model is shown: the same object for the same catalog."""
        catalog = catalog.for_models
        return catalog if self.mode == "all" else catalog.memo(_shown, self)

    def own_tools(self, hidden: Catalog) -> list[ToolSpec]:
        """Its own tools, for a catalog of which these are hidden."""
        if self.mode == "code":
            return [search_tool(hidden, what=_WRITES, route=SEARCH_FUNCTIONS), RUN_SCRIPT]
        if not any(spec.reads_only and spec.origin.server != OWN for spec in hidden):
            return [search_tool(hidden), CALL_TOOL]
        return [search_tool(hidden, what=_RETURNS_READ_ONLY), CALL_READ_TOOL, CALL_TOOL]

    def loadable(self, catalog: Catalog) -> Catalog:
        """As `shown`, for a provider that loads tools: the hidden ones are last, with `defer_loading`.

        It is the provider that hides them. `read_result` is there from the start: if it came later, it would
        change what every request begins with.
        """
        catalog = catalog.for_models
        shown = self.shown(catalog)
        if shown is catalog or self.mode == "code":
            return shown
        return catalog.memo(_loadable, self)

    def is_always_shown(self, spec: ToolSpec) -> bool:
        """Whether a tool is shown in every mode."""
        if spec.origin.server == OWN:
            # It joins late and would change every later request; `call_tool` reaches it.
            return spec.origin != READ_RESULT.origin
        origin = str(spec.origin)
        return any(fnmatchcase(spec.name, one) or fnmatchcase(origin, one) for one in self.always)

    def own_tool(self, name: str, catalog: Catalog) -> ToolSpec | None:
        """One of its own tools by its name, unless all tools are always shown."""
        if self.mode == "all":
            return None
        # Also if `auto` shows all of them now: the model may have been told of these before.
        own = self.own_tools(catalog)
        return next((spec for spec in own if name in (spec.name, str(spec.origin))), None)


def _shown(catalog: Catalog, exposure: Exposure) -> Catalog:
    if exposure.mode == "auto" and _fits(catalog, exposure.budget):
        return catalog
    hidden = [spec for spec in catalog if not exposure.is_always_shown(spec)]
    if all(spec.origin.server == OWN for spec in hidden):
        return catalog  # there is nothing to search for
    shown = (spec for spec in catalog if exposure.is_always_shown(spec))
    return Catalog(shown, exposure.own_tools(Catalog(hidden)), catalog.instructions)


def _loadable(catalog: Catalog, exposure: Exposure) -> Catalog:
    always = exposure.is_always_shown
    hidden = [spec for spec in catalog if not always(spec) and spec.origin != READ_RESULT.origin]
    own = (READ_RESULT, search_tool(Catalog(hidden), what=_LOADS))
    shown = (spec for spec in catalog if always(spec))
    return Catalog((*shown, *own), map(_deferred, hidden), catalog.instructions)


def _deferred(spec: ToolSpec) -> ToolSpec:
    options = dict(spec.options)
    for provider in ("anthropic", "openai"):
        given = cast("JSONObject", options.get(provider) or {})
        options[provider] = {**given, **_DEFERRED}
    return replace(spec, options=options)


def definition_cost(spec: ToolSpec) -> int:
    """About how many tokens the definition of a tool takes, whatever the provider."""
    schema = json.dumps(spec.input_schema, ensure_ascii=False, separators=(",", ":"))
    return estimated_tokens(f"{spec.name} {spec.description} {schema}")


def _fits(catalog: Catalog, budget: int) -> bool:
    total = 0
    for spec in catalog:
        total += definition_cost(spec)
        if total > budget:
            return False
    return True
