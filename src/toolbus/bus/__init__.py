"""The bus: every server of a config, one catalog, one way to call."""

from toolbus.bus.catalog.tool import Tool
from toolbus.bus.toolbus import Toolbus

__all__ = ["Tool", "Toolbus"]
