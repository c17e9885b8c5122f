"""A script that waits for a person: small, sealed, resumed elsewhere, and every write happens once."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.code.support import config, written
from tests.patience import PATIENCE, wait_until
from toolbus import ApprovalRequest, Interactions, Pending, Toolbus
from toolbus.errors import ScriptNotResumable

pytestmark = pytest.mark.anyio
ASK = [{"tools": "ledger/write", "do": "ask"}]
LOOP = """
done = []
for number in range(3):
    await ledger_rows()
    done.append((await ledger_write(line=f"line {number}"))["result"])
    print("after", number)
done
"""
TOGETHER = """
import asyncio
made = await asyncio.gather(ledger_write(line="a"), ledger_rows(), ledger_write(line="b"))
[made[0]["result"], made[2]["result"]]
"""
PROGRAM = Path(__file__).with_name("until_suspended.py")


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]  # pytest uses it
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def step(folder: Path, script: str, pending: str | None) -> dict[str, Any]:
    """Go on in a process of its own, which is killed as soon as the script waits or has ended."""
    given = {"config": config(folder, policy=ASK), "script": script, "pending": pending}
    file = folder / "given.json"
    file.write_text(json.dumps(given))
    log = folder / "printed"
    one = warm.start("python", [str(PROGRAM), str(file)], folder, os.environ, log)
    wait_until(lambda: log.read_text().endswith("\n"))
    one.kill()
    one.wait(PATIENCE)
    return json.loads(log.read_text())


def approved(pending: Pending) -> dict[str, Any]:
    return {key: question.accept({"answer": "once"}) for key, question in pending.questions.items()}


def test_approvals_in_a_loop_with_a_killed_process_for_each_write_every_line_once(tmp_path: Path) -> None:
    found, seen = step(tmp_path, LOOP, None), list[list[str]]()
    while found["pending"] is not None:
        seen.append(written(tmp_path))
        assert len(found["pending"]) < 16_000
        found = step(tmp_path, LOOP, found["pending"])
    assert seen == [[], ["line 0"], ["line 0", "line 1"]]
    assert written(tmp_path) == ["line 0", "line 1", "line 2"]
    assert found["text"] == 'after 0\nafter 1\nafter 2\n["wrote line 0", "wrote line 1", "wrote line 2"]'


async def test_a_suspended_script_is_resumed_once(tmp_path: Path) -> None:
    async with Toolbus(config(tmp_path, policy=ASK)) as bus:
        first = (await bus.scripts.run(LOOP)).pending
        assert first is not None
        assert [question.server for question in first.questions.values()] == ["toolbus"]
        await bus.resume(first, approved(first))
        with pytest.raises(ScriptNotResumable, match="already resumed"):
            await bus.resume(first, approved(first))
    assert written(tmp_path) == ["line 0"]


async def test_calls_that_wait_together_are_asked_one_after_the_other(tmp_path: Path) -> None:
    async with Toolbus(config(tmp_path, policy=ASK)) as bus:
        result = await bus.scripts.run(TOGETHER)
        for _ in range(2):
            assert result.pending is not None
            result = await bus.resume(result.pending, approved(result.pending))
    assert result.value == ["wrote a", "wrote b"]
    assert sorted(written(tmp_path)) == ["a", "b"]


async def test_a_changed_script_is_not_loaded(tmp_path: Path) -> None:
    async with Toolbus(config(tmp_path, policy=ASK)) as bus:
        pending = (await bus.scripts.run(LOOP)).pending
        assert pending is not None
        assert pending.script is not None
        middle = len(pending.script) // 2
        flipped = "A" if pending.script[middle] != "A" else "B"
        changed = pending.script[:middle] + flipped + pending.script[middle + 1 :]
        for text in (changed, "", "AAAA", pending.script[:-4]):
            with pytest.raises(ScriptNotResumable):
                await bus.resume(replace(pending, script=text), approved(pending))
        # What stands beside the sealed script decides nothing.
        other = replace(pending, arguments={"line": "forged"})
        await bus.resume(other, approved(pending))
    assert written(tmp_path) == ["line 0"]


async def test_a_refusal_is_an_exception_in_the_script(tmp_path: Path) -> None:
    script = 'try:\n    await ledger_write(line="x")\nexcept RuntimeError as error:\n    print("no")'
    async with Toolbus(config(tmp_path, policy=ASK)) as bus:
        pending = (await bus.scripts.run(script)).pending
        assert pending is not None
        result = await bus.resume(pending, {key: one.decline() for key, one in pending.questions.items()})
    assert (result.text, written(tmp_path)) == ("no", [])


async def test_with_a_handler_a_person_is_asked_at_once(tmp_path: Path) -> None:
    asked: list[str] = []

    def approve(request: ApprovalRequest) -> bool:
        asked.append(str(request.arguments["line"]))
        return True

    async with Toolbus(config(tmp_path, policy=ASK), interactions=Interactions(approve=approve)) as bus:
        result = await bus.scripts.run(LOOP)
    assert not result.is_error
    assert asked == written(tmp_path) == ["line 0", "line 1", "line 2"]
