"""Without a provider, telemetry costs nothing to speak of."""

import subprocess
import sys

from tests.budget import pieces_of
from tests.conftest import SERVERS
from tests.inside.config import Telemetry
from tests.inside.core import Operation, Origin, ToolSpec
from tests.inside.telemetry import BusTelemetry, RequestArrival, ServerTelemetry
from tests.patience import PATIENCE
from toolbus.config import load_config

CALLS, ROUNDS = 20_000, 5
MOST = 3 / 1.25e3 * CALLS
"""Pieces for all calls: 3 us for each, on a machine on which a piece takes 1.25 ms."""
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
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert done.stdout.split("\n") == ["hello", "", ""]


def test_a_call_without_a_provider_costs_at_most_3_us() -> None:
    telemetry = BusTelemetry(load_config({"servers": {"a": {"command": "a"}}}))
    operation = Operation(spec=ToolSpec(name="a_b", origin=Origin("a", "b")), arguments={})
    assert telemetry.start(operation) is None

    def calls() -> None:
        for _ in range(CALLS):
            telemetry.start(operation)

    assert min(pieces_of(calls) for _ in range(ROUNDS)) <= MOST


def test_a_request_of_a_client_without_a_provider_costs_at_most_3_us() -> None:
    telemetry = ServerTelemetry(Telemetry())

    def requests() -> None:
        for _ in range(CALLS):
            with telemetry.request("tools/call", {"name": "a"}, RequestArrival(request_id=1)) as span:
                span.answered({})

    assert min(pieces_of(requests) for _ in range(ROUNDS)) <= MOST
