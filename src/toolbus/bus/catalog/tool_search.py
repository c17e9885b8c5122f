"""The results of `search_tools`, and the calls that `call_tool` stands for.

A definition is trimmed, but not translated to the dialect of a provider. No provider checks the arguments of
a call through `call_tool`, so a dialect would only lose constraints.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Protocol, cast

from toolbus.bus.catalog.exposure import CALL_READ_TOOL, CALL_TOOL, definition_cost
from toolbus.call.arguments import ArgumentCheck
from toolbus.code.stubs import HEADER, Library
from toolbus.core.operation.operation import Operation
from toolbus.core.text.display import shortened
from toolbus.core.values.catalog import Catalog
from toolbus.core.values.errors import ArgumentsError
from toolbus.core.values.records import JSON, JSONObject, Text, ToolResult
from toolbus.search.finder import Finder
from toolbus.search.hit import SearchHit
from toolbus.shape.budget import estimated_tokens
from toolbus.shape.trim import trimmed_schema, trimmed_text

FOUND = "toolbus/found"
"""Key of a result's `meta`: the names of the tools to load, for providers that load tools."""
LIMIT = 8
"""Tools in a result; more if there are more queries."""
MOST_TOOLS = 20
RESULT_TOKENS = 4_000
"""About the most that a result has; the first tool is shown whole up to twice as much."""
_LINE = 200
"""Characters of the description of a tool that is not shown whole."""
_NEXT = "Call one with call_tool: its name, and arguments that match its input_schema."
_NEXT_BY_HINT = (
    "Call those with read_only: true with call_read_tool, the others with call_tool: the name, and arguments "
    "that match its input_schema."
)
_IN_SCRIPTS = "# Call these in a script with run_code: await each, with keyword arguments."
_SHORT = " Those without an input_schema did not fit: search for their names to see them whole."
_NOTHING_ASKED = "give at least one query that says what the tool should do, such as 'create an issue'"
_CALLING = frozenset(name for tool in (CALL_TOOL, CALL_READ_TOOL) for name in (tool.name, str(tool.origin)))
_CHECK = ArgumentCheck(CALL_TOOL.input_schema)


class Searching(Protocol):
    """The tenant of an operation, which has the indexes of its catalogs."""

    @property
    def finder(self) -> Finder:
        """Searches in catalogs."""
        ...


def _searching(operation: Operation) -> Searching:
    return cast("Searching", operation.tenant)


def library_of(catalog: Catalog) -> Library:
    """The tools of a catalog as functions, named once."""
    return catalog.memo(_new_library, None)


def _new_library(catalog: Catalog, _: None) -> Library:
    return Library(catalog)


class ToolSearch:
    """Answers the searches of models."""

    async def run(self, operation: Operation) -> ToolResult:
        """The route of `search_tools`: the tools of the caller's view that fit."""
        # In a thread: a catalog that is new takes long to index, and so do huge definitions.
        return await asyncio.to_thread(self._definitions, operation)

    async def run_for_scripts(self, operation: Operation) -> ToolResult:
        """The same in code mode: the tools as functions."""
        return await asyncio.to_thread(self._functions, operation)

    def _definitions(self, operation: Operation) -> ToolResult:
        hits = self._hits(operation)
        if isinstance(hits, ToolResult):
            return hits
        meta = {FOUND: _loaded(self._catalog(operation), hits)}
        return ToolResult(content=(Text(text=_described(hits)),), meta=meta)

    def _functions(self, operation: Operation) -> ToolResult:
        hits = self._hits(operation)
        if isinstance(hits, ToolResult):
            return hits
        return ToolResult(content=(Text(text=_functions(hits, library_of(self._catalog(operation)))),))

    @staticmethod
    def _catalog(operation: Operation) -> Catalog:
        assert operation.catalog is not None, "a search is made through a view"
        return operation.catalog.for_models

    def _hits(self, operation: Operation) -> list[SearchHit] | ToolResult:
        """The tools that fit; a result that says why there are none."""
        given: JSON = operation.arguments.get("queries")
        asked = cast("list[JSON]", given) if isinstance(given, list) else [given]
        queries = [query for query in asked if isinstance(query, str) and query.strip()]
        if not queries:
            return ToolResult.failure(f"search_tools: {_NOTHING_ASKED}")
        limit = min(MOST_TOOLS, max(LIMIT, 4 * len(queries)))
        hits = _searching(operation).finder.search(self._catalog(operation), queries, limit)
        if not hits:
            quoted = ", ".join(repr(shortened(query, 80)) for query in queries[:5])
            problem = f"no tool fits {quoted}; describe it in other words, or name a server"
            return ToolResult(content=(Text(text=problem),))
        return hits


def found_names(result: ToolResult) -> list[str]:
    """The tools that a search found, best first."""
    return list(cast("list[str]", result.meta.get(FOUND) or ()))


def inner_call(arguments: Mapping[str, JSON]) -> tuple[str, Mapping[str, JSON]]:
    """The name and arguments of the call that arguments of `call_tool` stand for; ArgumentsError if none."""
    name, given = arguments.get("name"), dict(arguments)
    if isinstance(name, str) and arguments.get("arguments") is None:
        # Some models leave the inner object out, or call a tool without arguments.
        rest = {key: value for key, value in given.items() if key not in ("name", "arguments")}
        given = {"name": name, "arguments": rest}
    checked = _CHECK.checked(given)
    name, inner = checked.arguments.get("name"), checked.arguments.get("arguments")
    if checked.problem is not None or not isinstance(name, str) or not isinstance(inner, Mapping):
        problem = checked.problem or "expected the name of a tool, and its arguments as an object"
        raise ArgumentsError("tool 'call_tool'", problem)
    if name in _CALLING:
        raise ArgumentsError("tool 'call_tool'", "it cannot call itself; give the name of another tool")
    return name, inner  # pyright: ignore[reportUnknownVariableType]  # JSON


def _described(hits: Sequence[SearchHit]) -> str:
    lines: list[str] = []
    left, is_shortened = RESULT_TOKENS, False
    for hit in hits:
        line = _line(_whole(hit))
        cost = estimated_tokens(line)
        if cost > (left if lines else 2 * RESULT_TOKENS):
            line, is_shortened = _line(_summary(hit)), True
            cost = estimated_tokens(line)
        lines.append(line)
        left -= cost
    said = _NEXT_BY_HINT if any(hit.spec.reads_only for hit in hits) else _NEXT
    return "\n".join([f"{said}{_SHORT if is_shortened else ''}", *lines])


def _functions(hits: Sequence[SearchHit], library: Library) -> str:
    """The stubs of the tools that fit into a result, and the names of the others."""
    names = {tool: name for name, tool in library.names.items()}
    texts, rest, left = [_IN_SCRIPTS, HEADER], list[str](), RESULT_TOKENS
    for hit in hits:
        text = library.stub(names[hit.name]).text
        left -= estimated_tokens(text)
        if left >= 0 or len(texts) == 2:
            texts.append(text)
            rest += (names[name] for name in hit.alternatives[:5] if name in names)
        else:
            rest.append(names[hit.name])
    if rest:
        texts.append(f"# Search for these names to see them: {', '.join(dict.fromkeys(rest))}\n")
    return "\n".join(texts)


def _loaded(catalog: Catalog, hits: Sequence[SearchHit]) -> list[JSON]:
    """The hits, and as many similar tools as fit: a model can see a tool only by loading it."""
    similar = [spec for hit in hits for name in hit.alternatives if (spec := catalog.get(name)) is not None]
    names: dict[str, None] = {}
    left = RESULT_TOKENS
    for spec in (*(hit.spec for hit in hits), *similar):
        left -= definition_cost(spec)
        if left >= 0 or not names:
            names[spec.name] = None
    return list(names)


def _whole(hit: SearchHit) -> dict[str, JSON]:
    found: dict[str, JSON] = {
        "name": hit.name,
        "description": trimmed_text(hit.spec.description),
        "input_schema": trimmed_schema(hit.spec.input_schema),
        **_marked(hit),
    }
    return {**found, "similar": list(hit.alternatives[:5])} if hit.alternatives else found


def _summary(hit: SearchHit) -> dict[str, JSON]:
    properties: JSON = hit.spec.input_schema.get("properties")
    names = list(cast("JSONObject", properties))[:20] if isinstance(properties, Mapping) else []
    return {
        "name": hit.name,
        "description": shortened(hit.spec.description, _LINE),
        "arguments": names,
        **_marked(hit),
    }


def _marked(hit: SearchHit) -> dict[str, JSON]:
    return {"read_only": True} if hit.spec.reads_only else {}


def _line(value: JSONObject) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
