"""Tools that a provider loads during a run, found by our index, where its models can do that.

Elsewhere a model gets `search_tools` and `call_tool`, whose definitions never change; Pydantic AI would add
what was found to the tools of the next request, and no prompt cache would hit.
"""

from collections.abc import Iterable, Sequence
from itertools import chain, zip_longest
from typing import Any

from pydantic_ai import RunContext, ToolDefinition
from pydantic_ai.capabilities import ToolSearch

from toolbus.adapters.pydantic_ai_options import request_models
from toolbus.bus.catalog.exposure import SEARCH
from toolbus.bus.catalog.tool import Tool
from toolbus.bus.catalog.tool_search import MOST_TOOLS, found_names
from toolbus.bus.view import View


def loads_tools(model: object) -> bool:
    """Whether the provider of a model loads tools during a conversation."""
    models = list(request_models(model))
    return bool(models) and all(
        getattr(each, "tool_deferral_mode", None) is not None  # of recent versions
        and any(one.kind == "tool_search" for one in each.profile.get("supported_native_tools", ()))
        for each in models
    )


def tool_search(buses: Iterable[View], model: object) -> list[ToolSearch[Any]]:
    """What Pydantic AI has to know to search with us: one capability, or none if nothing is hidden."""
    if not loads_tools(model):
        return []
    searches = [tool for bus in buses for tool in bus.tools(loadable=True) if tool.spec.route == SEARCH]
    if not searches:
        return []

    async def strategy(
        ctx: RunContext[Any], queries: Sequence[str], tools: Sequence[ToolDefinition]
    ) -> list[str]:
        return await _found(searches, queries, ctx.deps.id)

    queries = searches[0].parameters["properties"]["queries"]["description"]
    return [
        ToolSearch(
            strategy=strategy,
            max_results=MOST_TOOLS,
            tool_description="\n".join(tool.description for tool in searches),
            parameter_description=queries,
        )
    ]


async def _found(searches: Sequence[Tool], queries: Sequence[str], run: str) -> list[str]:
    """The tools that the buses found: the best of each come before the second best."""
    results = [await search.run({"queries": list(queries)}, run=run) for search in searches]
    ranked = zip_longest(*map(found_names, results))
    return [name for name in chain.from_iterable(ranked) if name is not None]
