"""A server that goes away is waited for by calls, and found again without any, however often."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SERVERS, web_server
from tests.inside.connect import ON_DEMAND_EVERY, backoff
from tests.patience import PATIENCE, until
from tests.servers.recording import recording
from toolbus import ServerDown, ServerNotFound, Toolbus
from toolbus.events import Event, StateChanged
from toolbus.sync import SyncToolbus

pytestmark = pytest.mark.anyio
OUTAGES = (3.0, 10.0, 25.0)
CALLERS = 5
KINDS = [("http", "modern"), ("http", "legacy"), ("sse", "legacy"), ("stdio", "modern"), ("stdio", "legacy")]


@dataclass
class Place:
    """A server that can be taken away and brought back."""

    config: dict[str, Any]
    go: Callable[[], None]
    come: Callable[[], None]


def web_place(kind: str, folder: Path, stack: ExitStack) -> Place:
    serving = [stack.enter_context(ExitStack())]
    port = serving[0].enter_context(web_server(kind, folder))

    def come() -> None:
        serving[0] = stack.enter_context(ExitStack())
        serving[0].enter_context(web_server(kind, folder, port))

    url = f"http://127.0.0.1:{port}/{'mcp' if kind == 'http' else 'sse'}"
    return Place({"url": url}, lambda: serving[0].close(), come)


def process_place(folder: Path) -> Place:
    """A process that notes each start, and ends at once while it is away."""
    folder.mkdir(exist_ok=True)
    here, starts = folder / "here", folder / "starts"
    here.touch()
    script = folder / "server.py"
    script.write_text(
        "import os, pathlib, runpy, sys\n"
        f"pathlib.Path({str(starts)!r}).open('a').write(f'{{os.getpid()}} ')\n"
        f"if not pathlib.Path({str(here)!r}).exists():\n"
        "    sys.exit('away')\n"
        f"sys.argv = ['plain.py', *sys.argv[1:]]\n"
        f"runpy.run_path({str(SERVERS / 'plain.py')!r}, run_name='__main__')\n"
    )

    def go() -> None:
        here.unlink()
        os.kill(int(starts.read_text().split()[-1]), signal.SIGKILL)

    # Otherwise a start that fails is made once more, in the other era.
    config = {"command": sys.executable, "args": [str(script)], "era": "legacy"}
    return Place(config, go, here.touch)


def starts(folder: Path) -> int:
    """The number of times that the process was started."""
    return len((folder / "starts").read_text().split())


def place_of(kind: str, era: str, folder: Path, stack: ExitStack) -> Place:
    folder.mkdir()
    place = process_place(folder) if kind == "stdio" else web_place(kind, folder, stack)
    if kind == "stdio" and era == "modern":
        place.config["args"].append("modern")
    place.config |= {"era": era, "timeouts": {"reconnect": 300}}
    return place


def is_ready(bus: Toolbus) -> bool:
    return bus.servers["a"].state == "ready"


@asynccontextmanager
async def away(place: Place, bus: Toolbus) -> AsyncGenerator[None]:
    """The server is away for this block, which begins when the bus knows it."""
    await asyncio.to_thread(place.go)
    await until(lambda: not is_ready(bus))
    yield
    await asyncio.to_thread(place.come)


async def called_while_away(place: Place, bus: Toolbus, outage: float) -> None:
    async with away(place, bus):
        calls = [asyncio.create_task(bus.call("a_echo", {"text": str(n)})) for n in range(CALLERS)]
        await asyncio.sleep(outage)
        assert not any(call.done() for call in calls)
        assert not is_ready(bus)
    assert [(await call).text for call in calls] == [str(n) for n in range(CALLERS)]


async def found_without_a_call(place: Place, bus: Toolbus, outage: float) -> None:
    async with away(place, bus):
        await asyncio.sleep(outage)
        assert not is_ready(bus)
    if "url" in place.config:  # a process is started when it is needed, or now and then
        await until(lambda: is_ready(bus))
    assert (await bus.call("a_echo", {"text": "back"})).text == "back"


SCENARIOS: dict[str, Callable[[Place, Toolbus, float], Awaitable[None]]] = {
    "called": called_while_away,
    "found": found_without_a_call,
}


async def test_servers_that_are_away_for_seconds_are_survived_again_and_again(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    # The breaker is open after 8 s.
    outages = OUTAGES * 3 if request.config.getoption("--full") else (2.0, 8.0)

    async def survived(place: Place, scenario: Callable[[Place, Toolbus, float], Awaitable[None]]) -> None:
        async with Toolbus({"servers": {"a": place.config}}) as bus:
            for outage in outages:
                await scenario(place, bus, outage)
            assert bus.servers["a"].restarts == len(outages)

    with ExitStack() as stack:
        cases = [(kind, era, name) for kind, era in KINDS for name in SCENARIOS]
        places = [place_of(kind, era, tmp_path / f"{kind}-{era}-{name}", stack) for kind, era, name in cases]
        work = [survived(place, SCENARIOS[name]) for place, (_, _, name) in zip(places, cases, strict=True)]
        failures = await asyncio.gather(*work, return_exceptions=True)
    assert dict(zip(cases, failures, strict=True)) == dict.fromkeys(cases)


async def test_without_recover_a_call_waits_for_one_attempt_and_never_for_the_pause_after_one(
    tmp_path: Path,
) -> None:
    place = process_place(tmp_path)
    async with Toolbus({"servers": {"a": place.config | {"timeouts": {"reconnect": 0}}}}) as bus:
        async with away(place, bus):
            for _ in range(3):
                before = starts(tmp_path)
                with pytest.raises(ServerDown, match="away"):
                    await bus.call("a_echo", {"text": "x"})
                assert starts(tmp_path) > before
        # An attempt failed a moment ago; this call does not fail because of that.
        assert (await bus.call("a_echo", {"text": "back"})).text == "back"


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_of_many_calls_at_the_moment_of_a_loss_none_fails_that_was_not_sent(
    era: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with ExitStack() as stack:
        place = web_place("http", tmp_path, stack)
        config = place.config | {"era": era, "timeouts": {"reconnect": 600}}
        async with Toolbus({"servers": {"a": config}}) as bus:
            for _ in range(3 if request.config.getoption("--full") else 1):
                await asyncio.gather(*(bus.call("a_echo", {"text": "x"}) for _ in range(30)))
                place.go()  # has ended before the loop could see that
                calls = [asyncio.create_task(bus.call("a_echo", {"text": "x"})) for _ in range(30)]
                await until(lambda: not is_ready(bus))
                await asyncio.to_thread(place.come)
                assert {(await call).text for call in calls} == {"x"}


async def test_a_call_waits_no_longer_than_its_own_timeout(tmp_path: Path) -> None:
    place = process_place(tmp_path)
    config = {"servers": {"a": place.config | {"timeouts": {"reconnect": 600}}}}
    async with asyncio.timeout(PATIENCE), Toolbus(config) as bus, away(place, bus):
        with pytest.raises(ServerDown) as caught:
            await bus.call("a_echo", {"text": "x"}, timeout=0.05)
    assert caught.value.state == "retrying"


async def test_recover_of_a_call_goes_before_that_of_the_config(tmp_path: Path) -> None:
    place = process_place(tmp_path)
    async with Toolbus({"servers": {"a": place.config}, "timeouts": {"reconnect": 600}}) as bus:
        assert bus.config.servers["a"].timeouts.reconnect == 600
        async with away(place, bus):
            waiting = asyncio.create_task(bus.call("a_echo", {"text": "waited"}))
            with pytest.raises(ServerDown, match="away"):
                await bus.call("a_echo", {"text": "x"}, reconnect_timeout=0)
            with pytest.raises(ValueError, match="reconnect_timeout must be 0 seconds or more, not -1"):
                await bus.call("a_echo", {"text": "x"}, reconnect_timeout=-1)
            assert not waiting.done()
        assert (await waiting).text == "waited"


async def test_a_call_with_an_open_breaker_waits_for_the_outcome_of_its_own_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backoff, "INITIAL_PAUSE", 0.01)
    place = process_place(tmp_path)
    async with Toolbus({"servers": {"a": place.config | {"timeouts": {"reconnect": 0}}}}) as bus:
        async with away(place, bus):
            await until(lambda: bus.servers["a"].state == "failed")
            assert starts(tmp_path) == backoff.BREAKER_THRESHOLD
        assert (await bus.call("a_echo", {"text": "back"})).text == "back"


async def test_processes_are_started_once_a_second_at_most_however_many_calls_wait(tmp_path: Path) -> None:
    place = process_place(tmp_path)
    async with Toolbus({"servers": {"a": place.config | {"timeouts": {"reconnect": 600}}}}) as bus:
        loop = asyncio.get_running_loop()
        async with away(place, bus):
            began = loop.time()
            calls = [asyncio.create_task(bus.call("a_echo", {"text": "x"})) for _ in range(50)]
            await until(lambda: starts(tmp_path) > backoff.BREAKER_THRESHOLD + 2)
            taken = loop.time() - began
        await asyncio.gather(*calls)
    # The first ones are made sooner, with growing pauses.
    assert starts(tmp_path) <= 1 + backoff.BREAKER_THRESHOLD + 2 + taken / ON_DEMAND_EVERY


class Gone:
    """A secret that is there at first."""

    def __init__(self) -> None:
        self.value: str | None = "s3cret"

    def __call__(self, name: str) -> str | None:
        return self.value


async def test_a_server_whose_command_or_secret_is_gone_fails_its_calls_at_once(tmp_path: Path) -> None:
    program, secret = tmp_path / "program", Gone()
    program.symlink_to(sys.executable)
    lost, kept = process_place(tmp_path / "lost"), process_place(tmp_path / "kept")
    servers = {
        "command": lost.config | {"command": str(program), "timeouts": {"reconnect": 600}},
        "secret": kept.config | {"env": {"TOKEN": "${TOKEN}"}, "timeouts": {"reconnect": 600}},
    }
    async with Toolbus({"servers": servers}, get_secret=secret) as bus:
        program.unlink()
        secret.value = None
        lost.go()
        kept.go()
        await until(lambda: all(status.state != "ready" for status in bus.servers.values()))
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(ServerDown, match=r"spawn failed: command .* not found"):
                await bus.call("command_echo", {"text": "x"})
            with pytest.raises(ServerDown, match="secret 'TOKEN' is not set"):
                await bus.call("secret_echo", {"text": "x"})


async def test_a_server_that_refuses_our_credentials_after_a_restart_fails_calls_at_once() -> None:
    with recording() as record:
        async with Toolbus({"servers": {"a": {"url": record.url}}, "timeouts": {"reconnect": 600}}) as bus:
            for method in ("tools/call", "initialize", "server/discover"):
                record.statuses[method] = 401
            await bus.health()
            async with asyncio.timeout(PATIENCE):
                for _ in range(2):
                    with pytest.raises(Exception, match="401"):
                        await bus.call("a_look")


async def test_an_outage_is_reported_once_and_not_at_every_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backoff, "INITIAL_PAUSE", 0.01)
    monkeypatch.setattr(backoff, "MAX_PAUSE", 0.05)
    heard: list[Event] = []
    with ExitStack() as stack:
        place = web_place("http", tmp_path, stack)
        async with Toolbus({"servers": {"a": place.config}}, on_event=heard.append) as bus:
            async with away(place, bus):
                await until(lambda: bus.servers["a"].state == "failed")
                told = len([event for event in heard if isinstance(event, StateChanged)])
                await asyncio.sleep(1)
                assert len([event for event in heard if isinstance(event, StateChanged)]) == told
            await until(lambda: is_ready(bus))
    states = [event.state for event in heard if isinstance(event, StateChanged)]
    assert states[:3] == ["connecting", "ready", "retrying"]
    assert states[-3:] == ["failed", "ready", "closed"]


async def test_wait_ready_returns_when_all_are_ready_or_cannot_be(tmp_path: Path) -> None:
    servers = {
        "good": process_place(tmp_path / "good").config,
        "lazy": process_place(tmp_path / "lazy").config | {"lazy": True},
        "broken": {"command": "no-such-program"},
    }
    async with Toolbus({"servers": servers}) as bus:
        async with asyncio.timeout(PATIENCE):
            states = {
                alias: status.state for alias, status in (await bus.wait_ready(timeout=PATIENCE)).items()
            }
            assert states == {"good": "ready", "lazy": "idle", "broken": "failed"}
            assert (await bus.wait_ready("lazy"))["lazy"].state == "ready"
            assert list(await bus.wait_ready(["good", "lazy"])) == ["good", "lazy"]
        with pytest.raises(ServerNotFound, match="did you mean 'good'"):
            await bus.wait_ready("god")


async def test_wait_ready_does_not_raise_when_its_time_is_over_and_waits_for_a_server_that_comes_back(
    tmp_path: Path,
) -> None:
    place = process_place(tmp_path)
    async with Toolbus({"servers": {"a": place.config}}) as bus:
        async with away(place, bus):
            assert (await bus.wait_ready(timeout=0.2))["a"].state in ("retrying", "failed")
            waiting = asyncio.create_task(bus.wait_ready(timeout=PATIENCE))
        assert (await waiting)["a"].state == "ready"


def test_wait_ready_without_a_loop(tmp_path: Path) -> None:
    with SyncToolbus({"servers": {"a": process_place(tmp_path).config}}) as bus:
        assert {alias: status.state for alias, status in bus.wait_ready().items()} == {"a": "ready"}
        assert bus.call("a_echo", {"text": "x"}, reconnect_timeout=1).text == "x"
