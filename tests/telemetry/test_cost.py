"""Without a provider, telemetry costs nothing to speak of."""

import subprocess
import sys
from time import thread_time

from tests.conftest import SERVERS
from toolbus.config import load_config
from toolbus.config.telemetry import Telemetry
from toolbus.core.operation import Operation
from toolbus.core.records import Origin, ToolSpec
from toolbus.telemetry.observer import BusTelemetry
from toolbus.telemetry.serving import Inbound, ServerTelemetry

CALLS, ROUNDS = 20_000, 5
MOST = 3e-6
"""Seconds of a CPU for each call."""
PROGRAM = """
import asyncio, sys
from toolbus import Toolbus

async def main():
    async with Toolbus({"servers": {"a": {"command": sys.executable, "args": sys.argv[1:]}}}) as bus:
        print((await bus.call("a_echo", {"text": "hello"})).text)

asyncio.run(main())
names = ("opentelemetry.sdk", "opentelemetry.metrics", "toolbus.telemetry.spans")
print(*(name for name in names if name in sys.modules))
"""


def test_nothing_is_imported_for_a_program_without_a_provider() -> None:
    command = [sys.executable, "-c", PROGRAM, str(SERVERS / "plain.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split("\n") == ["hello", "", ""]


def test_a_call_without_a_provider_costs_at_most_3_us() -> None:
    telemetry = BusTelemetry(load_config({"servers": {"a": {"command": "a"}}}))
    operation = Operation(spec=ToolSpec(name="a_b", origin=Origin("a", "b")), arguments={})
    assert telemetry.start(operation) is None
    taken: list[float] = []
    for _ in range(ROUNDS):
        began = thread_time()
        for _ in range(CALLS):
            telemetry.start(operation)
        taken.append((thread_time() - began) / CALLS)
    assert min(taken) <= MOST


def test_a_request_of_a_client_without_a_provider_costs_at_most_3_us() -> None:
    telemetry = ServerTelemetry(Telemetry())
    taken: list[float] = []
    for _ in range(ROUNDS):
        began = thread_time()
        for _ in range(CALLS):
            with telemetry.request("tools/call", {"name": "a"}, Inbound(request_id=1)) as span:
                span.answered({})
        taken.append((thread_time() - began) / CALLS)
    assert min(taken) <= MOST
