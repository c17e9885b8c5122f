"""Agents that people use, with their own commands: each connects to the gateway, over stdio and HTTP.

One of the servers behind it never answers: an agent must not take that for a gateway that is down.
"""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.gateway.serving import gateway, stdio_command
from tests.interop.servers import INTEROP, NODE
from tests.patience import PATIENCE
from tests.processes import keeping

PLAIN = str(Path(__file__).parents[1] / "servers" / "plain.py")
SERVERS = {"plain": {"args": [PLAIN], "prefix": ""}, "never": {"args": [PLAIN, "never_answer"]}}


def program(name: str, script: str) -> list[str]:
    """The command of an agent; skips the test if it is not installed."""
    folder = INTEROP / name
    problem = folder / "problem.txt"
    if problem.is_file():
        pytest.skip(f"{name} could not be installed: {problem.read_text().strip()[-300:]}")
    if not (folder / ".installed").is_file():
        pytest.skip(f".interop has no {name}; run make .interop/.ready (needs node with npm)")
    return [NODE, str(folder / "node_modules" / script)]


@pytest.fixture(scope="module")
def fronts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[str]]]:
    """The fronts that an agent connects to: a command, and a URL."""
    folder = tmp_path_factory.mktemp("agents")
    config = folder / "toolbus.yaml"
    servers = {name: {**one, "command": warm.python()} for name, one in SERVERS.items()}
    config.write_text(json.dumps({"servers": servers, "serve": {"list_within": 5}}))
    with keeping(), ExitStack() as stack:
        yield {"pipe": stdio_command(config), "web": [stack.enter_context(gateway(config))]}


def ran(words: list[str], home: Path) -> str:
    """The output of a command, in a home of its own."""
    env = {"HOME": str(home), "PATH": f"{Path(NODE).parent}:/usr/bin:/bin", "NO_COLOR": "1"}
    done = subprocess.run(
        words, cwd=home, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr or done.stdout
    return done.stdout + done.stderr


def gemini(home: Path, fronts: dict[str, list[str]]) -> dict[str, str]:
    """The report of `gemini mcp list`, which connects and pings."""
    command = program("gemini", "@google/gemini-cli/bundle/gemini.js")
    settings = home / ".gemini"
    settings.mkdir()
    servers = {
        "pipe": {"command": fronts["pipe"][0], "args": fronts["pipe"][1:]},
        "web": {"httpUrl": fronts["web"][0]},
    }
    (settings / "settings.json").write_text(json.dumps({"mcpServers": servers}))
    (settings / "trustedFolders.json").write_text(json.dumps({str(home): "TRUST_FOLDER"}))
    return states(ran([*command, "mcp", "list"], home))


def claude(home: Path, fronts: dict[str, list[str]]) -> dict[str, str]:
    """The report of `claude mcp list`, which connects."""
    command = program("claude", "@anthropic-ai/claude-code/cli-wrapper.cjs")
    add = [*command, "mcp", "add", "--scope", "user"]
    ran([*add, "pipe", "--", *fronts["pipe"]], home)
    ran([*add, "--transport", "http", "web", fronts["web"][0]], home)
    return states(ran([*command, "mcp", "list"], home))


def states(said: str) -> dict[str, str]:
    """The last word about each server."""
    lines = [line.split(": ", 1) for line in said.splitlines() if ": " in line and " - " in line]
    return {name.split()[-1]: rest.rpartition(" - ")[2].strip("✔✓ ") for name, rest in lines}


def codex(home: Path, fronts: dict[str, list[str]]) -> dict[str, str]:
    """The report of Codex's app server; `codex mcp list` only shows the config."""
    command = program("codex", "@openai/codex/bin/codex.js")
    (home / ".codex").mkdir()
    pipe = f"command = {json.dumps(fronts['pipe'][0])}\nargs = {json.dumps(fronts['pipe'][1:])}"
    web = f"url = {json.dumps(fronts['web'][0])}"
    config = f"[mcp_servers.pipe]\n{pipe}\n[mcp_servers.web]\n{web}\n"
    (home / ".codex" / "config.toml").write_text(config)
    env = {"HOME": str(home), "PATH": f"{Path(NODE).parent}:/usr/bin:/bin"}
    process = subprocess.Popen(
        [*command, "app-server"],
        cwd=home,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        info = {"clientInfo": {"name": "test", "version": "1"}}
        asked(process, {"id": 1, "method": "initialize", "params": info})
        found = asked(process, {"id": 2, "method": "mcpServerStatus/list", "params": {}})
        process.terminate()
    return {one["name"]: ", ".join(one["tools"]) for one in found["data"]}


def asked(process: "subprocess.Popen[str]", message: dict[str, Any]) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(message) + "\n")
    process.stdin.flush()
    for line in process.stdout:
        answer = json.loads(line)
        if answer.get("id") == message["id"]:
            return answer["result"]
    raise AssertionError("the app server ended")


AGENTS: dict[Callable[[Path, dict[str, list[str]]], dict[str, str]], str] = {
    gemini: "Connected",
    claude: "Connected",
    codex: "echo",
}


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.__name__)
def test_an_agent_connects_over_stdio_and_http(
    agent: Callable[[Path, dict[str, list[str]]], dict[str, str]],
    fronts: dict[str, list[str]],
    tmp_path: Path,
) -> None:
    assert agent(tmp_path, fronts) == {"pipe": AGENTS[agent], "web": AGENTS[agent]}
