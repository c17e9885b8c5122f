"""A gateway as a process: keys and sign-ins side by side, in several workers, and what a token costs."""

import json
import os
import statistics
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.cli.running import toolbus
from tests.gateway.front import modern_request
from tests.gateway.serving import free_port, gateway
from tests.gateway.sign_in.signing_in import ANN, CALLBACK, OAuthClient, parameters
from tests.inside.config import Serve
from tests.inside.gateway import REQUEST, SignInServer, SignInState, grant_files
from tests.patience import PATIENCE
from tests.servers import plain

pytestmark = pytest.mark.anyio


@dataclass
class Served:
    """A gateway process, a key and a token for it."""

    url: str
    http: httpx2.AsyncClient
    key: str
    token: str
    state: SignInState

    async def called(self, credential: str) -> int:
        """The status of a call."""
        call = {"name": "echo", "arguments": {"text": "x"}}
        content, headers = modern_request("tools/call", call, {"authorization": f"Bearer {credential}"})
        return (await self.http.post(self.url, content=content, headers=headers)).status_code


@asynccontextmanager
async def served(folder: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> AsyncGenerator[Served]:
    """A gateway process, to which a person signs in."""
    port = free_port()
    base = f"http://127.0.0.1:{port}"
    serve: dict[str, Any] = {"public_url": base, "auth": {"keys": True, "sign_in": {}}, **settings}
    server = {"command": "python", "args": [str(plain.__file__)], "prefix": ""}
    config = folder / "toolbus.json"
    config.write_text(json.dumps({"servers": {"plain": server}, "serve": serve}))
    within = folder / "work"  # a command has the folder above as its home
    within.mkdir()
    added = toolbus("key", "add", "ann", "--json", "--config", str(config), folder=within)
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / ".state"))  # the same files as those of the process
    state = SignInState(grant_files(config))
    await state.open()
    person = SignInServer(state, Serve(**serve))
    with gateway(config, "--http", f"127.0.0.1:{port}"):
        async with httpx2.AsyncClient(timeout=PATIENCE) as http:
            body = {"redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
            made = (await http.post(f"{base}/register", json=body)).json()
            client = OAuthClient(None, made["client_id"])  # pyright: ignore[reportArgumentType]  # it asks for itself
            query = {
                "response_type": "code",
                "client_id": client.id,
                "redirect_uri": CALLBACK,
                "code_challenge": client.challenge,
            }
            sent = await http.get(f"{base}/authorize", params=query)
            waiting = person.waiting(parameters(sent.headers["location"])[REQUEST])
            assert waiting is not None
            code = parameters(await person.approve(waiting, ANN, waiting.views))["code"]
            form = {
                "grant_type": "authorization_code",
                "client_id": client.id,
                "code": code,
                "code_verifier": client.verifier,
            }
            tokens = (await http.post(f"{base}/token", data=form)).json()
            key = json.loads(added.stdout)["key"]
            yield Served(f"{base}/mcp", http, key, tokens["access_token"], state)


async def test_keys_and_sign_ins_work_side_by_side_in_several_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path, monkeypatch, workers=2) as found:
        for _ in range(4):
            async with httpx2.AsyncClient(timeout=PATIENCE) as http:  # a new connection, for any worker
                found.http = http
                assert [await found.called(found.key), await found.called(found.token)] == [200, 200]
                assert await found.called(f"{found.token}x") == 401
        (grant,) = found.state.grants.all()
        assert (grant.person, grant.views) == ("ann", ("default",))


def listener(port: int) -> Path:
    """The folder in /proc of the process that listens at a port."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    (inode,) = [row[9] for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "0A"]
    for file in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            if os.readlink(file) == f"socket:[{inode}]":
                return file.parents[1]
    raise LookupError(port)


def cpu_seconds(process: Path) -> float:
    """The CPU time of a process so far."""
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.full
async def test_a_warm_call_with_a_token_costs_what_one_with_a_key_costs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path, monkeypatch) as found:
        process = listener(int(found.url.rpartition(":")[2].partition("/")[0]))
        for credential in (found.key, found.token):
            assert await found.called(credential) == 200
        costs: dict[str, list[float]] = {found.key: [], found.token: []}
        for _ in range(5):
            for credential, taken in costs.items():
                began = cpu_seconds(process)
                for _ in range(400):
                    await found.called(credential)
                taken.append(cpu_seconds(process) - began)
        key, token = (statistics.median(taken) for taken in costs.values())
        print(f"CPU for 400 calls: {key:.2f} s with a key, {token:.2f} s with a token ({token / key:.3f})")
        assert token <= 1.1 * key
