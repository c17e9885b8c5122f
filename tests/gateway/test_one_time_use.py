"""An approval that a client carries is used for one call, even after a restart."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.driving import FORWARDS, ModernClient, text_of
from tests.inside.gateway import Gateway, ProtocolError
from tests.inside.state import OneTimeUse, PrivateFolder, PrivateValues, Seal, carried_forms
from tests.servers.asking import asking
from tests.servers.everyday import everyday
from toolbus import Toolbus

pytestmark = pytest.mark.anyio
KEY = b"k" * 32
CALL: dict[str, Any] = {"name": "day_echo", "arguments": {"text": "hi"}}
ASKS = [{"tools": "*", "do": "ask"}]
USED = "Invalid requestState: its approval was used; send the request without it"
APPROVED = {"action": "accept", "content": {"answer": "once"}}
BOOKED = {
    "action": "accept",
    "content": {"date": "2026-12-24", "seats": 2, "place": "inside", "quiet": False},
}


def spent_in(folder: Path, now: Callable[[], float] = time.time) -> OneTimeUse:
    return OneTimeUse(PrivateValues(lambda: PrivateFolder(folder), carried_forms("x.seal", "x.spent"), now))


def _answer(given: dict[str, Any]) -> dict[str, Any]:
    return APPROVED if "answer" in given["requestedSchema"]["properties"] else BOOKED


def _client(gateway: Gateway) -> ModernClient:
    return ModernClient(gateway, answers={"elicitation/create": _answer})


async def test_an_approval_is_used_once_also_after_a_restart(tmp_path: Path) -> None:
    config = {"servers": {"day": {"server": everyday()}}, "policy": ASKS}
    retry: dict[str, Any] = {}
    for run in range(2):
        bus = Toolbus(config, interactions=FORWARDS)
        async with (
            bus,
            Gateway(bus, seal=Seal(KEY), spent=spent_in(tmp_path / "state")) as gateway,
        ):
            client = _client(gateway)
            if run == 0:
                retry = {**CALL, **client.answered(await client.once("tools/call", CALL))}
                assert text_of(await client.once("tools/call", retry)) == "hi"
            with pytest.raises(ProtocolError) as failed:
                await client.once("tools/call", retry)
            assert (failed.value.code, failed.value.message) == (-32602, USED)
            # Whoever asks again is asked again.
            assert text_of(await client.request("tools/call", CALL)) == "hi"


async def test_an_approved_call_that_its_server_suspended_goes_on_once() -> None:
    config = {"servers": {"ask": {"server": asking(), "era": "modern", "prefix": ""}}, "policy": ASKS}
    call = {"name": "book", "arguments": {"guest": "Ann"}}
    bus = Toolbus(config, interactions=FORWARDS)
    async with bus, Gateway(bus) as gateway:
        client = _client(gateway)
        suspended = await client.once(
            "tools/call", {**call, **client.answered(await client.once("tools/call", call))}
        )
        retry = {**call, **client.answered(suspended)}
        assert text_of(await client.once("tools/call", retry)).startswith("Ann: 2026-12-24")
        with pytest.raises(ProtocolError, match="its approval was used"):
            await client.once("tools/call", retry)


async def test_a_use_that_cannot_be_recorded_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where the folder should be")
    config = {"servers": {"day": {"server": everyday()}}, "policy": ASKS}
    bus = Toolbus(config, interactions=FORWARDS)
    async with (
        bus,
        Gateway(bus, spent=spent_in(tmp_path / "state")) as gateway,
    ):
        client = _client(gateway)
        refused = await client.request("tools/call", CALL)
        assert refused["isError"]
        assert "the use of its approval could not be recorded" in text_of(refused)


async def test_what_has_expired_is_forgotten_and_no_more_is_kept_than_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    for spent in (OneTimeUse(), spent_in(tmp_path / "state", lambda: now[0])):
        now[0] = 1000.0
        first, second = spent.issue(10), spent.issue(600)
        assert [await spent.use(one) for one in (first, second, first)] == [True, True, False]
        now[0] = 1100.0
        assert not await spent.use(second)
        assert await spent.use(spent.issue(600))
    kept = sorted(path.name for path in (tmp_path / "state/x.spent").iterdir())
    assert len(kept) == 2
    assert second in kept


async def test_the_number_of_remembered_uses_is_bounded(tmp_path: Path) -> None:
    spent = spent_in(tmp_path / "state")
    for number in range(1010):
        assert await spent.use(spent.issue(600 + number))
    assert len(list((tmp_path / "state/x.spent").iterdir())) == 1000
