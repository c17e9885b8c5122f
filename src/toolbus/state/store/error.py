"""The error of a store."""

from toolbus.core.errors import ToolbusError


class StoreError(ToolbusError):
    """The store cannot be used; `place` names it, without its password. What it has was left as it is."""

    def __init__(self, place: str, problem: str, step: str) -> None:
        self.place = place
        self.problem = problem
        super().__init__(f"store {place}: {problem}; {step}")
