"""One trace from the program to the server, exported by both over OTLP, as it was on the wire."""

import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from tests import warm
from tests.patience import PATIENCE
from tests.telemetry.collected import Collected, id_of
from tests.telemetry.receiver import Receiver, receiving
from toolbus import Toolbus
from toolbus.sync import SyncToolbus

pytestmark = pytest.mark.anyio
SERVER = str(Path(__file__).with_name("traced_server.py"))


@contextmanager
def served(transport: str, receiver: Receiver, folder: Path) -> Generator[dict[str, Any]]:
    """A server entry for a server that exports its spans."""
    if transport == "stdio":
        yield {"command": warm.python(), "args": [SERVER, receiver.url, "stdio"]}
        return
    port_file = folder / "port"
    process = subprocess.Popen([warm.python(), SERVER, receiver.url, "http", str(port_file)])
    try:
        deadline = time.monotonic() + PATIENCE
        while not port_file.exists():
            assert process.poll() is None, "the server ended at once"
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.005)
        yield {"url": f"http://127.0.0.1:{port_file.read_text()}/mcp"}
    finally:
        process.terminate()
        process.wait(PATIENCE)


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_one_trace_from_the_program_to_the_server(
    transport: str, era: str, collected: Collected, tmp_path: Path
) -> None:
    with receiving() as receiver, served(transport, receiver, tmp_path) as server:
        exporter = SimpleSpanProcessor(OTLPSpanExporter(receiver.url))
        collected.provider.add_span_processor(exporter)
        async with Toolbus({"servers": {"day": {**server, "era": era}}}) as bus:
            with collected.tracer.start_as_current_span("agent") as agent:
                await bus.call("day_add", {"a": 1, "b": 2})
                await bus.read_resource("day", "memo://greeting")
        trace = agent.get_span_context().trace_id.to_bytes(16, "big")
        for name in ("tools/call add", "resources/read"):
            found = {received.kind: received for received in receiver.of(name, 2)}
            client, behind = found["CLIENT"], found["SERVER"]
            assert client.span.parent_span_id == agent.get_span_context().span_id.to_bytes(8, "big")
            assert behind.span.parent_span_id == client.span.span_id
            assert {client.span.trace_id, behind.span.trace_id} == {trace}
            assert behind.service == "server"
            assert behind.attributes["jsonrpc.request.id"] == client.attributes["jsonrpc.request.id"]
        # Nor is there a second span of any request of the handshake.
        clients = [received for received in receiver.spans if received.kind == "CLIENT"]
        servers = [received for received in receiver.spans if received.kind == "SERVER"]
        below = [received.span.parent_span_id for received in servers]
        assert len(set(below)) == len(below)
        assert {received.span.span_id for received in clients} >= {
            received.span.parent_span_id
            for received in servers
            if not received.span.name.startswith("notifications/")
        }


def test_a_call_from_a_thread_is_in_the_trace_of_that_thread(collected: Collected, tmp_path: Path) -> None:
    with receiving() as receiver, served("stdio", receiver, tmp_path) as server:
        with (
            SyncToolbus({"servers": {"day": server}}) as bus,
            collected.tracer.start_as_current_span("thread") as outer,
        ):
            bus.call("day_add", {"a": 1, "b": 2})
        (behind,) = receiver.of("tools/call add", 1)
    client = collected.one("tools/call add")
    assert client.parent == outer.get_span_context()
    assert behind.span.parent_span_id == id_of(client).to_bytes(8, "big")
