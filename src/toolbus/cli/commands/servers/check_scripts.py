"""Problems of the scripts of a config that are tools, for `toolbus check`."""

from toolbus.bus.engine.tenant import Tenant
from toolbus.bus.script_tools import examine
from toolbus.cli.commands.servers.check_servers import ToolProblem
from toolbus.config import BusConfig
from toolbus.config.script_tools.files import script_codes


async def script_problems(bus: Tenant, config: BusConfig) -> list[ToolProblem]:
    """An error for each script that cannot be read, or must fail."""
    codes, mistakes = script_codes(config)
    found = [
        ToolProblem(severity="error", message=f"{name}: {error.problem}", fix="fix its entry under tools")
        for name, error in mistakes.items()
    ]
    for name, code in codes.items():
        problem, _ = await examine(bus, code)
        if problem is not None:
            lines = problem.splitlines()[1:] or [problem]  # without the heading
            message = f"{name}: {'; '.join(lines)}"
            found.append(ToolProblem(severity="error", message=message, fix=f"fix {code.entry.script}"))
    return found
