"""The requests to the scripts of a config: a call runs the script, and nothing is sent over the link."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from toolbus.bus.rules.script_server import ScriptServer, script_server
from toolbus.config.script_tools.files import ScriptCode
from toolbus.connect.link import Link
from toolbus.connect.requests import LinkRequests
from toolbus.core.operation.operation import CallInFlight, Operation
from toolbus.core.values.errors import ToolNotFound
from toolbus.core.values.records import TaskState, ToolResult

RunScript: TypeAlias = Callable[[Operation, ScriptCode], Awaitable[ToolResult]]


def requests_to(link: Link, run_script: RunScript) -> LinkRequests:
    """The requests to the server of a link, or to the scripts that stand in its place."""
    scripts = script_server(link.config)
    return LinkRequests(link) if scripts is None else ScriptRequests(link, scripts, run_script)


class ScriptRequests(LinkRequests):
    """The requests to the server of the scripts."""

    def __init__(self, link: Link, scripts: ScriptServer, run: RunScript) -> None:
        super().__init__(link)
        self._scripts = scripts
        self._run = run

    async def call_tool(
        self, operation: Operation, in_flight: CallInFlight, *, repeatable: bool
    ) -> ToolResult | TaskState:
        """Run a script, once its definition was compared with the lock."""
        await self.connect()
        if self.check is not None:
            self.check(operation)
        name = operation.spec.origin.tool
        if (code := self._scripts.code(name)) is None:
            raise ToolNotFound(name, [one.name for one in self._scripts.codes])
        return await self._run(operation, code)
