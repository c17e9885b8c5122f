"""Stage 4, what a model should see: pure functions from lists of tools to lists of tools."""

from toolbus.shape.naming import may_name, named, spelt
from toolbus.shape.pipeline import Shaper, shaped
from toolbus.shape.select import selected, unmatched

__all__ = ["Shaper", "may_name", "named", "selected", "shaped", "spelt", "unmatched"]
