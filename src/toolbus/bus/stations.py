"""All that an operation passes, from a caller to a server and back, in order: the product on one page.

Before the path, a view finds the tool in its catalog, which the lock and the policy have already thinned out.
After it, a result for a model is cleaned and cut to its budget (`call/results.py`). A new capability is a new
station here, an observer or a guard.
"""

from collections.abc import Mapping
from typing import cast

from toolbus.bus.catalog.exposure import SEARCH, SEARCH_FUNCTIONS
from toolbus.bus.catalog.tool_search import ToolSearch
from toolbus.bus.engine.engine import Engine
from toolbus.bus.engine.servers import SUBSCRIBE, UNSUBSCRIBE
from toolbus.bus.engine.tenant import Tenant
from toolbus.call.arguments import ArgumentStation
from toolbus.call.path import (
    CallPath,
    EventObserver,
    GuardStation,
    HookStation,
    JournalStation,
    ObserverStation,
    PolicyStation,
    RouteStation,
    Stations,
)
from toolbus.call.routes import ServerRoutes
from toolbus.core.operation.operation import Operation, Route
from toolbus.core.values.records import ToolResult
from toolbus.policy.guard import PolicyGuard


def stations(engine: Engine, arguments: ArgumentStation, routes: Mapping[str, Route]) -> Stations:
    """The stations of a bus; a request of a server passes the observers, the guards and the policy."""
    enforcement, extensions, ours = engine.enforcement, engine.extensions, engine.stations
    return Stations(
        JournalStation(),  # a durable run: an operation that was made before returns what was recorded
        ObserverStation(
            [
                enforcement.telemetry,  # a span and a duration for each operation
                EventObserver(),  # the events of the bus, the user or the session
                *extensions.observers,
                *ours.observers,
                *enforcement.observers,  # the audit trail, and observers that were added later
            ]
        ),
        HookStation([*extensions.hooks, *ours.hooks]),  # of the program, then of the config
        arguments,  # repaired or described for the model, with the arguments of overrides filled in
        GuardStation([*extensions.guards, *ours.guards]),
        PolicyStation(_guard_of if enforcement.needed else None),  # allow, ask or deny; rates; decisions
        enforcement.quotas.lay,  # counts each call of a tool, and refuses what is too many
        RouteStation(routes),  # to a link, which waits for a lost server, checks the lock and counts time
        is_loaded=ours.is_loaded,
    )


def new_path(engine: Engine) -> CallPath:
    """The path of a bus, to be laid again when the policy or the observers change."""
    arguments = ArgumentStation(engine.root.servers.repairing)
    searches = ToolSearch()
    routes = {
        **ServerRoutes().table,
        SUBSCRIBE: _change_subscription,
        UNSUBSCRIBE: _change_subscription,
        "toolbus/read_result": engine.results.read,
        SEARCH: searches.run,
        SEARCH_FUNCTIONS: searches.run_for_scripts,
    }
    return CallPath(lambda: stations(engine, arguments, routes))


def _guard_of(operation: Operation) -> PolicyGuard:
    return cast("Tenant", operation.tenant).guard


async def _change_subscription(operation: Operation) -> ToolResult:
    return await cast("Tenant", operation.tenant).servers.change_subscription(operation)
