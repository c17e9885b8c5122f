"""Compare the CPU time of a gateway for calls over REST and over MCP: `python -m bench.rest`.

Rounds of both take turns, so that a busy machine changes the ratio little.
"""

import json
import os
import tempfile
from pathlib import Path
from statistics import median

import httpx2

from tests.gateway.front import modern_request
from tests.gateway.serving import gateway
from tests.warm import python

SERVER = Path(__file__).parents[1] / "tests" / "gateway" / "rest" / "desk.py"
CALLS, ROUNDS = 500, 8


def cpu_seconds(process: int) -> float:
    """The CPU time of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def process_at(port: int) -> int:
    """The process that listens at a port of this machine."""
    wanted = f":{port:04X} "
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines() if wanted in line]
    inode = next(fields[9] for fields in lines if fields[3] == "0A")
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if os.readlink(link) == f"socket:[{inode}]":
                return int(link.parts[2])
        except OSError:
            continue
    raise LookupError(port)


def main() -> None:
    """Print the CPU time of a call each way, and their ratio."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "toolbus.yaml"
        server = {"command": python(), "args": [str(SERVER)], "prefix": ""}
        config.write_text(json.dumps({"servers": {"work": server}, "serve": {"rest": True}}))
        with gateway(config) as url, httpx2.Client() as http:
            document = http.get(url.replace("/mcp", "/openapi.json")).json()
            print(*document["paths"])
            process = process_at(int(url.split(":")[2].split("/")[0]))
            body, headers = modern_request("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
            rest = url.replace("/mcp", "/tools/add")

            def spent(each: str) -> float:
                before = cpu_seconds(process)
                for _ in range(CALLS):
                    if each == "mcp":
                        got = http.post(url, content=body, headers=headers)
                    else:
                        got = http.post(rest, json={"a": 1, "b": 2})
                    assert got.status_code == 200, got.text
                return (cpu_seconds(process) - before) / CALLS

            for each in ("mcp", "rest"):
                spent(each)
            pairs = [(spent("mcp"), spent("rest")) for _ in range(ROUNDS)]
            mcp, over_rest = (median(each) * 1e6 for each in zip(*pairs, strict=True))
            ratio = median(rest / mcp for mcp, rest in pairs)
            print(f"MCP {mcp:.0f} µs, REST {over_rest:.0f} µs of CPU for a call; ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
