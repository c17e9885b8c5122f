"""The resources that go into an agent's context: `context: [{server: docs, uri: "file:///notes/*"}]`."""

from collections.abc import Iterable

from pydantic import Field

from toolbus.config.base import ConfigModel
from toolbus.config.location import Location, is_list, is_mapping, near_miss
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON

# Codex puts up to 32 KiB of project documents into a prompt, which is about as many tokens
# (developers.openai.com/codex/guides/agents-md). Every request to the model includes it, so it is smaller
# than the limit for a single result.
CONTEXT_BUDGET = 8_000
SMALLEST = 200
"""In tokens: enough for the line about skipped resources, and some content."""


class ContextSource(ConfigModel):
    """A resource of a server, or all listed resources that match a pattern; `*` matches anything."""

    server: str = Field(min_length=1)
    """The alias of the server."""
    uri: str = Field(min_length=1)
    """The URI of the resource, or a pattern."""


def context_sources(
    value: JSON, location: Location, aliases: Iterable[str] | None = None
) -> tuple[ContextSource, ...]:
    """The listed sources; ConfigError if one is invalid, or names none of these servers."""
    if not is_list(value):
        raise location.error("expected a list of {server: ..., uri: ...}", "context")
    known = None if aliases is None else list(aliases)
    sources: list[ContextSource] = []
    for index, entry in enumerate(value):
        key = f"context[{index}]"
        source = entry if isinstance(entry, ContextSource) else _source(entry, location, key)
        if known is not None and source.server not in known:
            hint = near_miss(source.server, known)
            raise location.error(f"no server has the alias {source.server!r}{hint}", f"{key}.server")
        sources.append(source)
    return tuple(sources)


def context_budget(value: JSON, location: Location) -> int:
    """The number of tokens; ConfigError if it is invalid or too small."""
    if isinstance(value, bool) or not isinstance(value, int) or value < SMALLEST:
        raise location.error(f"expected a number of tokens, at least {SMALLEST}", "context_budget")
    return value


def is_context(value: JSON) -> bool:
    """Whether the value is our `context`: some hosts use that key for something else."""
    return is_list(value) and any(is_mapping(entry) and "uri" in entry for entry in value)


def _source(entry: JSON, location: Location, key: str) -> ContextSource:
    fields = location.mapping(entry, key)
    try:
        return ContextSource(**{str(name): value for name, value in fields.items()})
    except ConfigError as error:
        raise location.relocated(error, lambda own: f"{key}.{own}") from None
