"""The processes beside the servers: they end with the last bus of a program, and come back with the next."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import asyncio, os, sys, threading
from toolbus import Toolbus
from toolbus.sync import SyncToolbus
from tests.patience import until
from tests.processes import children
{reaper}

CONFIG = {{"servers": {{"s": {{"command": sys.executable, "args": [{server!r}]}}}}}}

def helpers():
    return children(keepers=True)

def zombies():
    try:
        return os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return "none"

async def main():
    {body}

asyncio.run(main())
print("helpers", len(helpers()), "zombies", zombies())
"""
NO_GUARD = "from toolbus.connect.transports.process import start; start.can_guard = lambda: False"
SERVER = str(Path(__file__).parents[1] / "servers" / "plain.py")


def run(body: str, *, reaper: bool = False) -> list[str]:
    """The output of the program; its buses all have the same server."""
    text = PROGRAM.format(
        body="\n    ".join(body.strip().splitlines()), server=SERVER, reaper=NO_GUARD * reaper
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("reaper", [False, True])
def test_nothing_is_left_after_the_last_bus_and_the_next_one_works(reaper: bool) -> None:
    body = """
for _ in range(2):
    async with Toolbus(CONFIG) as bus:
        print(bus.servers["s"].state, len(helpers()) >= 2)
    print(len(helpers()), zombies())
"""
    assert run(body, reaper=reaper) == ["ready True", "0 none"] * 2 + ["helpers 0 zombies none"]


@pytest.mark.parametrize("reaper", [False, True])
def test_the_helpers_stay_while_another_bus_is_open(reaper: bool) -> None:
    body = """
async with Toolbus(CONFIG) as first:
    before = helpers()
    async with Toolbus(CONFIG):
        pass
    await until(lambda: helpers() == before)  # what kept the other server ends a moment after it
    print((await first.health())["s"].ok)
"""
    assert run(body, reaper=reaper) == ["True", "helpers 0 zombies none"]


def test_a_bus_in_another_thread_keeps_its_servers() -> None:
    body = """
def use(opened, done):
    with SyncToolbus(CONFIG) as bus:
        opened.set()
        done.wait(60)
        print("thread", bus.health()["s"].ok)
opened, done = threading.Event(), threading.Event()
thread = threading.Thread(target=use, args=(opened, done))
async with Toolbus(CONFIG):
    thread.start()
    await asyncio.to_thread(opened.wait, 60)
done.set()
await asyncio.to_thread(thread.join)
"""
    assert run(body) == ["thread True", "helpers 0 zombies none"]


def test_a_fork_has_helpers_of_its_own_and_ends_them() -> None:
    body = """
async with Toolbus(CONFIG) as bus:
    if (child := os.fork()) == 0:
        async def in_child():
            async with Toolbus(CONFIG) as own:
                print("child", own.servers["s"].state)
            print("child helpers", len(helpers()), flush=True)
        thread = threading.Thread(target=asyncio.run, args=(in_child(),))
        thread.start()
        thread.join()
        os._exit(0)
    await asyncio.to_thread(os.waitpid, child, 0)
    print("parent", (await bus.health())["s"].ok)
"""
    assert run(body) == ["child ready", "child helpers 0", "parent True", "helpers 0 zombies none"]


def test_a_server_added_to_an_open_bus_is_guarded() -> None:
    body = """
async with Toolbus({"servers": {}}) as bus:
    print(len(helpers()))
    await bus.add_server("s", CONFIG["servers"]["s"])
    print(bus.servers["s"].state, len(helpers()) >= 2)
"""
    assert run(body) == ["0", "ready True", "helpers 0 zombies none"]
