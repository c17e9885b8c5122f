"""The lock of a login holds across tasks, threads and processes, and ends with its holder."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread

import keyring
import pytest
from keyring.backends import fail

from tests.auth.keyrings import FileKeyring
from tests.auth.token_process import LOGIN, RESOURCE
from tests.inside.state import TokenSource, open_tokens
from tests.patience import PATIENCE
from toolbus.errors import TokenStoreError

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("KEYRING_FILE", str(tmp_path / "keyring.json"))
    before = keyring.get_keyring()
    keyring.set_keyring(fail.Keyring())
    yield
    keyring.set_keyring(before)


@contextmanager
def process(*arguments: str) -> Generator[subprocess.Popen[str]]:
    """A process of token_process.py."""
    command = [sys.executable, "-m", "tests.auth.token_process", *arguments]
    started = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ
    )
    try:
        yield started
    finally:
        started.kill()
        started.communicate(timeout=PATIENCE)


def line_of(started: subprocess.Popen[str]) -> str:
    assert started.stdout is not None
    return started.stdout.readline().strip()


@pytest.mark.parametrize("kind", ["file", "auto", "keyring"])
async def test_three_processes_renew_a_login_once(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = f"file:{tmp_path / 'tokens'}" if kind == "file" else kind
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    if kind == "keyring":
        monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "tests.auth.process_keyring.ProcessKeyring")
        keyring.set_keyring(FileKeyring(tmp_path / "keyring.json"))
    counts = tmp_path / "counts"
    await open_tokens(setting).save(LOGIN)

    arguments = ("renew", setting, str(counts))
    with process(*arguments) as one, process(*arguments) as two, process(*arguments) as three:
        assert [line_of(each) for each in (one, two, three)] == ["ready"] * 3
        for each in (one, two, three):
            assert each.stdin is not None
            each.stdin.write("go\n")
            each.stdin.flush()
        said = [each.communicate(timeout=PATIENCE)[0].strip() for each in (one, two, three)]

    assert said == ["2.0 s3cret-new"] * 3
    assert len(counts.read_text().splitlines()) == 1


@pytest.mark.parametrize("mode", ["hold", "fork"])
async def test_a_holder_that_is_killed_lets_go(mode: str, tmp_path: Path) -> None:
    """The next one gets the lock, even if a forked child of the holder lives on."""
    tokens = open_tokens(f"file:{tmp_path}")
    taken = asyncio.Event()

    async def take() -> None:
        async with tokens.lock(RESOURCE, "ann"):
            taken.set()

    with process(mode, f"file:{tmp_path}") as holder:
        child = int(line_of(holder)) if mode == "fork" else None
        assert line_of(holder) == "ready"
        try:
            waiting = asyncio.create_task(take())
            for _ in range(100):  # the loop is free meanwhile
                await asyncio.sleep(0)
            assert not taken.is_set()
            os.kill(holder.pid, signal.SIGKILL)
            await asyncio.wait_for(waiting, PATIENCE)
        finally:
            if child is not None:
                os.kill(child, signal.SIGKILL)
    assert taken.is_set()


async def test_a_lock_that_stays_taken_names_its_holder(tmp_path: Path) -> None:
    """The wait is bounded, and the error says which process to look at."""
    tokens = open_tokens(f"file:{tmp_path}")
    tokens.lock_seconds = 0.05
    with process("hold", f"file:{tmp_path}") as holder:
        assert line_of(holder) == "ready"
        with pytest.raises(TokenStoreError) as caught:
            async with tokens.lock(RESOURCE, "ann"):
                pytest.fail("it was taken")
        async with tokens.lock(RESOURCE, "ben"):  # each user has their own
            pass
    (file,) = (tmp_path / "locks").glob(f"{caught.value.problem.partition('locks/')[2][:-1]}")
    assert caught.value.reason == "busy"
    assert str(caught.value) == (
        f"tokens in {tmp_path}: they were in use by process {holder.pid} for more than 0.05 s ({file}); "
        "wait for it, or end it"
    )


async def in_turns(tokens: TokenSource, log: list[str], name: str) -> None:
    for _ in range(5):
        async with tokens.lock(RESOURCE, "ann"):
            log.append(f"{name} in")
            await asyncio.sleep(0)
            log.append(f"{name} out")


@pytest.mark.parametrize("setting", ["memory", "file"])
async def test_tasks_and_threads_take_turns(setting: str, tmp_path: Path) -> None:
    log: list[str] = []
    tokens = open_tokens("memory" if setting == "memory" else f"file:{tmp_path}")
    thread = Thread(target=lambda: asyncio.run(in_turns(tokens, log, "thread")))
    thread.start()
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*(in_turns(tokens, log, f"task {number}") for number in range(3)))
    await asyncio.to_thread(thread.join, PATIENCE)

    assert len(log) == 40
    pairs = list(zip(log[::2], log[1::2], strict=True))
    assert all(went.replace(" in", " out") == left for went, left in pairs)


async def test_a_cancelled_wait_leaves_the_lock_free(tmp_path: Path) -> None:
    tokens = open_tokens(f"file:{tmp_path}")

    async def take() -> None:
        async with tokens.lock(RESOURCE, "ann"):
            pytest.fail("it was taken")

    async with tokens.lock(RESOURCE, "ann"):
        waiting = asyncio.create_task(take())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    async with tokens.lock(RESOURCE, "ann"):
        pass


async def test_users_who_sign_in_at_once_are_all_listed(tmp_path: Path) -> None:
    """Each holds a lock of their own, and the list of the server is shared."""
    tokens = open_tokens(f"file:{tmp_path}")
    users = [f"user {number}" for number in range(8)]

    async def sign_in(user: str) -> None:
        async with tokens.lock(RESOURCE, user):
            await tokens.save(replace(LOGIN, user=user))

    await asyncio.gather(*map(sign_in, users))
    assert [login.user for login in await tokens.logins(RESOURCE)] == users
    await asyncio.gather(*(tokens.remove(login) for login in await tokens.logins(RESOURCE)))
    assert await tokens.logins(RESOURCE) == []


async def test_without_a_state_folder_the_lock_holds_in_this_process(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """There is one warning, and nothing fails."""
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 54321)  # without an entry in the list of users
    tokens, log = open_tokens("auto"), list[str]()

    await asyncio.gather(*(in_turns(tokens, log, f"task {number}") for number in range(3)))

    (record,) = caplog.records
    assert record.getMessage() == (
        "tokens are not locked against other processes (no state folder; set HOME or XDG_STATE_HOME); "
        "two that renew the same login at once may have to sign in again"
    )
    pairs = list(zip(log[::2], log[1::2], strict=True))
    assert all(went.replace(" in", " out") == left for went, left in pairs)
    tokens.lock_seconds = 0.05
    with pytest.raises(
        TokenStoreError, match=r"they were in use by this process for more than 0\.05 s; wait"
    ):
        async with tokens.lock(RESOURCE, "ann"), tokens.lock(RESOURCE, "ann"):
            pytest.fail("it was taken twice")
