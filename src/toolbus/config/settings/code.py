"""The `code` of a bus: the most that a script may use."""

from typing import Annotated

from pydantic import Field

from toolbus.config.base import ConfigModel

_Count = Annotated[int, Field(ge=1)]


class CodeLimits(ConfigModel):
    """The most that a script may use; one that exceeds a limit ends with an error."""

    time: Annotated[float, Field(gt=0, le=3600)] = 30
    """Seconds that a script may compute, and as many that it may sleep; waiting for tools does not count."""
    memory: Annotated[int, Field(ge=1024 * 1024)] = 64 * 1024 * 1024
    """Bytes."""
    calls: _Count = 100
    """Calls of tools."""
    output: _Count = 10_000
    """Tokens of its output; the rest is left out."""
    script: _Count = 100_000
    """Characters of the script itself."""
