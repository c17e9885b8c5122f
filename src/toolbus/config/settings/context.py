"""The resources that go into an agent's context: `context: [{server: docs, uri: "file:///notes/*"}]`."""

from toolbus.config.base import ConfigModel, Text

# Codex puts up to 32 KiB of project documents into a prompt, which is about as many tokens
# (developers.openai.com/codex/guides/agents-md). Every request to the model includes it, so it is smaller
# than the limit for a single result.
CONTEXT_BUDGET = 8_000
SMALLEST = 200
"""In tokens: enough for the line about skipped resources, and some content."""


class ContextSource(ConfigModel):
    """A resource of a server, or all listed resources that match a pattern; `*` matches anything."""

    _keeps_null = True

    server: Text
    """The alias of the server."""
    uri: Text
    """The URI of the resource, or a pattern."""
