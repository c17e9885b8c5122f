"""Keep someone else's tool registry in step with the catalog."""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from toolbus.records import Origin
from toolbus.tool import Tool


class Registry(Protocol):
    """Anything tools can be added to; a `remove_tool(name)` is used where it has one."""

    def add_tool(self, tool: Any, /) -> object: ...


class Registration:
    """One registry, and the tools that were put into it."""

    def __init__(self, registry: Registry, only: Iterable[Origin] | None) -> None:
        self._registry = registry
        self._only = None if only is None else frozenset(only)
        self._there: dict[str, Tool] = {}

    def follow(self, tools: Iterable[Tool]) -> None:
        """Make the registry hold these tools; those that did not change are left alone."""
        wanted = {tool.name: tool for tool in tools if self._only is None or tool.origin in self._only}
        for name, tool in list(self._there.items()):
            if name not in wanted or wanted[name].spec != tool.spec:
                self._remove(name)
        for name, tool in wanted.items():
            if name not in self._there:
                self._registry.add_tool(tool)
                self._there[name] = tool

    def empty(self) -> None:
        """Take everything out again."""
        self.follow(())

    def _remove(self, name: str) -> None:
        del self._there[name]
        remove: Callable[[str], object] | None = getattr(self._registry, "remove_tool", None)
        if remove is not None:
            remove(name)
