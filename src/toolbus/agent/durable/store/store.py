"""The store of durable runs: its database, its schema, and rows that DBOS does not have."""

import json
import logging
import time
from collections.abc import Container, Mapping
from typing import Any, cast

import sqlalchemy as sa
from dbos import DBOS, DBOSClient, WorkflowStatus
from sqlalchemy.exc import ArgumentError, DBAPIError

from toolbus.agent.durable.info import Step
from toolbus.agent.durable.questions import WaitingCall
from toolbus.agent.durable.settings import Durable
from toolbus.agent.durable.store.dbos_private import (
    Serializer,
    hand_over,
    refuse_pickles,
    requeue,
    sent_message,
    status_of,
    steps_beyond,
)
from toolbus.agent.durable.store.engines import APPLICATION, close_engine, may_pass, new_engine
from toolbus.agent.durable.store.notes import TABLES, forget, intents_of, questions_of
from toolbus.core.operation.run_errors import RunStoreError
from toolbus.core.text.display import without_passwords
from toolbus.core.values.errors import ToolbusError

WORKFLOW = "toolbus.run"
"""The name of all runs in the tables of DBOS."""
UNFINISHED = ["ENQUEUED", "PENDING", "DELAYED"]
"""The DBOS states of runs that have not ended."""
_ATTEMPTS = 5


class RecordedError(ToolbusError):
    """The error that ended a run, as it was recorded; `kind` is the name of its class."""

    def __init__(self, kind: str, message: str) -> None:
        self.kind = kind
        super().__init__(message)


class JSONSerializer(Serializer):
    """Values as JSON. DBOS would pickle them."""

    def serialize(self, data: Any) -> str:
        """The value as JSON in ASCII, which every database takes; errors as their class and text."""
        if isinstance(data, BaseException):
            data = {"toolbus_error": [type(data).__name__, str(data)]}
        return json.dumps(data, separators=(",", ":"))

    def deserialize(self, serialized_data: str) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]  # it calls it a class method
        value: Any = json.loads(serialized_data)
        match value:
            case {"toolbus_error": [str(kind), str(message)]}:
                return RecordedError(kind, message)
            case _:
                return value

    def name(self) -> str:
        return "toolbus_json"


class RunStore:
    """One database of runs; any process with its URL can read runs, answer their questions and start some."""

    def __init__(self, url: str) -> None:
        quiet_dbos()
        refuse_pickles()
        self.url = url
        self.place = _shown(url)
        self.engine = new_engine(url)
        self._client: DBOSClient | None = None

    def open(self) -> None:
        """Create or upgrade the schema; `RunStoreError` if the store cannot be used."""
        for attempt in range(_ATTEMPTS):
            try:
                with self.engine.connect():  # first, so that a new SQLite file is in WAL mode
                    pass
                DBOS.migrate(self.url.replace("+psycopg", "", 1))
                with self.engine.begin() as connection:
                    _create_tables(connection)
                return
            except DBAPIError as error:
                # Two processes may create the schema at the same time.
                is_away = error.connection_invalidated or "connection" in str(error.orig)
                if attempt == _ATTEMPTS - 1 or is_away:
                    raise self.error(error) from None
                time.sleep(0.2 * (attempt + 1))

    def error(self, error: DBAPIError) -> RunStoreError:
        """The problem of the database, without its password."""
        lines = str(error.orig).strip().splitlines() or [type(error).__name__]
        step = "check that it is reachable and writable, then try again"
        return RunStoreError(self.place, lines[0], step, may_pass=may_pass(error))

    @property
    def client(self) -> DBOSClient:
        """The client that reads and changes runs without executing any."""
        if self._client is None:
            self._client = DBOSClient(
                system_database_engine=self.engine,
                serializer=JSONSerializer(),
                application_name=APPLICATION,
                retry_connection_errors=False,
                lazy=True,
            )
        return self._client

    def add_queue(self, settings: Durable) -> None:
        """Add the queue of an agent, or change how workers take runs from it."""
        self.client.register_queue(
            settings.queue,
            polling_interval_sec=settings.poll,
            worker_concurrency=settings.at_once,
            on_conflict="always_update",
        )

    def requeue(self, worker: str) -> bool:
        """Give the runs of a dead worker back to their queues; True if it has none any more."""
        for run in self._pending(worker):
            requeue(self.client, run.workflow_id, worker, run.queue_name or "")
        return not self._pending(worker)

    def give_back(self, run: str, worker: str) -> None:
        requeue(self.client, run, worker, "")  # it has one

    def _pending(self, worker: str) -> list[WorkflowStatus]:
        return self.client.list_workflows(
            status="PENDING", executor_id=worker, name=WORKFLOW, load_input=False, load_output=False
        )

    def answer(self, run: str, question: str, answers: Mapping[str, Any]) -> Any:
        """Answer a question of a run, unless it has an answer; return the one that it has then."""
        self.client.send(run, dict(answers), question, idempotency_key=f"{run}:{question}")
        return self.answered(run, question)

    def answered(self, run: str, question: str) -> Any:
        """The answer to a question of a run, taken by a worker or not; None if it has none."""
        stored = sent_message(self.client, run, f"{run}:{question}")
        return None if stored is None else json.loads(stored)

    def question(self, run: str) -> tuple[WaitingCall | None, bool]:
        """The question of a run, and whether it is answered; of several questions, the first open one."""
        asked = None
        for asked in self._questions(run, only_open=True).values():
            if self.answered(run, asked.id) is None:
                return asked, False
        return asked, asked is not None

    def new_steps(
        self, run: str, known: Container[int]
    ) -> tuple[list[Mapping[str, Any]], dict[int, WaitingCall]]:
        """The steps of a run that are not known yet, and all its questions."""
        return steps_beyond(self.client, run, known), self._questions(run)

    def status(self, run: str) -> str | None:
        """The state of a run, as DBOS calls it; None if there is no such run."""
        return status_of(self.client, run, WORKFLOW)

    def steps(self, run: str) -> list[Step]:
        """The recorded steps of a run, and the calls that were begun."""
        with self.engine.connect() as connection:
            intents = intents_of(connection, run)
        return Step.all(self.client.list_workflow_steps(run), intents)

    def delete(self, run: str) -> None:
        self.client.delete_workflow(run)
        with self.engine.begin() as connection:
            forget(connection, run)

    def _questions(self, run: str, *, only_open: bool = False) -> dict[int, WaitingCall]:
        with self.engine.connect() as connection:
            return questions_of(connection, [run], only_open=only_open).get(run, {})

    def hand_over(self, run: str, worker: str, label: str) -> bool:
        """Give a run of a worker to workers of another label; False if the worker has lost it."""
        return hand_over(self.client, run, worker, label)

    def owners(self) -> dict[str, str]:
        """The workers of the runs that are being executed, by run."""
        pending = self.client.list_workflows(
            status="PENDING", name=WORKFLOW, load_input=False, load_output=False
        )
        return {run.workflow_id: run.executor_id for run in pending if run.executor_id}

    def called(self, run: str, *, made: bool = False) -> set[str]:
        """The tools of a run's recorded calls; without `made`, also those that its model has named."""
        found: set[str] = set()
        for step in self.client.list_workflow_steps(run):
            output = cast("dict[str, Any]", step["output"]) if isinstance(step["output"], dict) else {}
            if "tool" in output:
                found.add(output["tool"])
            elif "response" in output and not made:
                parts = output["response"]["parts"]
                found |= {one["tool_name"] for one in parts if one.get("tool_call_id") in output["called"]}
        with self.engine.connect() as connection:
            return found | {intent.tool for intent in intents_of(connection, run).values()}

    def lost(self, runs: list[str], worker: str) -> list[str]:
        """The runs of a worker that were cancelled, or taken by another one."""
        if not runs:
            return []
        found = self.client.list_workflows(workflow_ids=runs, load_input=False, load_output=False)
        kept = {run.workflow_id for run in found if run.status == "PENDING" and run.executor_id == worker}
        return [run for run in runs if run not in kept]

    def close(self) -> None:
        """Close all connections, and stop waiting for a server that does not respond."""
        close_engine(self.engine)
        if self._client is not None:
            self._client.destroy()


def _create_tables(connection: sa.Connection) -> None:
    for table in (_WORKERS, _AGENTS, _PROGRAMS, *TABLES):
        connection.execute(sa.text(table))
    existing = {column["name"] for column in sa.inspect(connection).get_columns("toolbus_workers")}
    for name, kind in _ADDED.items():
        if name not in existing:
            connection.execute(sa.text(f"ALTER TABLE toolbus_workers ADD COLUMN {name} {kind}"))


def _shown(url: str) -> str:
    """A URL for messages, without its password; RunStoreError if it is not valid."""
    try:
        parts = sa.make_url(url).set(query={})  # which may have a password, too
    except (ArgumentError, ValueError):
        problem = "its URL is not valid"
        step = "check its port, and percent-encode its password"
        raise RunStoreError("in Postgres", problem, step) from None
    return parts.render_as_string(hide_password=True).removeprefix("sqlite:///").replace("+psycopg", "", 1)


def quiet_dbos() -> None:
    """Pass what DBOS logs to the logger `toolbus.dbos`, as debug messages; it would print it."""
    logger = logging.getLogger("dbos")
    if not any(isinstance(handler, _Forwarder) for handler in logger.handlers):
        logger.addHandler(_Forwarder())
        logger.propagate = False


class _Forwarder(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        message = without_passwords(record.getMessage())
        logging.getLogger("toolbus.dbos").debug("%s", message, exc_info=record.exc_info)


_WORKERS = """
CREATE TABLE IF NOT EXISTS toolbus_workers (
    worker TEXT PRIMARY KEY,
    beats BIGINT NOT NULL,
    lease DOUBLE PRECISION NOT NULL,
    dead INTEGER NOT NULL DEFAULT 0,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    started TEXT NOT NULL,
    agents TEXT NOT NULL,
    version TEXT NOT NULL
)
"""
_ADDED = {"joined": "BIGINT NOT NULL DEFAULT 0", "programs": "TEXT NOT NULL DEFAULT '{}'"}
"""Columns that stores of earlier versions lack."""
_PROGRAMS = "CREATE TABLE IF NOT EXISTS toolbus_programs (label TEXT PRIMARY KEY, tools TEXT NOT NULL)"
_AGENTS = "CREATE TABLE IF NOT EXISTS toolbus_agents (agent TEXT PRIMARY KEY, tools TEXT NOT NULL)"
