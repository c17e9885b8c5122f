"""The ways a model gets its tools: all definitions in every request, or a search for them."""

from importlib.util import find_spec
from typing import Literal, TypeAlias, get_args

from toolbus.core.values.errors import ExtraMissing

ExposeMode: TypeAlias = Literal["all", "search", "code", "auto"]
"""The ways to expose tools to a model.

Show `all` tools, let the model `search` for them, or let it write scripts that call them (`code`). `auto`
chooses between `all` and `search` by their cost.
"""
EXPOSE_BUDGET = 10_000
"""Tokens of definitions above which `auto` searches: 5 % of a context window of 200,000."""


def check_mode(mode: object) -> None:
    """ValueError if there is no such mode, `ExtraMissing` if it needs packages that are not installed."""
    if mode is not None and mode not in get_args(ExposeMode):
        raise ValueError(f"expose must be one of {', '.join(get_args(ExposeMode))}, not {mode!r}")
    if mode == "code" and find_spec("pydantic_monty") is None:
        raise ExtraMissing("expose: code", "code", "pydantic-monty is not installed")
