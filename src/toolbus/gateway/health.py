"""Whether the gateway can serve requests, and the reason if it cannot."""

import time
from collections.abc import Container

from toolbus.bus.view import View
from toolbus.core.values.records import JSONObject


def readiness(
    bus: View, *, seen: Container[str] | None = None, draining: bool = False, starting: bool = False
) -> tuple[bool, JSONObject]:
    """Whether every required server and at least one server can be used, and the state of those `seen`.

    A lazy server counts as usable before its first call, because that call starts it.
    """
    config = bus.config.servers
    now = time.time()
    states = bus.servers
    servers: JSONObject = {}
    usable: set[str] = set()
    for alias, status in states.items():
        lazy = alias in config and config[alias].lazy
        if status.state == "ready" or (status.state == "idle" and lazy):
            usable.add(alias)
        if seen is not None and alias not in seen:
            continue
        servers[alias] = {
            "state": status.state,
            "reason": status.error,
            "seconds": round(max(0.0, now - status.since), 1),
            "restarts": status.restarts,
            "required": alias in config and config[alias].required,
        }
    missing = [
        alias for alias in states if alias not in usable and alias in config and config[alias].required
    ]
    if draining:
        reason = "the gateway is stopping"
    elif starting:
        reason = "not all workers have started"
    elif missing:
        named = [alias for alias in missing if seen is None or alias in seen]
        reason = f"required servers are not ready{': ' if named else ''}{', '.join(named)}"
    elif not usable:
        reason = "no server is ready"
    else:
        reason = None
    return reason is None, {"ready": reason is None, "reason": reason, "servers": servers}
