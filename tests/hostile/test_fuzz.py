"""Any message at any moment: no reader stops, no foreign exception, and a call ends or keeps waiting."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from mcp.shared.exceptions import MCPError

from tests.hostile.strategies import WRITTEN
from tests.inside.config import Redactor
from tests.inside.connect import JsonRpcPeer, ResponseFuture
from tests.properties import modest
from toolbus.config import load_server

CONFIG = load_server(
    {"url": "http://127.0.0.1:9/mcp", "limits": {"message": 10_000, "values": 300}}, alias="a"
)


async def _take(written: list[bytes]) -> list[str]:
    """Feed all bytes to a connection with one request in flight; returns the outcome."""
    sent: list[bytes] = []

    async def send(
        data: bytes, headers: Mapping[str, str] | None = None, response: ResponseFuture | None = None
    ) -> None:
        sent.append(data)

    async def on_request(context: Any, method: str, params: Any) -> dict[str, Any]:
        raise MCPError(code=-32601, message="no such method")

    async def on_notify(context: Any, method: str, params: Any) -> None: ...

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        assert (type(progress), type(message)) in ((float, str), (float, type(None)))

    peer = JsonRpcPeer("test", send, redacted=Redactor(), on_invalid=lambda nth, data: None, config=CONFIG)
    running = asyncio.create_task(peer.run(on_request, on_notify))
    await asyncio.sleep(0)
    call = asyncio.create_task(peer.send_raw_request("tools/call", {}, {"on_progress": on_progress}))
    await asyncio.sleep(0)
    for data in written:
        peer.feed(data)
    for _ in range(5):
        await asyncio.sleep(0)
    assert not running.done()
    was_done = call.done()
    peer.close("the end")
    (ended,) = await asyncio.gather(call, return_exceptions=True)
    await running
    assert isinstance(ended, dict | MCPError)
    for data in sent:
        json.loads(data)
    return ["done" if was_done else "waits", type(ended).__name__]


@modest
@given(st.lists(WRITTEN, max_size=4))
@example([b'{"id":1,"error":null,"result":{}}'])
@example(
    [b'{"method":"notifications/progress","params":{"progressToken":1,"progress":1' + b"0" * 400 + b"}}"]
)
@example([b"[" * 5_000 + b"]" * 5_000])
@example([b'{"id":1,"result":' + b"[" * 5_000 + b"]" * 5_000 + b"}"])
@example([b'{"id":1,"result":{"a":[' + b"[]," * 500 + b"1]}}"])
@example([b'{"id":1' + b"0" * 5_000 + b',"result":{}}'])
@example([b'{"id":"\\ud800","method":"roots/list"}', b'{"id":"q","method":"roots/list"}'])
@example([b'{"id":NaN,"method":"ping"}', b'{"id":"\\ud800","method":"ping"}'])
def test_any_messages(written: list[bytes]) -> None:
    """The reader survives any input, and its output is valid JSON."""
    asyncio.run(_take(written))


def test_an_error_that_is_null_beside_a_result() -> None:
    """It is a result."""
    assert asyncio.run(_take([b'{"id":1,"error":null,"result":{}}'])) == ["done", "dict"]
