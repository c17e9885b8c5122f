"""The inner side of a bus, a view and a tool, for the other parts of toolbus.

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
    from toolbus.connect.auth.credentials import ClientIdentity

calls_of: "Callable[[View], ViewCalls]" = attrgetter("_calls")
"""The calls of a view: finds its tools, and calls them for a model or a client."""
view_of: "Callable[[Tool], View]" = attrgetter("_view")
"""The view that a tool belongs to."""
client_of: "Callable[[Toolbus], Callable[..., View]]" = attrgetter("_client")
"""Makes the view of a client with a forwarded identity."""
renewal_of: "Callable[[View], Callable[[ClientIdentity], None]]" = attrgetter("_tenant.renew")
"""Takes the newest token of the client of a view."""
tenant_of: "Callable[[Toolbus], BusTenant]" = attrgetter("_bus")
"""The bus itself, as one of its tenants."""
