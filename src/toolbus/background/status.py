"""What the background bus says of itself."""

import os
import time
from typing import TYPE_CHECKING, Any

from toolbus.background.place import Place
from toolbus.background.shared_bus import SharedBus

if TYPE_CHECKING:
    from toolbus.background.connections import Connections
    from toolbus.bus.toolbus import Toolbus


class Status:
    """The facts that `toolbus status` shows."""

    def __init__(
        self,
        place: Place,
        shared: SharedBus,
        bus: "Toolbus",
        clients: "Connections",
        version: str,
        idle: float | None,
    ) -> None:
        self._place = place
        self._shared = shared
        self._bus = bus
        self._clients = clients
        self._version = version
        self._idle = idle
        self._since = time.time()
        self.calls = 0
        """How many calls have ended."""
        self.console: str | None = None
        """The URL of its console, without a token."""

    def facts(self) -> dict[str, Any]:
        """All of them, as JSON."""
        names = ("state", "era", "protocol", "tools", "restarts", "error")
        return {
            "pid": os.getpid(),
            "version": self._version,
            "since": round(self._since, 3),
            "config": str(self._place.config),
            "config_problem": self._shared.problem,
            "folder": str(self._shared.folder),
            "folder_exists": self._shared.folder.is_dir(),
            "idle": self._idle,
            "console": self.console,
            "log": str(self._place.log),
            "calls": self.calls,
            "commands": self._clients.commands,
            "servers": {
                alias: {name: getattr(status, name) for name in names}
                for alias, status in self._bus.servers.items()
            },
            "tools": len(self._bus.catalog),
            "held": len(self._bus.held),
            "disabled": list(self._shared.config.disabled),
        }
