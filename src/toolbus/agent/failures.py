"""What ends a run early, apart from its limits."""

from toolbus.core.errors import ToolbusError


class ModelFailed(ToolbusError):
    """The model cannot be used, or gave no answer; `status` is the HTTP status if there was one."""

    def __init__(self, model: str, reason: str, status: int | None = None) -> None:
        self.model = model
        self.status = status
        super().__init__(f"model {model!r}: {reason}")


class NameClash(ToolbusError, ValueError):
    """Two tools of an agent have one name; both are named."""

    def __init__(self, name: str, one: str, other: str) -> None:
        self.name = name
        hint = "rename the function, or the tool under `override`"
        super().__init__(f"two tools are named {name!r}: {one} and {other}; {hint}")
