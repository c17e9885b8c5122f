"""AgentDojo v1: user tasks with their gold calls, and injections with theirs, in four suites."""

from collections.abc import Sequence
from typing import Any

from bench.proof.traces import GoldCall, Task, TaskTurn

SIDE = "agentdojo_tools"
SUITES = ("workspace", "travel", "banking", "slack")
USER, INJECTION = "user", "injection"


def tasks(written: Sequence[dict[str, Any]]) -> list[Task]:
    """The tasks of all suites that make a call; `kind` tells user tasks from injections."""
    return [_task(one) for one in written if one["calls"]]


def _task(written: dict[str, Any]) -> Task:
    suite = written["suite"]
    calls = [GoldCall(server=suite, tool=one["tool"], arguments=one["arguments"]) for one in written["calls"]]
    return Task(
        id=f"{suite} {written['id']}",
        kind=INJECTION if written["id"].startswith(INJECTION) else USER,
        turns=[TaskTurn(text=written["text"], calls=calls)],
        scenarios={suite: {"task": written["id"]}},
    )
