"""Clients that others wrote, over stdio and HTTP, in both eras: each gets all that is behind the gateway."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.conftest import sampled
from tests.gateway.everything_tools import TOOLS
from tests.gateway.serving import LEGACY_PYTHON, behind, gateway, stdio_command, written_config
from tests.interop.servers import INTEROP, NODE, require_installed
from tests.patience import PATIENCE
from tests.processes import keeping

require_installed("clients", "legacy")

CLIENTS = Path(__file__).parent / "clients"
MODULES = INTEROP / "clients" / "node_modules"
INSPECTOR = MODULES / "@modelcontextprotocol" / "inspector" / "clients" / "launcher" / "build" / "index.js"
LEGACY, MODERN = "2025-11-25", "2026-07-28"

PROGRAMS = {
    "mcp 2": lambda: [warm.python(), str(CLIENTS / "python_sdk.py")],
    "mcp 1": lambda: [str(LEGACY_PYTHON), str(CLIENTS / "legacy_python_sdk.py")],
    "fastmcp": lambda: [warm.python(), str(CLIENTS / "fastmcp_client.py")],
    "@modelcontextprotocol/client": lambda: [NODE, str(CLIENTS / "typescript_sdk.mjs")],
    "@modelcontextprotocol/sdk": lambda: [NODE, str(CLIENTS / "legacy_typescript_sdk.mjs")],
}
CELLS = [
    (program, era, front, back)
    for program in PROGRAMS
    for era in ("modern", "legacy")
    for front in ("http", "stdio")
    for back in ("modern-http", "legacy-stdio")
    if era == "legacy" or program not in ("mcp 1", "@modelcontextprotocol/sdk")
]
KEPT = (
    ("mcp 2", "modern", "http", "legacy-stdio"),
    ("mcp 1", "legacy", "stdio", "modern-http"),
    ("fastmcp", "legacy", "http", "legacy-stdio"),
    ("@modelcontextprotocol/client", "modern", "stdio", "modern-http"),
    ("@modelcontextprotocol/sdk", "legacy", "http", "modern-http"),
)


class Places:
    """Gateways over both everything servers, each started when it is first needed."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._configs: dict[str, Path] = {}
        self._urls: dict[str, str] = {}

    def target(self, front: str, back: str) -> list[str]:
        """The target that a client connects to: a URL, or a command."""
        with keeping():
            if back not in self._configs:
                folder = self._folder / back
                folder.mkdir()
                server = self._stack.enter_context(behind(back, folder))
                self._configs[back] = written_config(folder, {"everything": server})
            if front == "stdio":
                return stdio_command(self._configs[back])
            if back not in self._urls:
                self._urls[back] = self._stack.enter_context(gateway(self._configs[back]))
        return [self._urls[back]]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    with ExitStack() as stack:
        yield Places(tmp_path_factory.mktemp("places"), stack)


def printed(*words: str, folder: Path) -> Any:
    """The JSON output of a program."""
    env = {"NODE_MODULES": str(MODULES), "HOME": str(folder), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False, env=env)
    assert done.returncode == 0, done.stderr or done.stdout
    return json.loads(done.stdout.splitlines()[-1])


def expected(era: str) -> dict[str, Any]:
    """The output of every program."""
    answer = '{"username": "ada", "email": "ada@example.org"}'
    return {
        "version": LEGACY if era == "legacy" else MODERN,
        "tools": sorted(tool["name"] for tool, _ in TOOLS),
        "call": "This is a simple text response for testing.",
        "progress": [0, 50, 100],
        "resource": "This is the content of the static text resource.",
        "prompt": "Prompt with arguments: arg1='x', arg2='y'",
        "elicitation": f"User response: action=accept, content={answer}",
        "sampling": "LLM response: Indeed.",
    }


@pytest.mark.parametrize("cell", sampled(CELLS, *KEPT), ids="-".join)
def test_a_client_gets_everything_through_the_gateway(
    cell: tuple[str, str, str, str], places: Places, tmp_path: Path
) -> None:
    program, era, front, back = cell
    target = places.target(front, back)
    assert printed(*PROGRAMS[program](), era, *target, folder=tmp_path) == expected(era)


INSPECTED = {
    "tools/call": (("--tool-name", "test_simple_text"), "This is a simple text response for testing."),
    "resources/read": (
        ("--uri", "test://static-text"),
        "This is the content of the static text resource.",
    ),
    "prompts/get": (
        ("--prompt-name", "test_prompt_with_arguments", "--prompt-args", "arg1=x", "arg2=y"),
        "Prompt with arguments: arg1='x', arg2='y'",
    ),
}


EYES = [(era, front) for era in ("modern", "legacy") for front in ("http", "stdio")]


@pytest.mark.parametrize("cell", sampled(EYES, ("modern", "stdio")), ids="-".join)
def test_the_inspector_shows_what_is_behind_the_gateway(
    cell: tuple[str, str], places: Places, tmp_path: Path
) -> None:
    era, front = cell
    target = places.target(front, "modern-http")
    if front == "stdio":  # in a file, or the Inspector would take options of the command for its own
        entry = {"command": target[0], "args": target[1:]}
        (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"toolbus": entry}}))
        target = ["--config", str(tmp_path / "mcp.json"), "--server", "toolbus"]
    words = [NODE, str(INSPECTOR), "--cli", "--format", "json", "-q", *target, "--protocol-era", era]
    listed = printed(*words, "--method", "tools/list", folder=tmp_path)
    assert {tool["name"]: tool for tool in listed["result"]["tools"]} == {
        tool["name"]: tool for tool, _ in TOOLS
    }
    for method, (more, text) in INSPECTED.items():
        result = printed(*words, "--method", method, *more, folder=tmp_path)["result"]
        found = result.get("content") or result.get("contents") or [result["messages"][0]["content"]]
        assert found[0]["text"] == text
