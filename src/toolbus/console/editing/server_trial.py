"""A trial of a server before it is saved: it is started, lists its tools, and is ended again."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from toolbus.bus.toolbus import Toolbus
from toolbus.config import BusConfig, ServerConfig
from toolbus.core.values.errors import LoginRequired, ToolbusError, problem_of
from toolbus.core.values.records import ToolSpec

TrialOutcome: TypeAlias = Literal["running", "done", "failed", "canceled"]


@dataclass(slots=True, kw_only=True)
class ServerTrial:
    """One trial and its outcome."""

    outcome: TrialOutcome = "running"
    began: float = field(default_factory=time.time)
    seconds: float = 0.0
    tools: tuple[ToolSpec, ...] = ()
    protocol: str = ""
    needs_sign_in: bool = False
    error: str = ""
    stderr: tuple[str, ...] = ()
    task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        return self.outcome == "running"

    async def run(
        self,
        running: BusConfig,
        server: ServerConfig,
        secrets: Mapping[str, str],
        changed: Callable[[], None],
    ) -> None:
        """Start the server alone, with secrets that are stored nowhere yet, and end it."""
        alias = server.alias
        # It is asked for by a person who has seen its launch line, as with `toolbus lock`.
        update = {"lazy": False, "required": False, "idle_timeout": None, "lock": "off"}
        alone = {
            "servers": {alias: server.model_copy(update=update)},
            "off": {},
            "disabled": (),
            "order": (),
            "context": (),
            "policy": (),
            "base": None,
            "lock": "off",
            "for_lock": True,
            "keeps_listings": False,
        }
        try:
            async with Toolbus(running.model_copy(update=alone), get_secret=secrets.get) as bus:
                status, error = bus.servers[alias], bus.failures.get(alias)
                self.tools, self.stderr = tuple(bus.catalog), bus.stderr(alias)
                self.protocol = f"{status.era} ({status.protocol})" if status.era else ""
                self.needs_sign_in = isinstance(error, LoginRequired)
                self.error = problem_of(error) if error else ""
                is_ready = status.state == "ready"
            self._end("done" if is_ready else "failed")
        except ToolbusError as error:
            self.error = str(error)
            self._end("failed")
        except asyncio.CancelledError:
            self._end("canceled")
            raise
        finally:
            changed()

    def _end(self, outcome: TrialOutcome) -> None:
        self.outcome, self.seconds = outcome, time.time() - self.began
