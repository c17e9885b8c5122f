"""`toolbus store backup` and `restore`: runs go on in another database, in other processes."""

import json
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.conftest import sampled
from tests.durable.stage import is_waiting, run_when, settings
from tests.durable.test_cli import Process, document, toolbus
from tests.patience import until
from tests.postgres import Server
from toolbus.agent.durable import Runs

pytestmark = pytest.mark.anyio
PROGRAM = '''
import os
import time
from pathlib import Path
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from toolbus.agent import Agent
from toolbus.agent.durable import Durable

EFFECTS = Path(os.environ["EFFECTS"])


def send(to: str) -> str:
    """Send a letter."""
    with EFFECTS.open("a") as file:
        file.write(f"{to}\\n")
    while to == "slow":
        time.sleep(0.1)
    return f"sent to {to}"


def answer(messages, info):
    done = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    people = messages[0].parts[-1].content.split()
    if len(done) == len(people):
        return ModelResponse([TextPart(" | ".join(part.content for part in done))])
    to = people[len(done)]
    return ModelResponse([ToolCallPart("send", {"to": to}, tool_call_id=f"call_{to}")])


def agent():
    durable = Durable(store=os.environ["TOOLBUS_RUNS"], beat=0.2, poll=0.05, drain=0.1)
    return Agent(FunctionModel(answer), tools=[send], approve="RULE", durable=durable)
'''


WAYS = ["postgres to postgres", "sqlite to postgres", "postgres to sqlite", "sqlite to sqlite"]


@pytest.mark.parametrize("way", sampled(WAYS, WAYS[0]))
async def test_a_waiting_run_and_one_with_a_call_in_flight_go_on_from_a_backup(
    way: str, postgres_server: Server, tmp_path: Path
) -> None:
    (tmp_path / "asking.py").write_text(PROGRAM.replace("RULE", "ask"))
    (tmp_path / "calling.py").write_text(
        PROGRAM.replace("RULE", "never").replace("store=", "agent='fast', store=")
    )
    effects = tmp_path / "effects.txt"
    effects.touch()
    places = {
        name: postgres_server.database() if kind == "postgres" else str(tmp_path / f"{name}.db")
        for name, kind in zip(("old", "new"), way.split(" to "), strict=True)
    }
    old, new = ({"TOOLBUS_RUNS": place, "EFFECTS": str(effects)} for place in places.values())
    toolbus(tmp_path, "runs", "start", "ann bob", "--key", "letters", **old)
    toolbus(tmp_path, "runs", "start", "slow", "--key", "flight", "--agent", "fast", **old)
    workers = [Process(tmp_path, "runs", "worker", f"{name}:agent", **old) for name in ("asking", "calling")]
    runs = Runs(settings(tmp_path, store=places["old"]))
    try:
        await run_when(runs, "letters", is_waiting)
        assert toolbus(tmp_path, *answer_to("q1"), **old)[0] == 0
        await run_when(runs, "letters", lambda info: info.question is not None and info.question.id == "q2")
        await until(lambda: sorted(effects.read_text().split()) == ["ann", "slow"])
        saved = document(tmp_path, "store", "backup", "b.db", **old)
        assert saved["runs"]["runs"] == 2
    finally:
        await runs.close()
        for worker in workers:
            worker.own.kill()
            await worker.ends()
    code, out, err = toolbus(tmp_path, "store", "restore", "b.db", **new)
    assert (code, err) == (0, ""), err
    assert out.startswith("restored 2 runs: ")
    runs = Runs(settings(tmp_path, store=places["new"]))
    assert await runs.workers() == [], "the workers of the old database are not here"
    workers = [Process(tmp_path, "runs", "worker", f"{name}:agent", **new) for name in ("asking", "calling")]
    try:
        assert toolbus(tmp_path, *answer_to("q2"), **new)[0] == 0
        ended = [await run_when(runs, run, lambda info: not info.is_open) for run in ("letters", "flight")]
        events = [event async for event in runs.events("letters")]
    finally:
        await runs.close()
        for worker in workers:
            await worker.ends(signal.SIGTERM)
    assert ended[0].output == "sent to ann | sent to bob"
    assert str(ended[1].output).startswith("outcome unknown: ")
    assert sorted(effects.read_text().split()) == ["ann", "bob", "slow"], "nothing was repeated"
    assert [type(event).__name__ for event in events].count("ToolReturned") == 2, "with those before"


def answer_to(question: str) -> list[str]:
    return ["runs", "resume", "letters", "--question", question, "answer=once"]


async def test_runs_of_a_newer_schema_are_not_restored(tmp_path: Path) -> None:
    toolbus(tmp_path, "runs", "start", "ann", "--key", "letters")
    with closing(sqlite3.connect(tmp_path / "runs.db")) as store, store:
        store.execute("UPDATE dbos_migrations SET version = version + 1")
    assert toolbus(tmp_path, "store", "backup", "b.db")[0] == 0
    code, out, err = toolbus(tmp_path, "store", "restore", "b.db", "--runs", "new.db")
    assert (code, out) == (1, "")
    assert "a newer toolbus made this backup (version " in err
    assert err.endswith("; upgrade toolbus\n")
    assert document(tmp_path, "runs", "--all", "--store", "new.db")["runs"] == []


def test_a_mistake_is_one_line_with_the_next_step(tmp_path: Path) -> None:
    def fails(*words: str) -> tuple[int, str]:
        code, out, err = toolbus(tmp_path, "store", *words)
        assert out == ""
        return code, err

    nothing = "toolbus: there is nothing to save: the config has no store, and there are no runs; name them"
    assert fails("backup", "b.db") == (2, f"{nothing} with --runs\n")
    code, err = fails("backup", "b.db", "--runs", "no.db")
    assert (code, err.endswith("no.db'; name it with --runs or $TOOLBUS_RUNS\n")) == (2, True)
    mysql = "toolbus: --runs must be a path or a postgresql:// URL, not mysql://\n"
    assert fails("backup", "b.db", "--runs", "mysql://ann@db/runs") == (2, mysql)
    assert fails("restore", "b.db") == (
        2,
        "toolbus: there is no file 'b.db'; name one that 'toolbus store backup' has written\n",
    )
    toolbus(tmp_path, "runs", "start", "ann", "--key", "letters")
    assert toolbus(tmp_path, "store", "backup", "b.db")[0] == 0
    step = "choose another name, or overwrite it with --yes"
    assert fails("backup", "b.db") == (2, f"toolbus: 'b.db' exists; {step}\n")
    assert (
        json.loads(toolbus(tmp_path, "store", "backup", "b.db", "--force", "--json")[1])["runs"]["runs"] == 1
    )
    code, err = fails("restore", "b.db")
    assert (code, "runs.db: it is not empty (workflow_status has rows); restore into a new" in err) == (
        1,
        True,
    )


def test_runs_are_restored_into_a_folder_that_a_group_can_write(tmp_path: Path) -> None:
    toolbus(tmp_path, "runs", "start", "ann", "--key", "letters")
    tmp_path.chmod(0o775)  # as with umask 002; the file itself is private
    assert toolbus(tmp_path, "store", "backup", "b.db")[0] == 0
    code, _, err = toolbus(tmp_path, "store", "restore", "b.db", "--runs", "new.db")
    assert (code, err) == (0, "")
    assert (tmp_path / "new.db").stat().st_mode & 0o777 == 0o600
