"""The plug-in of `llm`: `llm -T Toolbus "..."`, or `llm -T 'Toolbus("toolbus.yaml")' "..."`.

Every `llm` command imports this file, so the rest of toolbus is imported when the toolbox is used.
"""

import atexit
import json
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal

try:
    import click
    import llm
except ImportError as error:
    from toolbus.core.values.errors import ExtraMissing

    raise ExtraMissing("toolbus.adapters.llm_plugin", "llm", str(error)) from error

__all__ = ["Toolbus"]

if TYPE_CHECKING:
    from llm.models import ToolDef

    from toolbus.adapters.tool_list import ToolList
    from toolbus.config.settings.expose import ExposeMode
    from toolbus.core.ask.approval import ApprovalRequest


class Toolbus(llm.Toolbox):
    """The tools of the MCP servers in a toolbus config; without a file, in the one that toolbus finds."""

    def __init__(
        self,
        config: str | None = None,
        servers: list[str] | str | None = None,
        expose: Literal["all", "search", "code", "auto"] | None = None,
        images: bool = True,
        profile: str | None = None,
    ) -> None:
        self._servers = servers
        self._images = images
        self._expose: ExposeMode | None = expose
        self._file = config
        self._profile = profile
        self._tools: ToolList[ToolDef] | None = None

    def tools(self) -> Iterable[llm.Tool]:
        """The current tools; the first time, connects to the servers, until the process ends."""
        if self._tools is None:
            self._tools = self._connect()
        else:
            self._tools.refresh()
        return [tool for tool in self._tools if isinstance(tool, llm.Tool)]

    def _connect(self) -> "ToolList[ToolDef]":
        from toolbus.adapters.llm import tools
        from toolbus.bus.sync import SyncToolbus

        bus = SyncToolbus(self._file, profile=self._profile)
        bus.start()
        atexit.register(bus.stop)
        view = bus.view(servers=self._servers, expose=self._expose)
        for error in view.failures.values():
            click.echo(f"toolbus: {error}", err=True)
        return tools(view, images=self._images, ask=_ask if sys.stdin.isatty() else None)


def _ask(request: "ApprovalRequest") -> bool:
    """Ask in the terminal about a call that the policy does not allow by itself."""
    reason = f": {request.reason}" if request.reason else ""
    click.echo(f"{request.rule} asks{reason}", err=True)
    return click.confirm(f"Call {request.name} with {json.dumps(dict(request.arguments))}?", err=True)


@llm.hookimpl
def register_tools(register: Callable[[type[llm.Toolbox]], None]) -> None:
    """Add `-T Toolbus`."""
    register(Toolbus)
