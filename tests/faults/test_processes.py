"""No server and none of its children outlives us, however we end."""

import asyncio
import gc
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.conftest import plain, sampled
from tests.patience import wait_until
from tests.processes import alive, children
from toolbus import Toolbus, connect_mcp

CLIENT = Path(__file__).with_name("client.py")


def started() -> tuple[subprocess.Popen[str], set[int]]:
    """A client with servers that ignore everything and have children that do; and all their numbers."""
    servers = {"stays": plain("stay", "leave_child"), "leaves": plain("leave_child")}
    client = subprocess.Popen(
        [sys.executable, str(CLIENT), json.dumps({"servers": servers})],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert client.stdout is not None
    lines = iter(client.stdout.readline, "")
    grandchildren = {int(line) for line in iter(lambda: next(lines).strip(), "ready")}
    family = children() - {client.pid}
    assert len(grandchildren) == 2
    assert grandchildren < family
    return client, family


def wait_gone(family: set[int]) -> None:
    """Wait until none of them is left."""
    wait_until(lambda: not any(map(alive, family)))


# Without a handler, SIGTERM is as sudden as SIGKILL.
SIGNALS = sampled([signal.SIGKILL, signal.SIGTERM, signal.SIGINT], signal.SIGKILL, signal.SIGINT)


@pytest.mark.parametrize("sign", SIGNALS, ids=lambda sign: sign.name)
def test_servers_and_their_children_are_gone_soon_after_us(sign: signal.Signals) -> None:
    before = children()
    client, family = started()
    family -= before
    client.send_signal(sign)
    client.communicate()
    wait_gone(family)


def test_an_interpreter_that_just_ends_leaves_nothing(tmp_path: Path) -> None:
    before = children()
    program = (
        "import json, os, sys\n"
        "from toolbus.sync import SyncToolbus\n"
        "bus = SyncToolbus(json.loads(sys.argv[1]))\n"
        "bus.start()\n"
        "print(bus.call('a_echo').text)\n"
    )
    config = json.dumps({"servers": {"a": plain("stay", "leave_child")}})
    done = subprocess.run([sys.executable, "-c", program, config], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    wait_gone({int(done.stdout)})
    wait_gone(children() - before)


def test_a_reaper_that_was_killed_and_started_again_leaves_no_descriptor() -> None:
    program = (
        "import os, pathlib, signal\n"
        "from toolbus.connect.transports.process.grouped import reaper\n"
        "children = pathlib.Path(f'/proc/self/task/{os.getpid()}/children')\n"
        "def restart():\n"
        "    reaper.forget(0)\n"
        "    shell = int(children.read_text())\n"
        "    os.kill(shell, signal.SIGKILL)\n"
        "    os.waitid(os.P_PID, shell, os.WEXITED | os.WNOWAIT)\n"
        "    return len(os.listdir('/proc/self/fd'))\n"
        "print(len({restart() for _ in range(5)}))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("1\n", "")


@pytest.mark.anyio
async def test_a_failed_start_and_a_cancelled_one_leave_nothing() -> None:
    before = children()
    async with Toolbus({"servers": {"a": plain("never_answer", "leave_child", timeouts={"connect": 0.5})}}):
        pass
    wait_gone(children() - before)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await connect_mcp(plain("never_answer", "leave_child"))
    wait_gone(children() - before)


@pytest.mark.anyio
@pytest.mark.parametrize("count", sampled([40, 100], 40))
async def test_many_connections_leave_no_descriptor_thread_task_or_memory(count: int) -> None:
    async def cycle() -> None:
        async with connect_mcp(plain(era="legacy")) as mcp:
            assert (await mcp.call_tool("echo", {"text": "x"})).text == "x"

    def held() -> tuple[int, int, int]:
        gc.collect()
        return len(os.listdir("/proc/self/fd")), threading.active_count(), len(asyncio.all_tasks())

    for _ in range(10):
        await cycle()
    before, memory = held(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(count):
        await cycle()
    # Fewer are fine: those of an earlier test may have ended meanwhile.
    assert all(after <= count for after, count in zip(held(), before, strict=True))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 2 * 1024


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": True})], ids=["uvloop"])
async def test_processes_start_and_end_on_another_event_loop() -> None:
    before = children()
    async with connect_mcp(plain("stay", "leave_child")) as mcp:
        child = int((await mcp.call_tool("echo", {"text": "x" * 1_000_000})).text)
        assert child in children()
    wait_gone(children() - before)
