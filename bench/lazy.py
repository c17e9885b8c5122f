"""Thirteen servers with 181 tools: how long an editor waits for its tools, and what these cost in tokens.

    python -m bench.lazy

Each server is a process that imports the SDK, with definitions of real servers. `toolbus serve --stdio` is
started three times: cold, when nothing is known; known, when the last listing is; lazy, with `lazy: true`.
"""

import json
import os
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from toolbus.config import usable_config
from toolbus.sync import SyncToolbus

SERVERS, TOOLS = 13, 181
DEFINITIONS = Path(__file__).parents[1] / "tests" / "interop" / "definitions.json"
TOOLBUS = str(Path(sys.executable).with_name("toolbus"))
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}
PROGRAM = """
import json, sys, time
import mcp.server.mcpserver  # as a server that is written with the SDK
file = sys.argv[1]
open(file + ".started", "a").write("x")
tools = json.load(open(file))
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer = {"error": {"code": -32601, "message": "Method not found"}}
    if message["method"] == "initialize":
        found = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
        answer = {"result": {**found, "serverInfo": {"name": "bench", "version": "1"}}}
    elif message["method"] == "tools/list":
        answer = {"result": {"tools": tools}}
    elif message["method"] == "tools/call":
        answer = {"result": {"content": [{"type": "text", "text": "done"}]}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""


@contextmanager
def stock() -> Generator[tuple[Path, Mapping[str, str]]]:
    """A folder with the servers, and an environment whose state is empty."""
    with TemporaryDirectory(prefix="bench-") as made:
        root = Path(made)
        (root / "program.py").write_text(PROGRAM)
        known: dict[str, dict[str, Any]] = {one["name"]: one for one in json.loads(DEFINITIONS.read_text())}
        rounds = ((name, turn) for turn in count(1) for name in known)
        every = [{**known[name], "name": f"{name}_{turn}"} for name, turn in islice(rounds, TOOLS)]
        for number in range(SERVERS):
            own = [
                {key: value for key, value in one.items() if key != "server"}
                for one in every[number::SERVERS]
            ]
            (root / f"s{number}.json").write_text(json.dumps(own))
        yield root, {**os.environ, "XDG_STATE_HOME": str(root / "state"), "HOME": str(root)}


def write_config(root: Path, *, lazy: bool) -> Path:
    """The config of all servers."""
    servers = {
        f"s{number}": {
            "command": sys.executable,
            "args": ["-P", str(root / "program.py"), str(root / f"s{number}.json")],
            "lazy": lazy,
        }
        for number in range(SERVERS)
    }
    file = root / "toolbus.json"
    file.write_text(json.dumps({"servers": servers}))
    return file


def started(root: Path) -> int:
    """The number of server processes started since the last time."""
    files = list(root.glob("*.started"))
    total = sum(len(file.read_text()) for file in files)
    for file in files:
        file.unlink()
    return total


def listing_seconds(config: Path, env: Mapping[str, str]) -> tuple[float, float]:
    """Seconds from the start of the gateway to all tools, and to the result of a first call."""
    began = perf_counter()
    words = [TOOLBUS, "serve", "--stdio", "--config", str(config)]
    pipes: dict[str, Any] = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.DEVNULL,
    }
    with subprocess.Popen(words, env=env, text=True, **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def request(number: int, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
            assert process.stdin is not None
            assert process.stdout is not None
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()
            for line in process.stdout:
                if (answer := json.loads(line)).get("id") == number:
                    return answer["result"]
            raise AssertionError("the gateway ended")

        request(1, "initialize", HELLO)
        process.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        tools: list[dict[str, Any]] = []
        number = 2
        while len(tools) < TOOLS:  # the gateway answers with what it has after a few seconds
            tools = request(number, "tools/list", {})["tools"]
            number += 1
        listed = perf_counter() - began
        name = next(one["name"] for one in tools if not one["inputSchema"].get("required"))
        assert "isError" not in request(number, "tools/call", {"name": name, "arguments": {}})
        called = perf_counter() - began
        process.stdin.close()
        process.stdout.read()
    return listed, called


def tokens(config: Path) -> tuple[int, int]:
    """The cost of all definitions in every request of a model, and the cost of `expose: search`."""
    from toolbus.bus.catalog.exposure import Exposure
    from toolbus.shape.cost import definition_tokens

    with SyncToolbus(usable_config(str(config))) as bus:
        bus.wait_ready()
        catalog = bus.catalog
    shown = [catalog, Exposure(mode="search").shown(catalog)]
    whole, few = (sum(definition_tokens(spec)["anthropic"] for spec in each) for each in shown)
    return whole, few


def main() -> None:
    """Print one line per start, and the tokens."""
    with stock() as (root, env):
        config = write_config(root, lazy=False)
        print(f"{SERVERS} servers, {TOOLS} tools; seconds from the start of toolbus serve --stdio\n")
        print("start   tools listed   first call   server processes")
        for name, lazy in (("cold", False), ("known", False), ("lazy", True)):
            write_config(root, lazy=lazy)
            listed, called = listing_seconds(config, env)
            print(f"{name:5}   {listed:12.2f}   {called:10.2f}   {started(root):16}", flush=True)
        whole, few = tokens(config)
        print(f"\ntokens of all definitions: {whole:,}; with expose: search: {few:,}")


if __name__ == "__main__":
    main()
