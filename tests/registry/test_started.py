"""Published servers that are started and called through the entries that their `server.json` becomes.

The documents come from the recorded registry. A version that the index has lost is replaced. `mcp<2` is added
for servers that were written for the SDK before 2.0.
"""

import json
import shutil
from typing import Any

import pytest

from tests.inside.config import choices, entry, server_json
from tests.registry.test_conversion import REGISTRY
from toolbus import Toolbus

pytestmark = [pytest.mark.anyio, pytest.mark.full]
OLD = "mcp<2"
CODE = {"code": "console.log(1)", "languageId": "javascript"}
CALLS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "io.github.formulahendry/code-runner": ("0.1.8", "run-code", CODE),
    "io.github.yokingma/time-mcp": ("1.0.6", "current_time", {}),
    "io.github.karanb192/reddit-mcp-buddy": ("1.1.14", "reddit_explain", {"term": "karma"}),
    "io.github.dgahagan/weather-mcp": ("1.23.0", "check_service_status", {}),
    "io.github.vercel/next-devtools-mcp": ("0.4.0", "browser_eval", {}),
    "io.github.huoshuiai42/huoshui-fetch": ("0.1.2", "clean_html_tool", {"html": "<p>1</p>"}),
    "io.github.mgaruccio/openapi-navigator": ("0.6.0", "list_loaded_specs", {}),
    "io.github.aahl/mcp-aktools": ("0.1.15", "get_current_time", {}),
    "io.github.marshally/mcp-refactoring": (f"0.1.2 {OLD}", "list_refactorings", {}),
    "io.github.vandewilly/dice-roller": (f"0.1.0 {OLD}", "flip_coin", {}),
    "io.github.clouatre-labs/math-mcp-learning-server": ("0.10.3", "calculate", {"expression": "2+3"}),
    "io.github.tschoonj/repology-mcp-server": (f"0.1.1 {OLD}", "list_projects", {}),
}
"""The version, the tool and its arguments, by the name of the server."""


def converted(name: str, version: str) -> dict[str, Any]:
    """The entry of a server of the recorded registry."""
    servers = json.loads(REGISTRY.read_bytes())["servers"]
    document = next(one["server"] for one in servers if one["server"]["name"] == name)
    for package in document["packages"]:
        package["version"] = version.partition(" ")[0]
        if version.endswith(OLD):
            more = [{"value": "--with"}, {"value": OLD}]
            package["runtimeArguments"] = [*more, *package.get("runtimeArguments", [])]
    server = server_json(document)
    choice = next(one for one in choices(server) if one.kind in ("npm", "pypi"))
    return dict(entry(choice, {}, alias="one").config)


@pytest.mark.parametrize("name", CALLS)
async def test_a_server_of_the_registry_starts_and_answers_a_call(name: str) -> None:
    if not REGISTRY.is_file() or shutil.which("npx") is None:
        pytest.skip("needs the recorded registry (TOOLBUS_CORPUS), npx and uvx")
    version, tool, arguments = CALLS[name]

    async with Toolbus({"servers": {"one": converted(name, version)}, "timeouts": {"connect": 300}}) as bus:
        await bus.wait_ready(timeout=300)
        result = await bus.call(f"one/{tool}", arguments)

    assert not result.is_error, result.text
