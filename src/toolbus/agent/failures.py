"""Errors that end a run, other than its limits."""

from toolbus.core.values.errors import ToolbusError


class ModelFailed(ToolbusError):
    """The model cannot be used, or did not respond; `status` is the HTTP status, if any."""

    def __init__(self, model: str, reason: str, status: int | None = None) -> None:
        self.model = model
        self.status = status
        super().__init__(f"model {model!r}: {reason}")


class NameClash(ToolbusError, ValueError):
    """Two tools of an agent have the same name; the message names both."""

    def __init__(self, name: str, one: str, other: str) -> None:
        self.name = name
        hint = "rename the function, or the tool under `override`"
        super().__init__(f"two tools are named {name!r}: {one} and {other}; {hint}")
