"""The most that a server may send, so that no server can use up the memory or the time of a program."""

from typing import Annotated

from pydantic import Field

from toolbus.config.base import ConfigModel

_Count = Annotated[int, Field(ge=1)]


class Limits(ConfigModel):
    """The most that a server may send; what exceeds a limit is an error for that message alone."""

    message: _Count = 64 * 1024 * 1024
    """Bytes of one message or event, once it is decompressed."""
    values: _Count = 1_000_000
    """JSON values in one message: parsed, each takes about a hundred bytes."""
    depth: Annotated[int, Field(ge=10, le=500)] = 200
    """Levels of objects and lists in one message."""
    tools: _Count = 10_000
    """Tools of one server; the others are left out."""
    resources: _Count = 10_000
    """Resources of one server, and as many templates; the others are left out."""
    prompts: _Count = 10_000
    """Prompts of one server; the others are left out."""
    skills: _Count = 1_000
    """Skills of one server, of at most 512 files and 16 MiB each; the others are left out."""
    schema_size: _Count = 3_000
    """JSON values in a schema of a tool; a larger one is replaced by one that accepts any arguments."""
    description: _Count = 10_000
    """Characters of a tool's description, and of all texts in its schema; the rest is cut off."""
    definition: _Count = 40_000
    """Characters of a tool's schema, as JSON; the model gets a longer one without its details."""
    error: _Count = 10_000
    """Characters of an error message; the rest is cut off."""
    requests: _Count = 100
    """Requests of the server that are being answered at the same time; others are ignored."""
    unasked: _Count = 100_000
    """Messages within a minute that answer no request; then the connection is closed and retried later."""
    tasks: _Count = 1_000
    """Calls that the server runs as tasks at the same time; others fail."""
    backlog: _Count = 16 * 1024 * 1024
    """Bytes of events that a listener has not read, for the whole bus; then it loses the oldest."""
