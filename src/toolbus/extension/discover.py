"""One call for an engine that takes servers as it goes: connect one, and put its tools into a registry."""

from collections.abc import Callable
from typing import Any

from toolbus.bus.registry import Registry
from toolbus.bus.toolbus import Toolbus
from toolbus.config import load_server
from toolbus.core.records import ToolSpec


async def discover_and_register(
    bus: Toolbus,
    registry: Registry,
    server: Any,
    *,
    select: Callable[[ToolSpec], bool] | None = None,
    transform: Callable[[ToolSpec], ToolSpec | None] | None = None,
) -> None:
    """Connect a server, in any dialect, and keep its tools in anything with `add_tool` until it is removed.

    `select` says which are wanted; `transform` changes one, or drops it by returning None. Raises
    `ToolbusError` when there is no connection to be had; then the server is not on the bus.
    """

    def chosen(spec: ToolSpec) -> ToolSpec | None:
        if select is not None and not select(spec):
            return None
        return spec if transform is None else transform(spec)

    alias = load_server(server).alias
    await bus.add_server(alias, server)
    try:
        if (failure := bus.failures.get(alias)) is not None:
            raise failure
        bus.register_into(registry, servers=alias, transform=chosen)
    except BaseException:
        await bus.remove_server(alias)
        raise
