"""Resources in the context of an agent."""

from toolbus.bus.context import ContextProvider

__all__ = ["ContextProvider"]
