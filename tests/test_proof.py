"""The gold calls of a benchmark arrive on every path as they were made."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.proof.__main__ import PARTS
from bench.proof.context import MODES, added, conversation
from bench.proof.install import is_installed
from bench.proof.pages import FOLDER, with_report
from bench.proof.parts import table
from bench.proof.paths import PATHS, config, replay
from bench.proof.paths import script as lines_of
from bench.proof.policy import FOLDER as POLICY_FOLDER
from bench.proof.policy import POLICIES
from bench.proof.runs.part import fit
from bench.proof.runs.part import replayed as killed
from bench.proof.sample import sample
from bench.proof.servers import controls
from bench.proof.traces import GoldCall, TaskOutcome
from bench.sides import ROOT
from toolbus import Toolbus
from toolbus.config import load_config

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("path", PATHS)
async def test_the_recorded_gold_calls_are_the_same_on_every_path(path: str) -> None:
    benchmark = sample()
    expected = benchmark.direct(benchmark.tasks)
    outcome = await replay(path, benchmark, benchmark.tasks, expected)
    assert outcome.different == {}
    assert (outcome.equal, outcome.calls) == (4, sum(len(task.calls) for task in benchmark.tasks))


def test_the_sample_has_a_tool_that_appears_in_the_middle_of_a_task() -> None:
    assert [task.kind for task in sample().tasks if list(task.late)] == ["miss_func"]


async def test_a_call_that_is_lost_or_changed_is_a_difference() -> None:
    benchmark = sample()
    task = benchmark.tasks[0]
    expected = benchmark.direct([task])
    without = replace(task, turns=[replace(turn, calls=turn.calls[1:]) for turn in task.turns])
    changed = replace(
        task, turns=[replace(turn, calls=[_wrong(one) for one in turn.calls]) for turn in task.turns]
    )
    for other in (without, changed):
        outcome = await replay("library", benchmark, [other], expected)
        assert list(outcome.different) == [task.id]


def _wrong(call: GoldCall) -> GoldCall:
    return replace(call, arguments={**call.arguments, **dict.fromkeys(call.arguments, "wrong")})


async def test_a_durable_run_whose_worker_is_killed_makes_the_same_calls() -> None:
    benchmark = sample()
    tasks = fit(benchmark)[:1]
    outcome, kills = await killed(benchmark, tasks, benchmark.direct(tasks))
    assert outcome.different == {}
    assert (outcome.equal, kills) == (1, 1)


async def test_a_call_that_breaks_its_schema_is_refused_and_not_sent() -> None:
    benchmark = sample()
    task = benchmark.tasks[0]
    last = task.turns[-1]
    unfit = GoldCall(server="messages", tool="delete_message", arguments={"receiver_id": {}}, fits=False)
    changed = replace(task, turns=[*task.turns[:-1], replace(last, calls=[*last.calls, unfit])])
    outcome = await replay("library", benchmark, [changed], benchmark.direct([changed]))
    assert (outcome.refused, outcome.equal, outcome.different) == (1, 0, {})


def test_a_state_that_differs_is_a_difference() -> None:
    one = TaskOutcome(results=[("[1, 2]", False)], states={"files": "a"})
    assert one.difference(replace(one, results=[("[1,2]", False)])) == ""
    assert one.difference(replace(one, states={"files": "b"})) == "the final state"
    assert one.difference(replace(one, results=[])) == "0 results instead of 1"
    assert (
        one.difference(replace(one, results=[("[1, 2]", True)])) == "the result of call 0: ('[1, 2]', True)"
    )


def test_a_turn_is_one_script() -> None:
    call = GoldCall(server="files", tool="cd", arguments={"folder": "it's"})
    assert lines_of([call]).splitlines() == [
        "results = []",
        "try:",
        '    results.append([await files_cd(folder="it\'s"), False])',
        "except RuntimeError as error:",
        "    results.append([str(error), True])",
        "results",
    ]


def test_a_quick_run_prints_one_document() -> None:
    if not is_installed("bfcl"):
        pytest.skip("`make proof` has not installed BFCL here")
    command = [sys.executable, "-m", "bench.proof", "--quick", "--json", "--only", "gold-calls"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    document: Mapping[str, Any] = json.loads(done.stdout)
    paths = document["gold-calls"]["benchmarks"]["BFCL v4 multi-turn"]
    assert [path["different"] for path in paths.values()] == [{}] * len(PATHS)


async def test_each_mode_makes_the_requests_that_its_calls_need(tmp_path: Path) -> None:
    benchmark = sample()
    task = benchmark.tasks[0]
    expected = benchmark.direct([task])[task.id]
    requests: dict[str, int] = {}
    async with controls(tmp_path) as held, Toolbus(config(benchmark, held)) as bus:
        for mode in MODES:
            _, events = await conversation(bus, mode, None, task, expected)
            requests[mode] = sum(event is None for event in events)
    busy = sum(bool(turn.calls) for turn in task.turns)
    assert requests["all"] == len(task.calls) + len(task.turns)
    assert requests["search"] > requests["all"]
    assert len(task.turns) + busy < requests["code"] < requests["search"]


def test_each_request_sends_the_definitions_and_all_that_was_said_before() -> None:
    whole, definitions = added(lambda text: [len(text)] * 2, "tools", ["hello", None, "call", "result", None])
    assert definitions == [10, 10]
    assert whole == [10 + 5 + 15] * 2


@pytest.mark.parametrize("part", PARTS)
def test_the_page_of_a_part_has_a_place_for_its_report(part: str) -> None:
    page = (FOLDER / f"{PARTS[part].page}.md").read_text()
    assert "\n```text\nfigures\n```\n" in with_report(page, part, "figures")


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_of_the_proof_is_a_valid_config(name: str, tmp_path: Path) -> None:
    rules = (POLICY_FOLDER / f"{name}.yaml").read_text()
    (tmp_path / "toolbus.yaml").write_text(rules + "\nservers: {slack: {command: slack}}\n")
    assert len(load_config(tmp_path / "toolbus.yaml").policy) >= 2


def test_a_table_has_its_figures_at_the_right() -> None:
    assert table(["path", "n"], [["a", "10"]]) == "path   n\na     10"
