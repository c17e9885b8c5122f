"""Tokens of five seconds: renewed once for all who wait, in all processes, and nobody is asked again."""

import asyncio
import json
import subprocess
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.auth.authorization_server import AuthorizationServer
from tests.auth.buses import bus_of, called, config, expire, stored
from tests.auth.pages import Person
from tests.auth.resource_server import ROOT, ResourceServer
from tests.interop.servers import require_installed
from toolbus import LoginRequired, ToolbusError

require_installed("oauth")
pytestmark = pytest.mark.anyio

LIFETIME = 5
EARLY = 0.8 * LIFETIME
"""The age at which a token in use is renewed."""
CALLS = 64
LONG = 3600


class Caller:
    """The program `caller.py`, in a process of its own."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        assert self.line() == "ready"

    def line(self) -> str:
        """The next line that it prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def start(self) -> None:
        """Have it make its calls."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def result(self) -> dict[str, Any]:
        """The results of its calls."""
        line = self.line()
        assert line, "the program ended"
        return json.loads(line)


@contextmanager
def caller(settings: dict[str, Any], *, calls: int = CALLS, endless: bool = False) -> Generator[Caller]:
    """A program that has yet to start its calls; killed at the end of the block."""
    arguments = json.dumps({"config": settings, "calls": calls, "endless": endless})
    process = subprocess.Popen(
        [warm.python(), "-m", "tests.auth.caller", arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield Caller(process)
        finally:
            process.kill()


async def signed_in(
    authority: AuthorizationServer, guarded: ResourceServer, folder: Path, lifetime: int = LIFETIME
) -> dict[str, Any]:
    """The config of a server that somebody has signed in to; the token has expired."""
    authority.spoil(lifetime=lifetime)
    settings = config(guarded, folder)
    async with bus_of(settings, Person("ann")) as bus:
        assert await called(bus, "whoami") == "ann"
    await expire(guarded, folder)
    return settings


def refreshes(authority: AuthorizationServer) -> int:
    """The number of renewals; none of them was rejected."""
    counts = authority.counts()
    assert counts.get("token refresh_token 400", 0) == 0, "a refresh token was used twice"
    return counts.get("token refresh_token 200", 0)


async def renewed(authority: AuthorizationServer, times: int) -> None:
    """Wait for that many renewals."""
    while True:
        if await asyncio.to_thread(refreshes, authority) >= times:
            return
        await asyncio.sleep(0.1)


async def test_one_renewal_serves_all_calls_that_wait(
    authority: AuthorizationServer, guarded: ResourceServer, tmp_path: Path
) -> None:
    authority.spoil(lifetime=LIFETIME)
    async with bus_of(config(guarded, tmp_path), Person("ann")) as bus:
        assert await called(bus, "whoami") == "ann"
        await expire(guarded, tmp_path)  # it was renewed once, because it was in use
        before = refreshes(authority)
        authority.spoil(lifetime=LONG)
        assert await asyncio.gather(*(called(bus, "whoami") for _ in range(CALLS))) == ["ann"] * CALLS
    assert refreshes(authority) == before + 1
    assert authority.count("authorization ") == 1


async def test_a_program_that_was_killed_and_starts_again_asks_nobody(
    authority: AuthorizationServer, guarded: ResourceServer, tmp_path: Path
) -> None:
    settings = await signed_in(authority, guarded, tmp_path)
    with caller(settings, calls=1, endless=True) as first:
        first.start()
        assert first.result() == {"texts": ["ann"], "asked": 0}
    await expire(guarded, tmp_path)
    before = refreshes(authority)
    assert before >= 1
    authority.spoil(lifetime=LONG)
    with caller(settings) as second:
        second.start()
        assert second.result() == {"texts": ["ann"] * CALLS, "asked": 0}
    assert refreshes(authority) == before + 1
    assert authority.count("authorization ") == 1


@pytest.mark.full  # as in test_token_lock.py, but with servers
async def test_three_processes_renew_once(
    authority: AuthorizationServer, guarded: ResourceServer, tmp_path: Path
) -> None:
    settings = await signed_in(authority, guarded, tmp_path)
    before = refreshes(authority)
    authority.spoil(lifetime=LONG)
    with ExitStack() as stack:
        callers = [stack.enter_context(caller(settings)) for _ in range(3)]
        for each in callers:
            each.start()
        for each in callers:
            assert each.result() == {"texts": ["ann"] * CALLS, "asked": 0}
    assert refreshes(authority) == before + 1
    assert authority.count("authorization ") == 1


@pytest.mark.full
async def test_three_processes_renew_once_per_expiry_for_as_long_as_they_run(
    authority: AuthorizationServer, guarded: ResourceServer, tmp_path: Path
) -> None:
    settings = await signed_in(authority, guarded, tmp_path)
    began, before = time.monotonic(), refreshes(authority)
    with ExitStack() as stack:
        callers = [stack.enter_context(caller(settings, calls=4, endless=True)) for _ in range(3)]
        for each in callers:
            each.start()
        for each in callers:
            assert each.result() == {"texts": ["ann"] * 4, "asked": 0}
        await renewed(authority, before + 5)
        assert all(each.process.poll() is None for each in callers)
        assert refreshes(authority) - before <= (time.monotonic() - began) / EARLY + 1
    assert authority.count("authorization ") == 1


async def test_a_token_in_use_is_renewed_before_it_expires(
    authority: AuthorizationServer, guarded: ResourceServer, tmp_path: Path
) -> None:
    authority.spoil(lifetime=LIFETIME)
    async with bus_of(config(guarded, tmp_path), Person("ann")) as bus:
        assert await called(bus, "whoami") == "ann"
        first = second = await stored(guarded, tmp_path)
        while second.renewed_at == first.renewed_at:  # not the authority's count: it is stored after that
            await asyncio.sleep(0.1)
            second = await stored(guarded, tmp_path)
        assert second.renewed_at - first.renewed_at >= EARLY - 0.5


async def test_a_fault_of_the_authorization_server_is_no_reason_to_ask_a_person(
    authority: AuthorizationServer, guarded: ResourceServer, tmp_path: Path
) -> None:
    settings, ann = await signed_in(authority, guarded, tmp_path, 1), Person("ann")
    authority.spoil(status=503)
    async with bus_of(settings, ann) as bus:
        failure = bus.failures["guarded"]
        assert isinstance(failure, ToolbusError)
        assert not isinstance(failure, LoginRequired)
        authority.spoil(lifetime=LONG)
        await bus.wait_ready(["guarded"])
        assert await called(bus, "whoami") == "ann"
    assert ann.requests == []


async def test_a_rejected_renewal_needs_a_person(
    authority: AuthorizationServer, guarded: ResourceServer, tmp_path: Path
) -> None:
    settings = await signed_in(authority, guarded, tmp_path, 1)
    authority.spoil(status=400, answer={"error": "invalid_grant"})
    async with bus_of(settings) as bus:
        failure = bus.failures["guarded"]
    assert isinstance(failure, LoginRequired)
    assert failure.login == "toolbus login guarded"
    authority.spoil(lifetime=LONG)
    ann = Person("ann")
    async with bus_of(settings, ann) as bus:
        assert await called(bus, "whoami") == "ann"
