"""The effects of failures on a program: each trial has one client and real servers.

A trial returns its observation in a few words: the cell of the table. `python -m bench.compare.trials LABEL
PEER` runs one.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter
from typing import TypeAlias

from bench.compare.peers import PEERS, Entry, Peer
from tests.processes import alive

PATIENCE = 15.0
"""Seconds that a client may take for anything."""
AFTER_DEATH = 5.0
"""Seconds that a server process may live on after its client was killed."""
CALLS = 3
"""Calls made after a server was killed."""
HOLD = "hold"
ROOT = Path(__file__).parents[2]
Trial: TypeAlias = Callable[[Peer], Awaitable[str]]


def stdio_entry(name: str, *more: str) -> Entry:
    """The server of the trials, as a process."""
    return {"command": sys.executable, "args": [str(Path(__file__).with_name("server.py")), name, *more]}


async def kill_a_server(peer: Peer) -> str:
    """Kill the process of a stdio server, then call it."""
    async with peer.open({"one": stdio_entry("one")}) as connected:
        pid = int(await connected.call("one", "pid", ""))
        os.kill(pid, signal.SIGKILL)
        await _wait_for_the_end(pid, PATIENCE)
        await asyncio.sleep(0.1)  # its threads end after it, and the client's loop gets a chance to notice
        failures: list[str] = []
        for _ in range(CALLS):
            try:
                async with asyncio.timeout(PATIENCE):
                    answer = await connected.call("one", "echo", "hello")
            except TimeoutError:
                failures.append(f"no answer in {PATIENCE:.0f} s")
            except Exception as error:
                failures.append(type(error).__name__)
            else:
                assert answer == "hello", answer
                return f"works after {len(failures)} failed" if failures else "works"
    return f"{CALLS} of {CALLS} calls fail: {failures[0]}"


async def hang_at_start(peer: Peer) -> str:
    """Connect to three servers of which one never answers, then call another one."""
    servers = {"a": stdio_entry("a"), "b": stdio_entry("b", "silent"), "c": stdio_entry("c")}
    began = perf_counter()
    async with peer.open(servers) as connected:
        assert await connected.call("c", "echo", "hello") == "hello"
        return f"answer after {perf_counter() - began:.1f} s"


async def change_tools(peer: Peer) -> str:
    """Let a server add a tool while a client is connected to it."""
    async with peer.open({"one": stdio_entry("one")}) as connected:
        await connected.list_tools()
        await connected.call("one", "grow", "")
        if connected.known_tools is not None:
            deadline = perf_counter() + PATIENCE
            while perf_counter() < deadline:
                if any(name.endswith("grown") for name in connected.known_tools()):
                    return "appears automatically"
                await asyncio.sleep(0.01)
        seen = any(name.endswith("grown") for name in await connected.list_tools())
        return "only after listing again" if seen else "not seen"


async def use_one_server_twice(peer: Peer) -> str:
    """Connect to the same server program twice, as for two accounts."""
    servers = {"home": stdio_entry("notes"), "work": stdio_entry("notes")}
    async with peer.open(servers) as connected:
        for server in servers:
            assert await connected.call(server, "echo", server) == server
        return "both can be called"


async def close_in_another_task(peer: Peer) -> str:
    """Open a client in one task and close it in another."""
    opening = peer.open({"one": stdio_entry("one")})
    connected = await asyncio.create_task(opening.__aenter__())
    assert await connected.call("one", "echo", "hello") == "hello"
    await asyncio.create_task(opening.__aexit__(None, None, None))
    return "works"


async def kill_the_client(peer: Peer) -> str:
    """Kill a client while its server is busy; look for the server's process."""
    command = [sys.executable, "-m", "bench.compare.trials", HOLD, peer.name]
    client = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert client.stdout is not None
    pid = int(await client.stdout.readline())
    client.kill()
    await client.wait()
    began = perf_counter()
    if await _wait_for_the_end(pid, AFTER_DEATH):
        return f"gone after {perf_counter() - began:.2f} s"
    os.kill(pid, signal.SIGKILL)
    return f"still runs after {AFTER_DEATH:.0f} s"


async def hold(peer: Peer) -> None:
    """Print the id of a server's process, then keep it busy until somebody kills us."""
    async with peer.open({"one": stdio_entry("one")}) as connected:
        pid = await connected.call("one", "pid", "")
        call = asyncio.ensure_future(connected.call("one", "hold", ""))
        await asyncio.sleep(0.5)  # until the call is with the server
        print(pid, flush=True)
        await call


async def _wait_for_the_end(pid: int, seconds: float) -> bool:
    """Whether a process ends in that time; a zombie has ended."""
    deadline = perf_counter() + seconds
    while perf_counter() < deadline:
        if not alive(pid):
            return True
        await asyncio.sleep(0.02)
    return False


TRIALS: dict[str, Trial] = {
    "a stdio server is killed: next call on the same client": kill_a_server,
    "one of three servers hangs at start: first call to another": hang_at_start,
    "a server adds a tool: seen by the connected client": change_tools,
    "the same server twice (two accounts): calls to both": use_one_server_twice,
    "opened in one task, closed in another": close_in_another_task,
    "the client is killed (SIGKILL) in a call: its stdio server": kill_the_client,
}


async def trial_cell(label: str, peer: Peer) -> str:
    """Run a trial here; an error that reaches the program is the cell."""
    # Not asyncio.timeout: a client that cannot be cancelled must not keep the trial from its end.
    trial = asyncio.ensure_future(TRIALS[label](peer))
    done, _ = await asyncio.wait([trial], timeout=PATIENCE * 2)
    if not done:
        return f"nothing within {PATIENCE * 2:.0f} s"
    error = trial.exception()
    return trial.result() if error is None else f"fails: {_cause(error)}"


def _cause(error: BaseException) -> str:
    inner: tuple[BaseException, ...] = getattr(error, "exceptions", ())  # of an exception group
    return _cause(inner[0]) if inner else type(error).__name__


def main() -> None:
    """Run one trial and print its cell."""
    label, name = sys.argv[1:]
    if label == HOLD:
        return asyncio.run(hold(PEERS[name]))
    loop = asyncio.new_event_loop()
    print(loop.run_until_complete(trial_cell(label, PEERS[name])), flush=True)
    os._exit(0)  # a client that hangs must not keep the interpreter alive


if __name__ == "__main__":
    main()
