"""The `limits` of servers, and the `code` of a bus: the most that a server may send, and a script may use."""

from typing import Annotated

from pydantic import Field

from toolbus.config.base import ConfigModel, Count


class ServerLimits(ConfigModel):
    """The most that a server may send; what exceeds a limit is an error for that message alone."""

    message: Count = 64 * 1024 * 1024
    """Bytes of one message or event, once it is decompressed."""
    values: Count = 1_000_000
    """JSON values in one message: parsed, each takes about a hundred bytes."""
    depth: Annotated[int, Field(ge=10, le=500)] = 200
    """Levels of objects and lists in one message."""
    tools: Count = 10_000
    """Tools of one server; the others are left out."""
    resources: Count = 10_000
    """Resources of one server, and as many templates; the others are left out."""
    prompts: Count = 10_000
    """Prompts of one server; the others are left out."""
    skills: Count = 1_000
    """Skills of one server, of at most 512 files and 16 MiB each; the others are left out."""
    schema_size: Count = 3_000
    """JSON values in a schema of a tool; a larger one is replaced by one that accepts any arguments."""
    description: Count = 10_000
    """Characters of a tool's description, and of all texts in its schema; the rest is cut off."""
    definition: Count = 40_000
    """Characters of a tool's schema, as JSON; the model gets a longer one without its details."""
    error: Count = 10_000
    """Characters of an error message; the rest is cut off."""
    requests: Count = 100
    """Requests of the server that are being answered at the same time; others are ignored."""
    unasked: Count = 100_000
    """Messages within a minute that answer no request; then the connection is closed and retried later."""
    tasks: Count = 1_000
    """Calls that the server runs as tasks at the same time; others fail."""
    backlog: Count = 16 * 1024 * 1024
    """Bytes of events that a listener has not read, for the whole bus; then it loses the oldest."""


class CodeLimits(ConfigModel):
    """The most that a script may use; one that exceeds a limit ends with an error."""

    time: Annotated[float, Field(gt=0, le=3600)] = 30
    """Seconds that a script may compute, and as many that it may sleep; waiting for tools does not count."""
    memory: Annotated[int, Field(ge=1024 * 1024)] = 64 * 1024 * 1024
    """Bytes."""
    calls: Count = 100
    """Calls of tools."""
    output: Count = 10_000
    """Tokens of its output; the rest is left out."""
    script: Count = 100_000
    """Characters of the script itself."""
    keep: Annotated[int, Field(ge=0, le=1000)] = 20
    """Scripts that ended well, which are kept for `toolbus script save`."""
