"""The calls in runs of the orders program: their plans, and the tools of each version."""

from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["ok", "unknown-outcome", "unknown-tool", "odd"]
"""The outcome of a call, as the model reads it."""

PLANS = {
    "v1": ("order", "pay", "effects_write", "effects_look", "pay", "effects_put"),
    "v2": ("order", "ship", "pay", "stock_reserve", "effects_put", "ship"),
    "v3": ("order", "charge", "effects_write", "ship", "effects_look", "charge"),
    "v4": ("order", "charge", "stock_reserve", "effects_put", "charge", "order"),
}
"""The calls of a run, by the version that it was started for."""
CROWD = 16
"""So many open runs are enough: on a busy machine, runs would wait until their version is gone."""
SAFE = ("effects_put", "effects_look")
"""Tools whose calls may be repeated."""
_SERVER = frozenset({"effects_write", "effects_put", "effects_look"})
TOOLS = {
    "v1": _SERVER | {"order", "pay"},
    "v2": _SERVER | {"order", "pay", "ship", "stock_reserve"},
    "v3": _SERVER | {"order", "charge", "ship", "stock_reserve"},
    "v4": _SERVER | {"order", "charge", "stock_reserve"},
}


def kind_of(result: str) -> Kind:
    """The outcome of a call, by the text of its result."""
    if result.startswith("ok "):
        return "ok"
    if "outcome unknown" in result:
        return "unknown-outcome"
    return "unknown-tool" if "Unknown tool name" in result else "odd"
