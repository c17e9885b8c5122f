"""A few tasks of BFCL with their results, for tests without the package: `python -m bench.proof.sample`.

The traces are data of BFCL v4 (Apache-2.0, https://github.com/ShishirPatil/gorilla), cut to the tools that
they use.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.proof.benchmarks import opened_bfcl
from bench.proof.bfcl import KINDS
from bench.proof.install import packages
from bench.proof.servers import Benchmark
from bench.proof.sides import bfcl_tools
from bench.proof.sides.recorded_tools import SAMPLE
from bench.proof.traces import GoldCall, Task, TaskTurn

SOURCE = "BFCL v4 multi-turn, from bfcl-eval 2026.3.23, Apache-2.0, https://github.com/ShishirPatil/gorilla"


def sample() -> Benchmark:
    """The recorded tasks, with servers that play them back."""
    stored = json.loads(SAMPLE.read_text())
    return Benchmark(
        name="sample",
        side="recorded_tools",
        python=Path(sys.executable),
        servers=list(stored["tools"]),
        tasks=[_task(one) for one in stored["tasks"]],
        environment={},
    )


def _task(stored: dict[str, Any]) -> Task:
    turns = [
        TaskTurn(
            text=turn["text"],
            calls=[
                GoldCall(server=one["server"], tool=one["tool"], arguments=one["arguments"])
                for one in turn["calls"]
            ],
            appearing=[(server, tool) for server, tool in turn["appearing"]],
        )
        for turn in stored["turns"]
    ]
    calls = [one for turn in stored["turns"] for one in turn["calls"]]
    servers = dict.fromkeys(one["server"] for one in calls)
    scenarios = {name: {"recorded": [one for one in calls if one["server"] == name]} for name in servers}
    return Task(id=stored["id"], kind=stored["kind"], turns=turns, scenarios=scenarios)


def record() -> None:
    """Write the sample: of each kind the shortest task with two servers and five calls or more."""
    benchmark = opened_bfcl()
    chosen = [min(_candidates(benchmark, kind), key=_size) for kind in KINDS]
    outcomes = benchmark.direct(chosen)
    tools: dict[str, list[Any]] = {}
    stored: list[dict[str, Any]] = []
    for task in chosen:
        results = iter(text for text, _ in outcomes[task.id].results)
        turns = [
            {
                "text": turn.text,
                "appearing": list(turn.appearing),
                "calls": [_stored(one, next(results)) for one in turn.calls],
            }
            for turn in task.turns
        ]
        stored.append({"id": task.id, "kind": task.kind, "turns": turns})
    used = {(call.server, call.tool) for task in chosen for call in task.calls}
    for server in sorted({server for server, _ in used}):
        listed = _definitions(server)
        tools[server] = [tool for tool in listed if (server, tool["name"]) in used]
    SAMPLE.write_text(json.dumps({"source": SOURCE, "tools": tools, "tasks": stored}, indent=1) + "\n")


def _stored(call: GoldCall, result: str) -> dict[str, Any]:
    return {"server": call.server, "tool": call.tool, "arguments": call.arguments, "result": result}


def _candidates(benchmark: Benchmark, kind: str) -> Iterator[Task]:
    for task in benchmark.tasks:
        used = {call.server for call in task.calls}
        late = set(task.late)
        called = {(call.server, call.tool) for call in task.calls}
        wanted = bool(late) and late <= called if kind == "miss_func" else True
        if task.kind == kind and len(used) > 1 and len(task.calls) > 4 and wanted:
            yield task


def _size(task: Task) -> int:
    return len(json.dumps([[turn.text, [call.source for call in turn.calls]] for turn in task.turns]))


def _definitions(server: str) -> list[dict[str, Any]]:
    sys.path.append(str(packages("bfcl")))
    return bfcl_tools.tools(server)


if __name__ == "__main__":
    record()
