"""The parts of DBOS that toolbus relies on beyond its documented interface."""

# pyright: reportPrivateUsage=false

import inspect
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import sqlalchemy as sa
from dbos import DBOSClient, _sys_db
from dbos._dbos import DBOS
from dbos._schemas.system_database import SystemSchema
from dbos._sys_db import SystemDatabase
from dbos._utils import GlobalParams

from tests.inside.agent import close_engine, new_engine
from tests.inside.agent import dbos_private as seam
from tests.patience import PATIENCE


def test_a_run_of_a_dead_worker_can_be_given_back_to_its_queue() -> None:
    parameters = list(inspect.signature(SystemDatabase.reenqueue_for_recovery).parameters)
    assert parameters == ["self", "workflow_id", "executor_ids", "recovery_queue_name"]
    assert "_sys_db" in inspect.getsource(DBOSClient.__init__)


def test_every_record_checks_who_owns_the_run() -> None:
    assert "_check_owner_txn" in inspect.getsource(SystemDatabase._record_operation_result_txn)
    assert "owner_xid=None" in inspect.getsource(SystemDatabase.reenqueue_for_recovery)


def test_the_queues_and_the_id_of_a_worker_are_read_at_each_turn() -> None:
    from dbos import _queue

    assert "dbos._listening_queues" in inspect.getsource(_queue.queue_thread)
    assert "GlobalParams.executor_id" in inspect.getsource(_queue.queue_worker_thread)
    assert isinstance(GlobalParams.executor_id, str)


def test_there_is_one_instance_in_a_process() -> None:
    assert not seam.is_used()
    assert "_listening_queues" in inspect.getsource(DBOS.__init__)


def test_an_answer_is_found_by_its_idempotency_key() -> None:
    assert 'f"{m.idempotency_key}::{dest}"' in inspect.getsource(SystemDatabase._send_bulk_txn)
    assert {"message", "message_uuid"} <= set(SystemSchema.notifications.c.keys())


def test_a_step_takes_its_number_from_the_context_of_its_task() -> None:
    from dbos import _context

    assert "snapshot_step_context" in inspect.getsource(DBOS.run_step_async)
    assert "snapshot_step_context" in inspect.getsource(DBOS.recv_async)
    numbering = inspect.getsource(_context.DBOSContext.snapshot_step_ctx)
    assert "self.function_id += 1\n        rv.function_id = self.function_id" in numbering
    assert "_dbos_context_var.get()" in inspect.getsource(_context.get_local_dbos_context)


def test_a_note_of_the_owner_waits_for_the_store_as_a_step_does() -> None:
    record = inspect.getsource(SystemDatabase.record_operation_result)
    assert "@db_retry(sys_db=self)" in record
    parameters = list(inspect.signature(SystemDatabase._check_owner_txn).parameters)
    assert parameters == ["self", "conn", "workflow_id", "owner_xid"]
    assert {"function_id", "function_name", "workflow_uuid"} <= set(SystemSchema.operation_outputs.c.keys())
    assert {"status", "name", "workflow_uuid"} <= set(SystemSchema.workflow_status.c.keys())


def test_the_label_of_a_queue_replaces_the_version_that_a_worker_takes() -> None:
    from dbos import _queue

    parameters = list(inspect.signature(SystemDatabase.start_queued_workflows).parameters)
    assert parameters[:4] == ["self", "queue", "executor_id", "app_version"]
    taking = inspect.getsource(_queue.queue_worker_thread)
    assert "dbos._sys_db.start_queued_workflows(\n" in taking, "it is looked up at each turn"
    assert "application_version=app_version" in inspect.getsource(SystemDatabase.start_queued_workflows)


def test_a_run_that_is_handed_over_is_as_one_that_was_given_back() -> None:
    """`seam.hand_over` changes the same columns, and the label."""
    changed = inspect.getsource(SystemDatabase.reenqueue_for_recovery).partition(".values(")[2]
    columns = [line.strip().partition("=")[0] for line in changed.splitlines() if "=" in line]
    assert columns[:5] == ["status", "owner_xid", "started_at_epoch_ms", "updated_at", "queue_name"]


def test_dbos_waits_for_its_database_with_the_sleep_of_its_module() -> None:
    assert "time.sleep(actual_backoff)" in inspect.getsource(_sys_db.db_retry)
    assert "import time" in inspect.getsource(_sys_db)


def test_a_pause_of_dbos_is_cut_short_at_the_end() -> None:
    seam.Pauses.begin()
    with ThreadPoolExecutor(1) as pool:
        paused = pool.submit(_sys_db.time.sleep, 10 * PATIENCE)  # pyright: ignore[reportPrivateImportUsage]
        seam.Pauses.end()
        assert paused.result(seam.Pauses.LONGEST) is None
    seam.Pauses.begin()


def test_every_sqlite_has_the_time_that_dbos_asks_for_from_python_3_12_on(tmp_path: Path) -> None:
    engine = new_engine(f"sqlite:///{tmp_path / 'runs.db'}")
    before = time.time()
    with engine.begin() as connection:
        connection.execute(
            sa.text("CREATE TABLE t (a, b INTEGER NOT NULL DEFAULT (unixepoch('subsec') * 1000))")
        )
        connection.execute(sa.text("INSERT INTO t (a) VALUES (1)"))
        made = connection.execute(sa.text("SELECT b FROM t")).scalar_one()
    close_engine(engine)
    assert before - 1 <= made / 1000 <= time.time() + 1
