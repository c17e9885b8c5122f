"""A store that cannot be reached, a full disk, a clock that is set back, another version: nothing is lost."""

import asyncio
import base64
import logging
import pickle
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError

from tests.durable.stage import Ledger, ended, run_when, settings
from tests.inside.agent import JOURNAL_VERSION, RunStore, Worker
from tests.patience import PATIENCE, until
from tests.postgres import Server
from tests.servers.asking import TASK_STORE, asking
from toolbus.agent import Agent
from toolbus.agent.durable import RunNotFound, Runs, RunStoreError, repeatable, runs
from toolbus.testing import ScriptedModel, ToolCall, Turn

pytestmark = pytest.mark.anyio


async def test_a_run_waits_for_a_store_that_cannot_be_reached(
    postgres_server: Server, postgres_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, full: bool
) -> None:
    ledger = Ledger()
    calls = [ToolCall("ledger_hold", {"line": "a"}), ToolCall("ledger_write", {"line": "b"})]
    model = ScriptedModel([calls, lambda results: " ".join(results)])
    servers = {"ledger": {"server": ledger.server()}}
    own = settings(tmp_path, store=postgres_url)
    async with Agent(model, mcp_servers=servers, durable=own) as agent:
        run = agent.start("Go.", key="k")
        async with asyncio.timeout(PATIENCE):
            await ledger.reached.wait()
        await asyncio.to_thread(postgres_server.stop)
        try:
            ledger.may_end.set()  # the call ends, and its result cannot be recorded yet
            elsewhere = Runs(own)
            with pytest.raises(RunStoreError):
                await elsewhere.get("k")
            await elsewhere.close()
            await asyncio.sleep(10 if full else 2)
        finally:
            await asyncio.to_thread(postgres_server.start)
        assert await ended(run) == "held a wrote b"
        assert (await agent.runs.get("k")).attempts == 1
    assert ledger.lines == ["a", "b"]
    warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert any("runs wait until it is back" in message for message in warnings)


async def test_nobody_waits_for_a_store_that_is_closed_while_it_hangs(
    postgres_server: Server, postgres_url: str, tmp_path: Path
) -> None:
    reading = Runs(settings(tmp_path, store=postgres_url))
    await reading.start("Go.", key="k")
    await asyncio.to_thread(postgres_server.freeze)
    try:
        asked = asyncio.create_task(reading.get("k"))
        await asyncio.sleep(0.5)
        assert not asked.done()
        await reading.close()
        with pytest.raises(RunStoreError):
            await asyncio.wait_for(asked, PATIENCE)
    finally:
        await asyncio.to_thread(postgres_server.thaw)
    with pytest.raises(RunStoreError, match="it was closed"):
        await reading.get("k")


async def test_a_worker_that_stands_still_in_a_transaction_blocks_nobody(
    postgres_url: str, tmp_path: Path
) -> None:
    own = settings(tmp_path, store=postgres_url)
    async with Agent(ScriptedModel(["Done.", "Done."]), durable=own) as agent:
        assert await ended(agent.start("Go.", key="k")) == "Done."
        frozen = RunStore(own.url)
        connection = frozen.engine.connect()
        connection.execute(text("LOCK TABLE toolbus_workers, dbos.workflow_status"))
        assert await ended(agent.start("Go.", key="l")) == "Done."
        with pytest.raises(DBAPIError) as late:
            connection.commit()
        connection.close()
        frozen.close()
    assert late.value.connection_invalidated, "it tries again on another connection"


async def test_a_run_waits_for_space_on_a_full_disk(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "toolbus.dbos")
    ledger = Ledger()
    calls = [ToolCall("ledger_hold", {"line": "a"}), ToolCall("ledger_write", {"line": "b" * 100_000})]
    model = ScriptedModel([calls, "Done."])
    servers = {"ledger": {"server": ledger.server()}}
    async with Agent(model, mcp_servers=servers, durable=settings(tmp_path)) as agent:
        run = agent.start("Go.", key="k")
        async with asyncio.timeout(PATIENCE):
            await ledger.reached.wait()
        assert Worker.here is not None
        limit = _Limit(Worker.here.store.engine)
        limit.set(1)
        ledger.may_end.set()
        await until(lambda: "disk is full" in caplog.text)  # a thread logs it
        assert (await agent.runs.get("k")).status == "running"
        limit.set(1_000_000)
        assert await ended(run) == "Done."
        assert (await agent.runs.get("k")).attempts == 1
    assert [line[0] for line in ledger.lines] == ["a", "b"]


class _Limit:
    """Lets SQLite refuse to grow its file, as on a full disk."""

    def __init__(self, engine: Any) -> None:
        self._pages = 1_000_000
        event.listen(engine, "checkout", self._apply)

    def set(self, pages: int) -> None:
        self._pages = pages

    def _apply(self, connection: Any, *_: object) -> None:
        connection.execute(f"PRAGMA max_page_count={self._pages}")


async def test_a_clock_that_is_set_back_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, real = Ledger(), time.time
    model = ScriptedModel([ToolCall("ledger_hold", {"line": "a"}), "Done."])
    servers = {"ledger": {"server": ledger.server()}}
    async with Agent(model, mcp_servers=servers, durable=settings(tmp_path)) as agent:
        run = agent.start("Go.", key="k")
        async with asyncio.timeout(PATIENCE):
            await ledger.reached.wait()
        monkeypatch.setattr(time, "time", lambda: real() - 86_400)
        ledger.may_end.set()
        assert await ended(run) == "Done."
        assert [(row.dead, row.beats > 0) for row in await agent.runs.workers()] == [(0, True)]
        assert (await agent.runs.get("k")).attempts == 1


async def test_a_run_of_another_version_is_left_to_its_own_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = Runs(settings(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(runs, "JOURNAL_VERSION", "toolbus-journal-9")
        await newer.start("Go.", key="newer")
    async with Agent(ScriptedModel(["Done."]), durable=settings(tmp_path)) as agent:
        assert await ended(agent.start("Go.", key="own")) == "Done."
        info = await agent.runs.get("newer")
        assert (info.status, info.journal, info.is_foreign) == ("queued", "toolbus-journal-9", True)
        own = await agent.runs.get("own")
        assert (own.journal, own.is_foreign) == (JOURNAL_VERSION, False)
    await newer.close()


async def test_a_function_is_called_again_only_if_it_is_marked(tmp_path: Path) -> None:
    made: list[str] = []
    reached = asyncio.Event()

    async def stuck(name: str) -> str:
        """Never ends."""
        made.append(name)
        reached.set()
        await asyncio.Event().wait()
        return ""

    @repeatable
    async def safe(name: str) -> str:
        """Never ends at first."""
        return await stuck(name) if not is_second else f"{name} again"

    is_second = False
    calls = [ToolCall("safe", {"name": "a"}), ToolCall("stuck", {"name": "b"})]
    own = settings(tmp_path, drain=0.01)  # calls in flight are given up: their outcome is unknown then
    turns: list[Turn] = [calls, lambda results: "\n".join(results)]
    async with Agent(ScriptedModel(turns), tools=[safe, stuck], durable=own) as agent:
        agent.start("Go.", key="k")
        async with asyncio.timeout(PATIENCE):
            await reached.wait()
    is_second = True
    reached.clear()
    async with Agent(ScriptedModel([]), tools=[safe, stuck], durable=own) as agent:
        agent.join("k")
        async with asyncio.timeout(PATIENCE):
            await reached.wait()
    async with Agent(ScriptedModel(turns), tools=[safe, stuck], durable=own) as agent:
        output = await ended(agent.join("k"))
        steps = await agent.runs.steps("k")
    assert output.splitlines()[0] == "a again"
    assert output.splitlines()[1].startswith(
        """outcome unknown: the process that called 'stuck' with {"name": "b"} at """
    )
    assert output.splitlines()[1].endswith("for example with 'safe'")
    assert made == ["a", "b"]
    assert [(step.about, step.outcome) for step in steps if step.name == "call"] == [
        ("safe", "done"),
        ("stuck", "unknown"),
    ]


async def test_a_task_of_a_server_is_followed_by_the_next_worker(tmp_path: Path) -> None:
    inn = asking()
    model = ScriptedModel([ToolCall("inn_dig", {"depth": 10_000}), lambda results: results[-1]])
    own = settings(tmp_path, drain=0.01)
    async with Agent(model, mcp_servers={"inn": {"server": inn}}, durable=own) as agent:
        agent.start("Go.", key="k")
        async with asyncio.timeout(PATIENCE):
            while "waits" not in [step.outcome for step in await agent.runs.steps("k")]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    task = list(TASK_STORE.values())[-1]
    tasks = len(TASK_STORE)
    assert not task.cancelled, "it goes on without us"
    task.depth = 0
    async with Agent(model, mcp_servers={"inn": {"server": inn}}, durable=own) as agent:
        assert await ended(agent.join("k")) == "dug 0 as a task"
    assert len(TASK_STORE) == tasks, "it is not begun again"


class _Touch:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self._path,)


async def test_a_pickle_in_the_store_is_not_read(tmp_path: Path) -> None:
    """A writer to the store can start runs and answer for people, but runs no code in the workers."""
    touched, own = tmp_path / "touched", settings(tmp_path)
    pickled = base64.b64encode(pickle.dumps(_Touch(touched))).decode()
    reading = Runs(own)
    await reading.start("Go.", key="bad")
    with sqlite3.connect(own.store) as database:
        for change in ("workflow_input SET inputs = ?", "workflow_status SET serialization = ?"):
            value = pickled if "inputs" in change else "py_pickle"
            changed = database.execute(f"UPDATE {change} WHERE workflow_uuid = 'bad'", (value,))
            assert changed.rowcount == 1
    async with Agent(ScriptedModel(["Done."]), durable=own) as agent:
        assert await ended(agent.start("Go.", key="good")) == "Done."
        bad = await run_when(agent.runs, "bad", lambda info: not info.is_open)
    await reading.close()
    assert (bad.status, bad.error) == ("failed", "its record in the store was not written by toolbus")
    assert not touched.exists()


async def test_the_runs_of_a_new_store_can_be_listed(store: str, tmp_path: Path) -> None:
    """Before anybody has started one, so that the store has no tables."""
    own = settings(tmp_path, store=store)
    async with Agent(ScriptedModel([]), durable=own) as agent, asyncio.timeout(PATIENCE):
        assert await agent.runs.recent() == []
        with pytest.raises(RunNotFound):
            await agent.runs.get("nothing")
        with pytest.raises(RunNotFound):
            await ended(agent.join("nothing"))
        assert await agent.runs.steps("nothing") == []
    looking = Runs(settings(tmp_path, store=str(tmp_path / "new.db")))
    assert (await looking.recent(), await looking.workers()) == ([], [])
    await looking.close()


@pytest.mark.parametrize("look", ["recent", "workers"])
async def test_an_error_that_does_not_pass_is_raised_at_once(tmp_path: Path, look: str) -> None:
    own = settings(tmp_path)
    async with Agent(ScriptedModel(["Done."]), durable=own) as agent:
        assert await ended(agent.start("Go.")) == "Done."
        with sqlite3.connect(own.store) as database:
            database.execute("ALTER TABLE workflow_status RENAME TO elsewhere")
        with pytest.raises(RunStoreError, match=r"no such table: main\.workflow_status"):
            await asyncio.wait_for(getattr(agent.runs, look)(), PATIENCE)
        with sqlite3.connect(own.store) as database:
            database.execute("ALTER TABLE elsewhere RENAME TO workflow_status")


async def test_a_database_or_role_that_does_not_exist_is_not_waited_for(
    postgres_url: str, tmp_path: Path
) -> None:
    for changed in (postgres_url.replace("/test_", "/none_"), postgres_url.replace("postgres:@", "nobody:@")):
        runs = Runs(settings(tmp_path, store=changed), is_patient=True)
        with pytest.raises(RunStoreError, match="does not exist"):
            await asyncio.wait_for(runs.recent(), PATIENCE)
        await runs.close()


async def test_a_program_joins_once_its_store_can_be_reached(
    postgres_server: Server, postgres_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = settings(tmp_path, store=postgres_url)
    started = Runs(own)
    await started.start("Go.", key="k")
    await asyncio.to_thread(postgres_server.stop)
    try:
        async with Agent(ScriptedModel(["Done."]), durable=own) as agent:
            looking = asyncio.create_task(agent.runs.wait("k"))
            joined = agent.join("k")
            await until(lambda: "; waiting for it" in caplog.text)
            await until(lambda: "executes no durable runs until the store is back" in caplog.text)
            assert not looking.done()
            await asyncio.to_thread(postgres_server.start)
            async with asyncio.timeout(PATIENCE):
                assert ((await looking).output, await joined.final) == ("Done.", "Done.")
    finally:
        await asyncio.to_thread(postgres_server.start)
    await started.close()
    back = [record.message for record in caplog.records if record.message.endswith(" is back")]
    assert len(back) == len([one for one in caplog.records if "waiting for it" in one.message]) + 1


async def test_an_agent_that_is_closed_executes_nothing_more(tmp_path: Path) -> None:
    own = settings(tmp_path)
    async with Agent(ScriptedModel(["Done."]), durable=own) as agent:
        pass
    with pytest.raises(RunStoreError, match="it was closed; create another Agent or Runs"):
        await agent.runs.recent()
    assert Worker.here is None
    looking = Runs(own)
    assert await looking.workers() == []
    await looking.close()
