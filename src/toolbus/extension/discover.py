"""Connect one server at run time, and put its tools into a registry."""

from collections.abc import Callable
from typing import Any

from toolbus.bus.catalog.registry import Registry
from toolbus.bus.toolbus import Toolbus
from toolbus.config import load_server
from toolbus.core.values.records import ToolSpec


async def discover_and_register(
    bus: Toolbus,
    registry: Registry,
    server: Any,
    *,
    select: Callable[[ToolSpec], bool] | None = None,
    transform: Callable[[ToolSpec], ToolSpec | None] | None = None,
) -> None:
    """Connect a server, and register its tools until it is removed.

    The config may be in any dialect; the registry is any object with `add_tool`. `select` filters tools;
    `transform` changes one, or drops it by returning None. Raises `ToolbusError` if the server cannot be
    connected; it is not added to the bus then.
    """

    def transformed(spec: ToolSpec) -> ToolSpec | None:
        if select is not None and not select(spec):
            return None
        return spec if transform is None else transform(spec)

    alias = load_server(server).alias
    await bus.add_server(alias, server)
    try:
        if (failure := bus.failures.get(alias)) is not None:
            raise failure
        bus.register_into(registry, servers=alias, transform=transformed)
    except BaseException:
        await bus.remove_server(alias)
        raise
