"""The walkthrough of docs/authorization-server.md with an invited person, the SDK's client and the log."""

import json
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata
from pydantic import AnyUrl

from tests.cli.running import toolbus, write_config
from tests.cli.test_cli_serve_http import served
from tests.gateway.people.door import fields_of
from tests.gateway.serving import free_port
from tests.gateway.sign_in.signing_in import CALLBACK, parameters
from tests.gateway.sign_in.test_clients import Kept
from tests.patience import PATIENCE
from tests.servers import plain as plain_server

pytestmark = pytest.mark.anyio
PLAIN = {"command": "python", "args": [str(plain_server.__file__)], "prefix": ""}
VIEWS: dict[str, Any] = {"default": {}, "reading": {"include": ["echo"]}, "hidden": {}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a home of its own."""
    made = tmp_path / "home" / "work"
    made.mkdir(parents=True)
    return made


def write(folder: Path, port: int, **sign_in: Any) -> None:
    """A config whose gateway people sign in to."""
    serve = {"public_url": f"http://127.0.0.1:{port}", "auth": {"sign_in": sign_in}, "views": VIEWS}
    write_config(folder, {"plain": PLAIN}, serve=serve)


def run(folder: Path, *words: str) -> Any:
    """The JSON of `toolbus key`."""
    done = toolbus("key", *words, "--json", folder=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@dataclass
class Ann:
    """A person with a browser, and clients of the SDK."""

    base: str
    browser: httpx2.AsyncClient
    scopes: list[str] = field(default_factory=list[str])
    """The scopes that clients asked for."""
    answer: dict[str, str] = field(default_factory=dict[str, str])

    async def enter(self, link: str) -> None:
        code = link.partition("code=")[2]
        headers = {"origin": self.base}
        used = await self.browser.post(f"{self.base}/sign-in/invite", data={"code": code}, headers=headers)
        assert used.status_code == 303, used.text

    async def open(self, url: str) -> None:
        """Open the page that a client shows, and allow the selected scopes."""
        self.scopes.append(parameters(url).get("scope", ""))
        page = await self.browser.get((await self.browser.get(url)).headers["location"])
        form = {**fields_of(page.text, "/consent"), "choice": "allow"}
        to_consent, headers = f"{self.base}/sign-in/consent", {"origin": self.base}
        sent = await self.browser.post(to_consent, data=form, headers=headers)
        self.answer = parameters(sent.headers["location"])

    async def callback(self) -> AuthorizationCodeResult:
        found = self.answer
        return AuthorizationCodeResult(code=found["code"], state=found["state"], iss=found["iss"])

    @asynccontextmanager
    async def client(self, kept: Kept) -> AsyncGenerator[Client]:
        metadata = OAuthClientMetadata(client_name="Laptop", redirect_uris=[AnyUrl(CALLBACK)])
        url = f"{self.base}/mcp"
        auth = OAuthClientProvider(
            url, metadata, kept, redirect_handler=self.open, callback_handler=self.callback
        )
        async with (
            httpx2.AsyncClient(auth=auth, timeout=PATIENCE) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            yield client


async def test_one_of_two_clients_ends_alone(folder: Path) -> None:
    port = free_port()
    write(folder, port, scopes={"default": "default", "tools:read": "reading"})
    base = f"http://127.0.0.1:{port}"
    link = run(folder, "invite", "ann", "--view", "reading")["link"]
    with served(folder, "--http", f"127.0.0.1:{port}") as gateway:
        log: list[str] = []
        stdout = gateway.process.stdout
        assert stdout is not None
        reader = threading.Thread(target=lambda: log.extend(stdout), daemon=True)
        reader.start()
        async with httpx2.AsyncClient(timeout=PATIENCE) as browser:
            ann = Ann(base, browser)
            await ann.enter(link)
            lost, kept = Kept(), Kept()
            for one in (lost, kept):
                async with ann.client(one) as client:
                    assert {tool.name for tool in (await client.list_tools()).tools} == {"echo"}
            assert ann.scopes == ["default tools:read"] * 2
            first, second = run(folder, "list")["clients"]
            assert first["created"] <= first["renewed"]
            assert (first["views"], first["usable"]) == (["reading"], True)
            table = toolbus("key", "list", folder=folder).stdout
            assert first["id"][:8] in table
            assert run(folder, "revoke", first["id"][:8])["clients"] == 1
            assert [one["id"] for one in run(folder, "list")["clients"]] == [second["id"]]
            async with ann.client(kept) as client:
                await client.list_tools()
            assert len(ann.scopes) == 2
        gateway.process.terminate()
        reader.join(PATIENCE)
    said = [one["message"] for one in map(json.loads, log) if one.get("about") == "sign-in"]
    assert said[:2] == [
        "'ann' signed in with a link",
        "'ann' allowed 'Laptop' (127.0.0.1:3118) to use reading",
    ]
    assert not any(secret in "".join(log) for secret in (link, ann.answer["code"], "tbr_"))


def test_an_invite_that_gives_nothing_is_refused(folder: Path) -> None:
    write(folder, 7400, scopes={"tools": "default"})
    refused = toolbus("key", "invite", "ann", "--view", "hidden", folder=folder)
    assert (refused.returncode, "no scope gives the view 'hidden'" in refused.stderr) == (2, True)
    oidc = {"issuer": "https://id.example.com", "client_id": "x", "groups": {"views": {"all": "default"}}}
    write(folder, 7400, invites=False, oidc=oidc)
    refused = toolbus("key", "invite", "ann", folder=folder)
    assert (refused.returncode, "serve.auth.sign_in.invites is false" in refused.stderr) == (2, True)


def test_no_command_accepts_a_sign_in_that_nobody_can_use(folder: Path) -> None:
    write(folder, 7400, invites=False)
    for words in (["serve", "--check"], ["check"], ["key", "invite", "ann"], ["config"]):
        done = toolbus(*words, folder=folder)
        assert (done.returncode, "nobody could sign in" in done.stderr) == (2, True), words


def test_the_check_looks_for_somebody_who_can_sign_in(folder: Path) -> None:
    def found(*options: str) -> list[tuple[str, str]]:
        done = toolbus("serve", "--check", "--http", "127.0.0.1:0", "--json", *options, folder=folder)
        return [(one["about"], one["problem"]) for one in json.loads(done.stdout)["findings"]]

    write(folder, 7400)
    assert found() == [("serve.auth.sign_in", "nobody is invited, so nobody can sign in")]
    run(folder, "invite", "ann")
    assert found() == []
    oidc = {"issuer": "http://127.0.0.1:9", "client_id": "x", "groups": {"views": {"all": "default"}}}
    write(folder, 7400, oidc=oidc)
    assert found() == []
    [(about, problem)] = found("--online")
    assert (about, "http://127.0.0.1:9 cannot be used" in problem) == ("serve.auth.sign_in.oidc.issuer", True)


async def test_access_for_an_earlier_url_is_marked(folder: Path) -> None:
    port = free_port()
    write(folder, port)
    link = run(folder, "invite", "ann")["link"]
    with served(folder, "--http", f"127.0.0.1:{port}"):
        async with httpx2.AsyncClient(timeout=PATIENCE) as browser:
            ann = Ann(f"http://127.0.0.1:{port}", browser)
            await ann.enter(link)
            async with ann.client(Kept()) as client:
                await client.list_tools()
    write(folder, port + 1)
    [client] = run(folder, "list")["clients"]
    assert (client["usable"], client["resource"]) == (False, f"http://127.0.0.1:{port}/mcp")
    assert "unusable: for another URL" in toolbus("key", "list", folder=folder).stdout
