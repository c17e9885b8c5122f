"""A call that a person has to approve can wait for the answer, and be resumed elsewhere."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.conftest import SERVERS
from tests.inside.bus import calls_of
from tests.inside.core import Operation
from tests.policy.people import Person, decisions
from tests.servers.asking import asking
from tests.servers.everyday import everyday
from toolbus import Answer, CallDenied, Pending, Toolbus

pytestmark = pytest.mark.anyio

ASK = {"tools": ["day/echo", "ask/*"], "do": "ask", "reason": "it is loud"}


def config(**more: Any) -> dict[str, Any]:
    servers = {"day": {"server": everyday()}, "ask": {"server": asking()}}
    return {"servers": servers, "policy": [ASK], **more}


async def suspended(bus: Toolbus, name: str, arguments: dict[str, Any]) -> Pending:
    result = await bus.call(name, arguments, on_input="suspend")
    assert result.pending is not None
    return result.pending


def says(answer: str) -> Answer:
    return Answer(action="accept", content={"answer": answer})


async def test_a_call_waits_for_approval_and_is_made_when_it_is_resumed(tmp_path: Path) -> None:
    trail = tmp_path / "audit.jsonl"
    async with Toolbus(config(audit=str(trail))) as bus:
        pending = await suspended(bus, "day_echo", {"text": "tick\u202e\n"})
        assert decisions(trail) == []
        [(key, question)] = pending.questions.items()
        assert (key, question.server) == ("approval", "toolbus")
        assert question.message == (
            'Rule policy[0] asks (it is loud): call "day_echo" with {"text": "tick\\u202e\\n"}?'
        )
        [field] = question.form.fields
        assert list(field.choices) == ["once", "session", "always", "never", "no"]
        stored = Pending.from_json(pending.to_json())
        assert stored == pending
        with pytest.raises(ValueError, match="there is no answer to 'approval'"):
            await bus.resume(stored)
        with pytest.raises(ValueError, match="answer"):
            await bus.resume(stored, says("perhaps"))
        assert (await bus.resume(stored, says("once"))).text == "tick\u202e\n"
        for no in (says("no"), question.decline(), question.cancel()):
            with pytest.raises(CallDenied, match="a person did not allow it"):
                await bus.resume(stored, no)
    denied = ("echo", "deny", "policy[0]", "resumed")
    assert decisions(trail) == [("echo", "allow", "policy[0]", "resumed"), denied, denied, denied]


async def test_an_approval_is_bound_to_its_call() -> None:
    async with Toolbus(config()) as bus:
        pending = await suspended(bus, "day_echo", {"text": "x"})
        for other in (
            replace(pending, arguments={"text": "y"}),
            replace(pending, server="ask", tool="tell"),
            replace(pending, call="sha256:0"),
        ):
            with pytest.raises(CallDenied, match="not the one that was approved"):
                await bus.resume(other, says("once"))
        assert (await bus.resume(pending, says("session"))).text == "x"
        assert (await bus.call("day_echo", {"text": "z"}, on_input="suspend")).text == "z"


async def test_a_pending_call_without_its_question() -> None:
    """It is refused, despite any approval in it."""
    async with Toolbus(config()) as bus:
        pending = await suspended(bus, "day_echo", {"text": "x"})
        edited = replace(pending, requests={}, approved=pending.call)
        with pytest.raises(ValueError, match="the question is missing"):
            await bus.resume(edited)
        with pytest.raises(ValueError, match="not a pending call"):
            Pending.from_json(edited.to_json())


async def test_hooks_apply_again_and_a_call_that_they_change_is_refused() -> None:
    number = 0

    async def hook(call: Operation, proceed: Any) -> Any:
        return await proceed(replace(call, arguments={"text": f"{call.arguments['text']} {number}"}))

    async with Toolbus(config(), hooks=[hook]) as bus:
        pending = await suspended(bus, "day_echo", {"text": "x"})
        assert pending.arguments == {"text": "x"}
        assert (await bus.resume(pending, says("once"))).text == "x 0"
        number = 1
        with pytest.raises(CallDenied, match="not the one that was approved"):
            await bus.resume(pending, says("once"))


async def test_an_approved_call_that_its_server_suspends_is_not_asked_about_again() -> None:
    person = Person(True)
    async with Toolbus(config(), interactions=person.interactions) as bus:
        spec = bus.catalog["ask_book"]
        pending = await suspended(bus, "ask_book", {"guest": "Ann"})
        assert pending.call is not None
        again = await bus.resume(pending, says("once"))
        assert again.pending is not None
        assert again.pending.approved == pending.call
        stored = Pending.from_json(again.pending.to_json())
        [question] = stored.questions.values()
        assert (question.server, question.message) == ("ask", "When does Ann come?")
        done = await bus.resume(stored, question.accept({"date": "2026-12-24"}))
        assert done.text.startswith("Ann: 2026-12-24")
        assert person.asked == []
        # Another call is not approved with it.
        forged = replace(stored, arguments={"guest": "Bob"})
        result = await bus.resume(forged, question.accept({"date": "2026-12-24"}))
        assert result.pending is not None
        assert result.pending.call is not None
        assert calls_of(bus).definition_digest(spec) is not None


async def test_a_task_that_was_approved_is_followed_without_asking_again() -> None:
    person = Person("once")
    async with Toolbus(config(), interactions=person.interactions) as bus:
        task = bus.task((await bus.submit("ask_dig", {"depth": 1})).to_json())
        assert (await task.result()).text == "dug 1 as a task"
    assert len(person.asked) == 1


async def test_a_pending_call_of_an_earlier_version_still_loads() -> None:
    async with Toolbus(config() | {"policy": []}) as bus:
        pending = await suspended(bus, "ask_book", {"guest": "Ann"})
        old = json.loads(pending.to_json())
        for name in ("call", "approved", "approved_by"):
            del old["pending"][name]
        loaded = Pending.from_json(json.dumps(old))
        assert loaded == pending
        [question] = loaded.questions.values()
        result = await bus.resume(loaded, question.accept({"date": "2026-12-24"}))
    assert result.text.startswith("Ann: 2026-12-24")


async def test_without_the_policy_a_resumed_call_is_made_and_one_that_is_denied_is_refused() -> None:
    async with Toolbus(config()) as bus:
        pending = await suspended(bus, "day_echo", {"text": "x"})
        await bus.reload(config() | {"policy": [{"tools": "day/echo", "do": "deny"}]})
        with pytest.raises(CallDenied, match="denies it"):
            await bus.resume(pending, says("once"))
        await bus.reload(config() | {"policy": []})
        assert (await bus.resume(pending, says("once"))).text == "x"


RESUMING = """
import asyncio, json, sys
from toolbus import Pending, Toolbus, ToolbusError

async def main():
    config, stored, answers = json.loads(sys.stdin.read())
    pending = Pending.from_json(stored)
    async with Toolbus(config) as bus:
        for answer in answers:
            try:
                result = await bus.resume(pending, pending.questions["approval"].accept({"answer": answer}))
            except ToolbusError as error:
                print(error)
            else:
                print(result.text)

asyncio.run(main())
"""


async def test_a_call_is_approved_in_a_new_process() -> None:
    server = {"command": warm.python(), "args": [str(SERVERS / "everyday.py"), "stdio"]}
    settings = {"servers": {"day": server}, "policy": [ASK]}
    async with Toolbus(settings) as bus:
        pending = await suspended(bus, "day_echo", {"text": "x"})
    process = await asyncio.create_subprocess_exec(
        *(warm.python(), "-c", RESUMING),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=SERVERS.parents[1],
    )
    given = json.dumps([settings, pending.to_json(), ["no", "once"]]).encode()
    said, _ = await process.communicate(given)
    refused, done = said.decode().splitlines()
    assert refused.startswith("tool 'day_echo' was refused: a person did not allow it")
    assert done == "x"
