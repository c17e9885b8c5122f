"""Stage 4, shaping what a model sees: pure functions from lists of tools to lists of tools.

The dialects of providers are imported when the first of their names is used: a catalog does not need them.
"""

from typing import TYPE_CHECKING, Any

from toolbus.shape.override import overridden
from toolbus.shape.pipeline import Shaper, each
from toolbus.shape.render import rendered, rendered_text
from toolbus.shape.select import excluding, including

if TYPE_CHECKING:
    from toolbus.shape.dialects import Definition, Dialect, Loss, UnknownDialect, converted

__all__ = [
    "Definition",
    "Dialect",
    "Loss",
    "Shaper",
    "UnknownDialect",
    "converted",
    "each",
    "excluding",
    "including",
    "overridden",
    "rendered",
    "rendered_text",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from toolbus.shape import dialects

    return getattr(dialects, name)
