"""The program around a gateway: its log, its cache of listings, and the runs of its console."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from toolbus.bus.toolbus import Toolbus
from toolbus.bus.view import View
from toolbus.config import BusConfig
from toolbus.config.settings.serve import Serve
from toolbus.core.operation.events import Event
from toolbus.core.operation.operation import Observer
from toolbus.core.values.records import Inventory

if TYPE_CHECKING:  # over stdio, nothing of the console is imported
    from toolbus.console.console import Console


class ServeReport(Protocol):
    """Reports what is served, and trouble with it."""

    def on_event(self, event: Event, user: str = "") -> None:
        """Report trouble of a server, and its end; `user` is the owner of the connection."""
        ...

    def add_line(self, who: str, what: str, style: str = "") -> None:
        """Report something else."""
        ...

    def serving(
        self, bus: View, serve: Serve, url: str | None, console: str | None, rest: str | None
    ) -> None:
        """Report what is served; `url` is None over stdio, `console` and `rest` if there is none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeProgram:
    """The program around a gateway: its log, its cache of listings, and the runs that its console shows."""

    report: ServeReport
    last_inventories: Callable[[BusConfig], Mapping[str, Inventory]]
    save_listings: Callable[[BusConfig, Toolbus], None]
    console_runs: Callable[["Console"], AbstractAsyncContextManager[None]]
    observers: Sequence[Observer] = ()
    """Follow the operations of the bus."""
