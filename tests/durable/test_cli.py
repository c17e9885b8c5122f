"""`toolbus runs` and `toolbus worker`, as processes that share nothing but the store."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli import running
from tests.durable.stage import PATIENCE, is_waiting, settings, until
from tests.wire import Provider
from tests.wire import ToolCall as WireCall
from toolbus.agent.durable import Runs

pytestmark = pytest.mark.anyio
PROGRAM = '''
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from toolbus.agent import Agent
from toolbus.agent.durable import Durable


def send(to: str) -> str:
    """Send a letter."""
    return f"sent to {to}"


def answer(messages, info):
    done = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    if done:
        return ModelResponse([TextPart(f"It said: {done[-1].content}")])
    return ModelResponse([ToolCallPart("send", {"to": "Ann"}, tool_call_id="call_1")])


def agent():
    durable = Durable(store="runs.db", beat=0.2, poll=0.05)
    return Agent(FunctionModel(answer), tools=[send], approve="ask", durable=durable)


nothing = 7
'''


def toolbus(folder: Path, *words: str, **env: str) -> tuple[int, str, str]:
    """The exit code of a command, and what it printed."""
    done = running.toolbus(*words, folder=folder, env=env)
    return done.returncode, done.stdout, done.stderr


def document(folder: Path, *words: str, **env: str) -> dict[str, Any]:
    """The document of a command that succeeds."""
    code, out, err = toolbus(folder, *words, "--json", **env)
    assert code == 0, err
    return json.loads(out)


async def test_a_run_is_started_executed_answered_and_watched_by_different_processes(tmp_path: Path) -> None:
    (tmp_path / "letters.py").write_text(PROGRAM)
    code, out, err = toolbus(tmp_path, "runs", "start", "Write to Ann.", "--key", "letter")
    assert (code, out) == (0, "letter\n")
    assert "start one: toolbus worker" in err
    worker = subprocess.Popen(  # noqa: ASYNC220  it starts at once
        [sys.executable, "-m", "toolbus", "worker", "letters:agent"], cwd=tmp_path, stderr=subprocess.PIPE
    )
    try:
        opened = Runs(settings(tmp_path))
        await until(opened, "letter", is_waiting)
        await opened.close()
        (listed,) = document(tmp_path, "runs")["runs"]
        assert (listed["id"], listed["status"], listed["question"]["id"]) == ("letter", "waiting", "q1")
        code, out, _ = toolbus(tmp_path, "runs", "show", "letter")
        assert code == 0
        assert """Call 'send' with {"to": "Ann"}?""" in out
        code, out, err = toolbus(tmp_path, "runs", "resume", "letter")
        assert (code, out) == (2, ""), "there is no terminal to ask on"
        assert "answer=once" in err
        assert document(tmp_path, "runs", "resume", "letter", "answer=once")["done"] == ["answered"]
        code, out, _ = toolbus(tmp_path, "runs", "watch", "letter")
        assert code == 0
        assert out.splitlines()[-1] == "It said: sent to Ann"
        assert document(tmp_path, "runs", "start", "Again.", "--key", "letter", "--wait")["output"] == (
            "It said: sent to Ann"
        )
    finally:
        worker.send_signal(signal.SIGTERM)
        _, said = await asyncio.to_thread(worker.communicate, timeout=PATIENCE)
    assert worker.returncode == 0, said
    assert b"takes runs of 'agent' from" in said
    assert document(tmp_path, "runs") == {"runs": [], "workers": 0}
    (ended,) = document(tmp_path, "runs", "--all")["runs"]
    assert ended["status"] == "done"


async def test_without_a_program_a_worker_has_the_servers_of_the_config(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    running.write_config(folder, {"notes": {"command": sys.executable, "args": ["-m", "toolbus.demo.notes"]}})
    script = [[WireCall("notes_add", {"text": "tea"})], "Kept."]
    with Provider(script) as provider:
        env = running.environment(tmp_path, **provider.environment, TOOLBUS_RUNS=str(folder / "runs.db"))
        command = [running.TOOLBUS, "worker", "--model", "openai-chat:gpt-5.1", "--approve", "never"]
        worker = subprocess.Popen(command, cwd=folder, env=env)  # noqa: ASYNC220  it starts at once
        try:
            opened = Runs(settings(folder))
            await opened.start("Remember tea.", key="k")
            ended = await asyncio.wait_for(opened.wait("k"), PATIENCE)
            steps = await opened.steps("k")
            await opened.close()
        finally:
            worker.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(worker.wait, PATIENCE) == 0
    assert (ended.status, ended.output) == ("done", "Kept.")
    assert [step.about for step in steps if step.name == "call"] == ["notes/add"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["runs"], 2, "there is no store of runs at"),
        (["runs", "--store", "mysql://x"], 2, "must be a path or a postgresql:// URL, not mysql://"),
        (["runs", "--store", "x.db", "show", "a"], 2, "--store comes after 'show'"),
        (["runs", "show", "a", "--store", "new.db"], 1, "no run 'a' in"),
        (["runs", "cancel", "a", "--store", "new.db"], 1, "no run 'a' in"),
        (["runs", "start", " "], 2, "the prompt is empty"),
        (["worker", "letters"], 2, "expected MODULE:NAME, such as orders:agent"),
        (["worker", "letters:missing"], 2, "letters:missing: module 'letters' has no attribute 'missing'"),
        (["worker", "letters:nothing"], 2, "expected an Agent, or a function that returns one, not int"),
    ],
)
def test_a_mistake_is_one_line_with_the_next_step(
    tmp_path: Path, words: list[str], code: int, message: str
) -> None:
    (tmp_path / "letters.py").write_text(PROGRAM)
    if "new.db" in words:
        asyncio.run(_create(tmp_path / "new.db"))
    done = toolbus(tmp_path, *words)
    assert (done[0], done[1]) == (code, "")
    assert message in done[2]
    assert len(done[2].splitlines()) == 1


async def _create(store: Path) -> None:
    runs = Runs(settings(store.parent, store=str(store)))
    await runs.start("Go.", key="other")
    await runs.close()


def test_the_environment_names_the_store(tmp_path: Path) -> None:
    there = {"TOOLBUS_RUNS": str(tmp_path / "there.db")}
    code, _, _ = toolbus(tmp_path, "runs", "start", "Go.", "--key", "a", "--agent", "other", **there)
    assert code == 0
    (run,) = document(tmp_path, "runs", **there)["runs"]
    assert (run["id"], run["agent"], run["status"]) == ("a", "other", "queued")
    assert document(tmp_path, "runs", "cancel", "a", **there) == {"cancelled": "a"}
    assert document(tmp_path, "runs", "resume", "a", **there)["done"] == ["continued"]
