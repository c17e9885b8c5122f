"""A process that uses stored tokens: `python token_process.py MODE SETTING [FILE]`.

It prints a line when it is ready, and goes on when it reads one.
"""

import asyncio
import os
import resource
import signal
import sys
from dataclasses import replace
from pathlib import Path

from toolbus.errors import TokenStoreError
from toolbus.state.files import state_folder
from toolbus.state.tokens.tokens import Login, TokenSource, open_tokens

RESOURCE = "https://hub.example/mcp"
LOGIN = Login(
    issuer="https://issuer.example",
    resource=RESOURCE,
    user="ann",
    client={"client_id": "c1", "client_secret": "s3cret-client"},
    metadata={"token_endpoint": "https://issuer.example/token"},
    access="s3cret-access",
    refresh="s3cret-refresh",
    scope="read",
    expires_at=1_900_000_000.0,
    renewed_at=1.0,
    jwk={"kty": "EC", "d": "s3cret-key"},
)


def wait_for_go() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


async def renew(tokens: TokenSource, counts: Path) -> None:
    """Renew the login, unless another process has done so by the time that the lock is free."""
    known = await tokens.find(RESOURCE, "ann")
    assert known is not None
    wait_for_go()
    async with tokens.lock(RESOURCE, "ann"):
        login = await tokens.find(RESOURCE, "ann")
        assert login is not None
        if login.renewed_at == known.renewed_at:
            with counts.open("a") as file:
                file.write(f"renewed by {os.getpid()}\n")
            login = replace(login, access="s3cret-new", renewed_at=login.renewed_at + 1)
            await tokens.save(login)
    print(login.renewed_at, login.access)


async def hold(tokens: TokenSource) -> None:
    """Hold the lock."""
    async with tokens.lock(RESOURCE, "ann"):
        wait_for_go()


async def hold_and_fork(tokens: TokenSource) -> None:
    """Hold the lock, with a forked child that lives on."""
    async with tokens.lock(RESOURCE, "ann"):
        if (child := os.fork()) == 0:
            signal.pause()  # until it is killed
        print(child, flush=True)
        wait_for_go()


async def write_in_vain(tokens: TokenSource) -> None:
    """Save where writing is impossible; print the error, and the stored content afterwards."""
    try:
        async with tokens.lock(RESOURCE, "ann"):
            await tokens.save(replace(LOGIN, access="s3cret-new"))
    except TokenStoreError as error:
        print(error.reason, "|", error)
    print(await tokens.find(RESOURCE, "ann") == LOGIN)


def main() -> None:
    mode, tokens = sys.argv[1], open_tokens(sys.argv[2])
    match mode:
        case "renew":
            asyncio.run(renew(tokens, Path(sys.argv[3])))
        case "hold":
            asyncio.run(hold(tokens))
        case "fork":
            asyncio.run(hold_and_fork(tokens))
        case "read-only":
            if os.geteuid() == 0:  # root may write everywhere
                state_folder()  # imports a package, which only root may read if this interpreter is root's
                os.seteuid(int(sys.argv[3]))
            asyncio.run(write_in_vain(tokens))
        case "full":
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
            asyncio.run(write_in_vain(tokens))
        case _:
            sys.exit(f"unknown mode {mode}")


if __name__ == "__main__":
    main()
