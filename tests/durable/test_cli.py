"""`toolbus runs` and `toolbus runs worker`, as processes that share nothing but the store."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from traceback import format_exception
from typing import Any

import pytest

from tests import warm
from tests.cli import running
from tests.durable.stage import run_when, settings
from tests.inside.agent import WaitingCall
from tests.inside.cli import Hints, answer_text
from tests.inside.core import Answer, Pending
from tests.patience import PATIENCE
from tests.postgres import Server
from tests.wire import Provider
from tests.wire import ToolCall as WireCall
from toolbus.agent.durable import Durable, Runs, RunStoreError

pytestmark = pytest.mark.anyio
PROGRAM = '''
import os
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from toolbus.agent import Agent
from toolbus.agent.durable import Durable


def send(to: str) -> str:
    """Send a letter."""
    return f"sent to {to}"


def answer(messages, info):
    done = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    if len(done) == 2:
        return ModelResponse([TextPart(f"It said: {done[-1].content}")])
    to = ("Ann", "Bob")[len(done)]
    return ModelResponse([ToolCallPart("send", {"to": to}, tool_call_id=f"call_{to}")])


def agent():
    durable = Durable(store=os.environ.get("TOOLBUS_RUNS", "runs.db"), beat=0.2, poll=0.05)
    return Agent(FunctionModel(answer), tools=[send], approve="ask", durable=durable)


def broken():
    return {}["TOKEN"]


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


class Process:
    """A command that goes on, and what it has printed so far."""

    def __init__(self, folder: Path, *words: str, **env: str) -> None:
        self._file = folder / f"{'-'.join(words)}-{len(list(folder.iterdir()))}.txt"
        env = running.environment(folder.parent, **env)
        self.own = warm.start("toolbus", words, folder, env, self._file)

    @property
    def printed(self) -> str:
        return self._file.read_text()

    async def prints(self, text: str) -> None:
        """Wait until it has printed that."""
        async with asyncio.timeout(PATIENCE):
            while text not in self.printed:
                assert self.own.poll() is None, self.printed
                await asyncio.sleep(0.05)

    async def ends(self, number: int | None = None) -> int:
        """Send it a signal, if given, and wait for its exit code."""
        if number is not None:
            self.own.send_signal(number)
        return await asyncio.to_thread(self.own.wait, PATIENCE)


async def _waits_for(folder: Path, question: str, **env: str) -> None:
    opened = Runs(settings(folder, **({"store": env["TOOLBUS_RUNS"]} if env else {})))
    await run_when(opened, "letter", lambda info: info.question is not None and info.question.id == question)
    await opened.close()


async def test_a_run_is_started_executed_answered_and_watched_by_different_processes(tmp_path: Path) -> None:
    (tmp_path / "letters.py").write_text(PROGRAM)
    code, out, err = toolbus(tmp_path, "runs", "start", "Write to Ann.", "--key", "letter")
    assert (code, out) == (0, "letter\n")
    assert "no worker takes runs of 'agent' now; start one: toolbus runs worker" in err
    worker = Process(tmp_path, "runs", "worker", "letters:agent")
    try:
        await _waits_for(tmp_path, "q1")
        (listed,) = document(tmp_path, "runs")["runs"]
        assert (listed["id"], listed["status"], listed["question"]["id"]) == ("letter", "waiting", "q1")
        assert listed["has_worker"]
        code, out, err = toolbus(tmp_path, "runs", "show", "letter")
        assert code == 0
        assert """Call 'send' with {"to": "Ann"}?""" in out
        allow = ["runs", "resume", "letter", "--question", "q1", "answer=once"]
        assert err.endswith(f"run: toolbus {' '.join(allow)}\n"), "somebody takes its runs"
        code, out, err = toolbus(tmp_path, "runs", "resume", "letter")
        assert (code, out) == (2, ""), "there is no terminal to ask on"
        assert f"run: toolbus {' '.join(allow)}" in err
        assert document(tmp_path, *allow)["done"] == [
            """answered q1 (Call 'send' with {"to": "Ann"}?): once"""
        ]
        await _waits_for(tmp_path, "q2")
        code, out, err = toolbus(tmp_path, *allow)
        assert (code, out) == (1, "")
        assert err.startswith(
            "toolbus: run 'letter' does not wait for an answer to q1: it waits for an answer to q2;"
        )
        code, out, err = toolbus(tmp_path, "runs", "resume", "letter", "answer=once")
        assert (code, out) == (2, "")
        assert "run: toolbus runs resume letter --question q2 answer=once\n" in err
        assert """Call 'send' with {"to": "Bob"}?""" in err
        assert toolbus(tmp_path, "runs", "resume", "letter", "--question", "q2", "answer=no")[0] == 0
        code, out, _ = toolbus(tmp_path, "runs", "watch", "letter")
        assert code == 0
        assert out.splitlines()[-1].startswith("It said: The user did not allow this call.")
        code, out, err = toolbus(tmp_path, "runs", "start", "Again.", "--key", "letter", "--wait")
        assert out.startswith("It said: The user did not allow this call.")
        assert err.startswith("run 'letter' exists already and is done; the prompt was not used")
    finally:
        assert await worker.ends(signal.SIGTERM) == 0, worker.printed
    assert "takes runs of 'agent' from" in worker.printed
    assert worker.printed.endswith("calls in flight end; its runs wait for the next worker\n")
    assert document(tmp_path, "runs") == {"runs": [], "workers": 0, "worker_details": []}
    (ended,) = document(tmp_path, "runs", "--all")["runs"]
    assert ended["status"] == "done"


async def test_a_worker_reports_as_json_that_it_takes_runs(tmp_path: Path) -> None:
    (tmp_path / "letters.py").write_text(PROGRAM)
    worker = Process(tmp_path, "runs", "worker", "letters:agent", "--json")
    await worker.prints("}\n")
    ready = json.loads(worker.printed)
    assert ready["agent"] == "agent"
    assert ready["store"].endswith("runs.db")
    assert await worker.ends(signal.SIGTERM) == 0, worker.printed


async def test_workers_and_watchers_report_a_death_and_an_outage(
    tmp_path: Path, postgres_server: Server, postgres_url: str
) -> None:
    (tmp_path / "letters.py").write_text(PROGRAM)
    store = {"TOOLBUS_RUNS": postgres_url}
    assert toolbus(tmp_path, "runs", "start", "Write to Ann.", "--key", "letter", **store)[0] == 0
    first = Process(tmp_path, "runs", "worker", "letters:agent", **store)
    started = [first]
    try:
        await _waits_for(tmp_path, "q1", **store)
        await first.ends(signal.SIGKILL)
        assert not document(tmp_path, "runs", "show", "letter", **store)["has_worker"]
        _, out, err = toolbus(tmp_path, "runs", "show", "letter", **store)
        assert f"-{first.own.pid}-" in out
        assert ", which has ended\n" in out
        assert "no worker takes runs of 'agent' now" in err
        _, _, err = toolbus(tmp_path, "runs", "start", "Go.", "--key", "b", "--agent", "other", **store)
        assert "no worker takes runs of 'other' now; start one: toolbus runs worker MODULE:NAME" in err
        second, watcher = (
            Process(tmp_path, *words, **store)
            for words in (("runs", "worker", "letters:agent"), ("runs", "watch", "letter"))
        )
        started += [second, watcher]
        await second.prints("is dead; others take its runs over\n")
        await watcher.prints("run: toolbus runs resume letter --question q1 answer=once\n")
        await asyncio.to_thread(postgres_server.stop)
        try:
            await second.prints("; runs wait until it is back\n")
            await watcher.prints(" cannot be reached; waiting for it\n")
        finally:
            await asyncio.to_thread(postgres_server.start)
        await second.prints(" is back\n")
        await watcher.prints(" is back\n")
        for question in ("q1", "q2"):
            await _waits_for(tmp_path, question, **store)
            code, _, err = toolbus(
                tmp_path, "runs", "resume", "letter", "--question", question, "answer=once", **store
            )
            assert code == 0, err
        assert await watcher.ends() == 0
        assert watcher.printed.endswith("It said: sent to Bob\n")
        assert watcher.printed.count("? q1") == 1, "nothing is printed twice"
    finally:
        for process in started:
            if process.own.poll() is None:
                await process.ends(signal.SIGKILL)


async def test_without_a_program_a_worker_has_the_servers_of_the_config(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    running.write_config(folder, {"notes": {"command": warm.python(), "args": ["-m", "toolbus.demo.notes"]}})
    script = [[WireCall("notes_add", {"text": "tea"})], "Kept."]
    with Provider(script) as provider:
        env = running.environment(tmp_path, **provider.environment, TOOLBUS_RUNS=str(folder / "runs.db"))
        command = [warm.toolbus(), "runs", "worker", "--model", "openai-chat:gpt-5.1", "--approve", "never"]
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


def test_a_run_is_deleted_when_it_has_ended(tmp_path: Path) -> None:
    assert toolbus(tmp_path, "runs", "start", "Write to Ann.", "--key", "letter")[0] == 0
    code, out, err = toolbus(tmp_path, "runs", "delete", "letter")
    assert (code, out) == (1, "")
    assert "run 'letter' is queued; cancel it first: toolbus runs cancel letter" in err
    assert toolbus(tmp_path, "runs", "cancel", "letter")[:2] == (0, "cancelled letter\n")
    assert toolbus(tmp_path, "runs", "delete", "letter")[:2] == (0, "deleted letter\n")
    assert document(tmp_path, "runs", "--all")["runs"] == []


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["runs"], 2, "there is no store of runs at"),
        (["runs", "--store", "mysql://x"], 2, "--store must be a path or a postgresql:// URL, not mysql://"),
        (["runs", "--store", "new.db", "show", "a"], 1, "no run 'a' in"),
        (["runs", "--all", "show", "a"], 2, "--all is not an option of 'show'"),
        (["runs", "show", "a", "--store", "new.db"], 1, "no run 'a' in"),
        (["runs", "cancel", "a", "--store", "new.db"], 1, "no run 'a' in"),
        (["runs", "start", " "], 2, "the prompt is empty"),
        (["runs", "worker", "letters"], 2, "expected MODULE:NAME, such as orders:agent"),
        (
            ["runs", "worker", "letters:missing"],
            2,
            "letters:missing: module 'letters' has no attribute 'missing'",
        ),
        (["runs", "worker", "missing:agent"], 2, "missing:agent: No module named 'missing'"),
        (["runs", "worker", "letters:broken"], 1, "your program raised KeyError: 'TOKEN' ("),
        (["runs", "worker", "wrong:agent"], 1, "wrong:agent: your program raised ZeroDivisionError: "),
        (
            ["runs", "worker", "letters:agent", "--model", "x", "--store", "y"],
            2,
            "--model and --store: letters:agent",
        ),
        (
            ["runs", "worker", "letters:nothing"],
            2,
            "expected an Agent, or a function that returns one, not int",
        ),
    ],
)
def test_a_mistake_is_one_line_with_the_next_step(
    tmp_path: Path, words: list[str], code: int, message: str
) -> None:
    (tmp_path / "letters.py").write_text(PROGRAM)
    (tmp_path / "wrong.py").write_text("1 / 0")
    if "new.db" in words:
        asyncio.run(_create(tmp_path / "new.db"))
    done = toolbus(tmp_path, *words)
    assert (done[0], done[1]) == (code, "")
    assert message in done[2]
    assert len(done[2].splitlines()) == 1


def test_the_line_of_the_program_that_failed_is_named(tmp_path: Path) -> None:
    (tmp_path / "letters.py").write_text(PROGRAM)
    line = PROGRAM.splitlines().index('    return {}["TOKEN"]') + 1
    _, _, err = toolbus(tmp_path, "runs", "worker", "letters:broken")
    assert f"({tmp_path / 'letters.py'}, line {line})" in err


def test_the_extra_that_is_needed_is_named(tmp_path: Path) -> None:
    program = "import sys; sys.modules['pydantic_ai'] = None; from toolbus.cli.app import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "runs"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("toolbus: toolbus runs cannot be used: ")
    assert done.stderr.endswith('; pip install "toolbus[durable]"\n')


def test_who_only_looks_at_runs_does_not_wait_for_pydantic_ai() -> None:
    program = "import sys, toolbus.agent.durable; print('pydantic_ai' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "False\n"


async def test_the_error_of_a_store_has_no_chain_of_causes() -> None:
    runs = Runs(Durable(store="postgresql://localhost:1/none"))
    with pytest.raises(RunStoreError) as caught:
        await runs.recent()
    await runs.close()
    assert "psycopg" not in "".join(format_exception(caught.value))


def _asked(server: str, call: str | None, params: dict[str, Any]) -> WaitingCall:
    requests = {"a": {"method": "elicitation/create", "params": params}}
    return WaitingCall(
        id="q1", pending=Pending(server=server, tool="t", arguments={}, requests=requests, call=call)
    )


@pytest.mark.parametrize(
    ("properties", "call", "words"),
    [
        ({"day": {"type": "string"}, "note": {"type": "string"}}, None, "to answer, run: {} day=..."),
        ({}, None, "to answer, run: {} --accept"),
        (
            {"answer": {"type": "string", "enum": ["accept", "no"]}},
            "sha256:0",
            "to refuse the call, answer=no; to allow it, run: {} answer=accept",
        ),
    ],
)
def test_a_hint_is_the_whole_command(properties: dict[str, Any], call: str | None, words: str) -> None:
    schema = {"type": "object", "properties": properties, "required": [*properties][:1]}
    asked = _asked("inn", call, {"message": "When?", "requestedSchema": schema})
    hint = Hints("postgresql://me:secret@db/runs").answer("my run", asked)
    command = words.format("toolbus runs resume 'my run' --question q1")
    assert hint == f"{command} --store 'postgresql://me:***@db/runs'"


@pytest.mark.parametrize(
    ("answer", "is_approval", "text"),
    [
        (Answer(action="accept", content={"day": "Monday", "seats": 2}), False, "day=Monday seats=2"),
        (Answer(action="accept", content={"answer": "no"}), True, "no"),
        (Answer(action="decline", content=None), True, "decline"),
    ],
)
def test_what_was_answered_is_printed(answer: Answer, is_approval: bool, text: str) -> None:
    assert answer_text({"a": answer}, is_approval=is_approval) == text


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
