"""Messages before an answer arrive before the answer: logs and progress, in order."""

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

from tests import warm
from tests.conftest import sampled
from tests.gateway.driving import FORWARDS
from tests.gateway.front import front, tool_call
from tests.gateway.serving import Config, end, wait_until
from tests.gateway.test_stdio import HELLO, Wire
from tests.inside.connect import incoming
from tests.inside.core import CallEnded, Event, Logged, Progressed
from tests.inside.gateway import Gateway, serve_stdio
from tests.patience import PATIENCE
from toolbus import ServerRejected, Toolbus

pytestmark = pytest.mark.anyio
RUNS, COUNT = 200, 5
SERVER = Path(__file__).parents[1] / "servers" / "bursting.py"
LEVEL = {"io.modelcontextprotocol/logLevel": "debug"}
Era = Literal["modern", "legacy"]
BACKS = ["modern-http", "modern-stdio", "legacy-http", "legacy-stdio"]
CELLS = [(front, era, back) for front in ("http", "stdio") for era in ("modern", "legacy") for back in BACKS]
KEPT = (
    ("http", "legacy", "modern-http"),
    ("http", "modern", "legacy-stdio"),
    ("stdio", "legacy", "legacy-http"),
    ("stdio", "modern", "modern-stdio"),
)
BURST = [kind for number in range(1, COUNT + 1) for kind in (("log", number), ("progress", number))]


@contextmanager
def bursting(kind: str, folder: Path) -> Generator[Config]:
    """The config of a server that sends all at once: `modern-http`, `legacy-stdio`, ..."""
    era, _, transport = kind.partition("-")
    if transport == "stdio":
        yield {"command": warm.python(), "args": [str(SERVER), "stdio"], "era": era}
        return
    port_file = folder / "port"
    process = subprocess.Popen([warm.python(), str(SERVER), "http", str(port_file)])
    try:
        wait_until(port_file.exists, process, SERVER.name)
        yield {"url": f"http://127.0.0.1:{port_file.read_text()}/mcp", "era": era}
    finally:
        end(process)


def heard(messages: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    """The messages of a client, in short."""
    found: list[tuple[str, Any]] = []
    for message in messages:
        params: dict[str, Any] = message.get("params", {})
        match message.get("method"):
            case "notifications/message":
                found.append(("log", params["data"]))
            case "notifications/progress":
                found.append(("progress", params["progress"]))
            case None:
                found.append(("answer", message.get("result", message.get("error"))))
            case _:
                pass
    return [(kind, "" if kind == "answer" else value) for kind, value in found]


class HttpClient:
    def __init__(self, post: Any) -> None:
        self._post = post

    async def call(self, **arguments: Any) -> list[dict[str, Any]]:
        response = await self._post(arguments)
        lines = (line for line in response.text.splitlines() if line.startswith("data: {"))
        return [json.loads(line.removeprefix("data: ")) for line in lines] or [response.json()]


class PipeClient:
    def __init__(self, wire: Wire, era: Era) -> None:
        self._wire = wire
        self._is_modern = era == "modern"

    async def call(self, times: int = 1, **arguments: Any) -> list[dict[str, Any]]:
        """All messages until `times` concurrent calls are answered."""
        params = {"name": "burst", "arguments": arguments, "_meta": {**LEVEL, "progressToken": "t"}}
        if not self._is_modern:
            params["_meta"] = {"progressToken": "t"}
        numbers = [self._wire.begin("tools/call", params, modern=self._is_modern) for _ in range(times)]
        got: list[dict[str, Any]] = []
        while sum(message.get("id") in numbers for message in got) < times:  # in any order
            got.append(await self._wire.next())
        return got


@asynccontextmanager
async def http_client(config: dict[str, Any], era: Era) -> AsyncGenerator[HttpClient]:
    async with front(config=config) as served:
        session = None if era == "modern" else await served.opened()

        async def post(arguments: dict[str, Any]) -> Any:
            if session is not None:
                return await session.post(tool_call("burst", token="t", **arguments))
            meta = {**LEVEL, "progressToken": "t"}
            return await served.modern("tools/call", {"name": "burst", "arguments": arguments, "_meta": meta})

        yield HttpClient(post)


@asynccontextmanager
async def pipe_client(config: dict[str, Any], era: Era) -> AsyncGenerator[PipeClient]:
    inward, to_gateway = os.pipe()
    from_gateway, outward = os.pipe()
    reader, loop = asyncio.StreamReader(limit=2**24), asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(from_gateway, "rb")
    )
    bus, stdin = Toolbus(config, interactions=FORWARDS), os.fdopen(to_gateway, "wb", buffering=0)
    with os.fdopen(inward, "rb") as taken, os.fdopen(outward, "wb", buffering=0) as given:
        async with bus, Gateway(bus) as gateway:
            serving = asyncio.create_task(serve_stdio(gateway, taken, given))
            wire = Wire(reader, stdin.write)
            try:
                if era == "legacy":
                    await wire.request("initialize", HELLO)
                yield PipeClient(wire, era)
            finally:
                stdin.close()
                await asyncio.wait_for(serving, PATIENCE)
    transport.close()


@pytest.mark.parametrize("cell", sampled(CELLS, *KEPT), ids="-".join)
async def test_a_client_gets_all_that_was_sent_before_the_answer_first(
    cell: tuple[str, Era, str], tmp_path: Path
) -> None:
    place, era, back = cell
    with bursting(back, tmp_path) as server:
        config = {"servers": {"burst": {**server, "prefix": ""}}}
        async with http_client(config, era) if place == "http" else pipe_client(config, era) as client:
            for run in range(RUNS):
                got = await client.call(count=COUNT, fail=run % 5 == 0)
                assert heard(got) == [*BURST, ("answer", "")], f"run {run}: {got}"


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_client_gets_the_messages_of_calls_at_the_same_time(era: Era, tmp_path: Path) -> None:
    """Over a pipe, nobody knows to which call a log message belongs; its client still gets it, in order."""
    with bursting(f"{era}-stdio", tmp_path) as server:
        async with pipe_client({"servers": {"burst": {**server, "prefix": ""}}}, era) as client:
            for run in range(RUNS // 4):
                got = heard(await client.call(times=3, count=COUNT))
                assert [one for one in got if one[0] != "answer"] == BURST * 3, f"run {run}: {got}"
                answers = [place for place, (kind, _) in enumerate(got) if kind == "answer"]
                for earlier, place in enumerate(answers):
                    assert place - earlier >= len(BURST) * (earlier + 1), f"run {run}: {got}"


@pytest.mark.parametrize("back", BACKS)
async def test_a_program_gets_all_that_was_sent_before_the_answer_first(back: str, tmp_path: Path) -> None:
    """Handlers of a call have finished, also slow ones, and events are emitted, when the call returns."""
    with bursting(back, tmp_path) as server:
        async with Toolbus({"servers": {"burst": {**server, "prefix": ""}}}) as bus:
            events: list[Event] = []
            bus.on_event(events.append)
            for run in range(RUNS):
                got: list[tuple[str, Any]] = []

                async def on_progress(done: float, total: float | None, text: str | None) -> None:
                    for _ in range(3):  # a handler that takes its time
                        await asyncio.sleep(0)
                    got.append(("progress", done))  # noqa: B023

                def on_log(logged: Logged) -> None:
                    got.append(("log", logged.data))  # noqa: B023

                arguments = {"count": COUNT, "fail": run % 5 == 0}
                events.clear()
                try:
                    await bus.call("burst", arguments, on_progress=on_progress, on_log=on_log)
                except ServerRejected:
                    assert arguments["fail"]
                assert [one for one in got if one[0] == "log"] == BURST[::2], f"run {run}"
                assert [one for one in got if one[0] == "progress"] == BURST[1::2], f"run {run}"
                kinds = [
                    type(event) for event in events if isinstance(event, Logged | Progressed | CallEnded)
                ]
                assert kinds.index(CallEnded) == len(kinds) - 1 == 2 * COUNT, f"run {run}: {kinds}"


@pytest.mark.parametrize("back", BACKS)
async def test_a_handler_may_call_the_server_again(back: str, tmp_path: Path) -> None:
    """A call in a handler waits for no handler that waits for it."""
    with bursting(back, tmp_path) as server:
        async with Toolbus({"servers": {"burst": {**server, "prefix": ""}}}) as bus:
            inner: list[str] = []

            async def on_progress(done: float, total: float | None, text: str | None) -> None:
                inner.append((await bus.call("burst", {"count": 1})).text)
                task = asyncio.create_task(bus.call("burst", {"count": 1}))
                inner.append((await task).text)

            async with asyncio.timeout(PATIENCE):
                await bus.call("burst", {"count": COUNT}, on_progress=on_progress)
            assert inner == ["done"] * 2 * COUNT


async def test_a_handler_that_never_returns_does_not_keep_the_result(tmp_path: Path) -> None:
    with bursting("legacy-stdio", tmp_path) as server:
        async with Toolbus({"servers": {"burst": {**server, "prefix": ""}}}) as bus:

            async def on_progress(done: float, total: float | None, text: str | None) -> None:
                await asyncio.Event().wait()

            async with asyncio.timeout(PATIENCE):
                slow = asyncio.create_task(bus.call("burst", {"count": 1}, on_progress=on_progress))
                while not slow.done():  # other calls do not wait for the handlers of this one
                    assert (await bus.call("burst", {"count": 1})).text == "done"
                assert slow.result().text == "done"


@pytest.mark.parametrize("back", ["modern-http", "legacy-stdio"])
async def test_an_answer_in_time_is_no_timeout_because_of_a_slow_handler(
    back: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incoming, "REPORTS_WITHIN", PATIENCE)
    with bursting(back, tmp_path) as server:
        async with Toolbus({"servers": {"burst": {**server, "prefix": ""}}}) as bus:
            done: list[float] = []

            async def on_progress(progress: float, total: float | None, text: str | None) -> None:
                await asyncio.sleep(2.5)  # until after the timeout
                done.append(progress)

            result = await bus.call("burst", {"count": 2}, timeout=2, on_progress=on_progress)
            assert (result.text, done) == ("done", [1.0, 2.0])
