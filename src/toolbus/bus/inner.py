"""What the parts of toolbus use of a bus, a view or a tool in addition to the public methods.

None of these is a Python function, because every call of the gateway and of an adapter is here.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # commands import this before they need a bus
    from toolbus.bus.calls import ViewCalls
    from toolbus.bus.catalog.tool import Tool
    from toolbus.bus.engine.tenants import BusTenant
    from toolbus.bus.toolbus import Toolbus
    from toolbus.bus.view import View

calls_of: "Callable[[View], ViewCalls]" = attrgetter("_calls")
"""How the tools of a view are found and called for a model or a client."""
view_of: "Callable[[Tool], View]" = attrgetter("_view")
"""The view that a tool belongs to."""
tenant_of: "Callable[[Toolbus], BusTenant]" = attrgetter("_bus")
"""The bus itself, as one of its tenants."""
