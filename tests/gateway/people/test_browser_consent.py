"""People in a real browser, clients that are toolbus itself, and gateways that are processes."""

import asyncio
import json
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.auth.authorization_server import authorization_server
from tests.auth.buses import bus_of, called, client_of
from tests.cli.running import toolbus, write_config
from tests.cli.test_cli_serve_http import served
from tests.gateway.console.chromium import Chromium, Tab, started_or_skipped
from tests.gateway.people.door import fields_of
from tests.gateway.replicas.cluster import until
from tests.gateway.serving import free_port
from tests.patience import PATIENCE
from tests.servers import plain as plain_server
from toolbus import SignInFailed, Toolbus
from toolbus.errors import ToolbusError
from toolbus.records import LoginRequest

pytestmark = pytest.mark.anyio
PLAIN = {"command": "python", "args": [str(plain_server.__file__)], "prefix": ""}


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    """The browser."""
    yield from started_or_skipped()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a home of its own."""
    made = tmp_path / "home" / "work"
    made.mkdir(parents=True)
    return made


def write(folder: Path, port: int, sign_in: Any = None, **settings: Any) -> None:
    """A config whose gateway people sign in to."""
    serve: dict[str, Any] = {"public_url": f"http://127.0.0.1:{port}", "auth": {"sign_in": sign_in or {}}}
    write_config(folder, {"plain": PLAIN}, serve=serve, **settings)


def run(folder: Path, *words: str) -> Any:
    """The JSON of `toolbus key`."""
    done = toolbus("key", *words, "--json", folder=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def client_settings(folder: Path, port: int) -> dict[str, Any]:
    """A client that knows the URL of the gateway and nothing else."""
    server = {"url": f"http://127.0.0.1:{port}/mcp", "auth": "oauth"}
    return {"servers": {"guarded": server}, "tokens": f"file:{folder}/tokens"}


def answering(tab: Tab, answer: str) -> Callable[[LoginRequest], Any]:
    """Somebody who opens the page that a client shows, and clicks an answer."""

    async def login(request: LoginRequest) -> None:
        await tab.goto(request.url)
        await tab.see("h1", "Connect toolbus?")
        await tab.click(f"button:text-is('{answer}')")

    return login


async def until_refused(bus: Toolbus) -> None:
    """Call until the gateway refuses."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await called(bus, "echo", text="x")
            except ToolbusError:
                return
            await asyncio.sleep(0.1)


async def test_a_person_walks_through_link_consent_restart_and_revocation(
    browser: Chromium, folder: Path
) -> None:
    port = free_port()
    write(folder, port)
    link = run(folder, "invite", "ann")["link"]
    settings = client_settings(folder, port)
    async with browser.tab() as tab:
        with served(folder, "--http", f"127.0.0.1:{port}"):
            await tab.goto(link)
            await tab.click("button:text-is('Sign in as ann')")
            await tab.see("h1", "Signed in as ann")
            async with bus_of(settings, answering(tab, "Allow")) as bus:
                assert await called(bus, "echo", text="hello") == "hello"
        with served(folder, "--http", f"127.0.0.1:{port}"):
            await tab.goto(f"http://127.0.0.1:{port}/sign-in")
            await tab.see("h1", "Signed in as ann")
            async with bus_of(settings) as bus:
                assert await called(bus, "echo", text="again") == "again"
                listed = run(folder, "list")
                [client] = listed["clients"]
                assert (client["client"], client["person"], client["user"]) == ("toolbus", "ann", "ann")
                assert [one["name"] for one in listed["browsers"]] == ["ann"]
                assert listed["invites"] == []
                ended = run(folder, "revoke", "ann")
                assert (ended["browsers"], ended["clients"]) == (1, 1)
                await until_refused(bus)
            await tab.goto(f"http://127.0.0.1:{port}/sign-in")
            await tab.see("h1", "Sign in")


async def test_a_person_who_refuses_gives_nothing(browser: Chromium, folder: Path) -> None:
    port = free_port()
    write(folder, port)
    link = run(folder, "invite", "ann")["link"]
    with served(folder, "--http", f"127.0.0.1:{port}"):
        async with browser.tab() as tab:
            await tab.goto(link)
            await tab.click("button:text-is('Sign in as ann')")
            await tab.see("h1", "Signed in as ann")
            client = await client_of(client_settings(folder, port))
            with pytest.raises(SignInFailed, match="the person refused"):
                await client.sign_in(answering(tab, "Refuse"))
        assert run(folder, "list")["clients"] == []


@pytest.fixture
def provider(folder: Path) -> Generator[int]:
    """A gateway's port, with an OIDC provider that knows it, in the config."""
    port = free_port()
    client = {
        "client_id": "bus",
        "redirect_uris": [f"http://127.0.0.1:{port}/sign-in/callback"],
        "grant_types": ["authorization_code"],
        "token_endpoint_auth_method": "none",
    }
    people = {"ann": {"groups": ["staff"]}}
    with authorization_server(clients=[client], people=people) as server:
        groups = {"views": {"staff": "default"}}
        oidc = {"issuer": server.issuer, "client_id": "bus", "scopes": ["groups"], "groups": groups}
        write(folder, port, {"invites": False, "oidc": oidc})
        yield port


async def test_a_person_signs_in_at_the_provider_on_the_way_from_a_client(
    browser: Chromium, folder: Path, provider: int
) -> None:
    with served(folder, "--http", f"127.0.0.1:{provider}"):
        async with browser.tab(harmless=False) as tab:  # the provider's pages are not ours

            async def login(request: LoginRequest) -> None:
                await tab.goto(request.url)
                await tab.see("h1", "Sign in to connect toolbus")
                await tab.click("a.button")
                await tab.fill("input[name=login]", "ann")
                await tab.fill("input[name=password]", "any")
                await tab.click("button:text-is('Sign-in')")
                await tab.click("button:text-is('Continue')")
                await tab.see("h1", "Connect toolbus?")
                await tab.click("button:text-is('Allow')")

            async with bus_of(client_settings(folder, provider), login) as bus:
                assert await called(bus, "echo", text="hello") == "hello"
        [client] = run(folder, "list")["clients"]
        assert (client["person"][:15], client["user"]) == ("ann of http://1", "ann")
        assert toolbus("key", "invite", "ann", folder=folder).returncode == 2


async def test_the_pages_follow_the_config(folder: Path, provider: int) -> None:
    url = f"http://127.0.0.1:{provider}/sign-in"
    with served(folder, "--http", f"127.0.0.1:{provider}"):
        async with httpx2.AsyncClient(timeout=PATIENCE) as http:
            assert "One-time link" not in (await http.get(url)).text
            write(folder, provider)

            async def takes_links() -> bool:
                return "One-time link" in (await http.get(url)).text

            await until(takes_links)
            assert "Sign in with" not in (await http.get(url)).text
            code = run(folder, "invite", "ann")["link"].partition("code=")[2]
            headers = {"origin": url.removesuffix("/sign-in")}
            used = await http.post(f"{url}/invite", data={"code": code}, headers=headers)
            assert used.status_code == 303


async def test_replicas_share_invites_browsers_and_what_people_allow(folder: Path) -> None:
    ports = free_port(), free_port()
    write(folder, ports[0], store="sqlite:///shared.db")
    code = run(folder, "invite", "ann")["link"].partition("code=")[2]
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    with served(folder, "--http", f"127.0.0.1:{ports[0]}"), served(folder, "--http", f"127.0.0.1:{ports[1]}"):
        async with httpx2.AsyncClient(timeout=PATIENCE) as http:
            headers = {"origin": urls[1]}
            used = await http.post(f"{urls[1]}/sign-in/invite", data={"code": code}, headers=headers)
            assert used.status_code == 303, used.text
            again = await http.post(
                f"{urls[0]}/sign-in/invite", data={"code": code}, headers={"origin": urls[0]}
            )
            assert again.status_code == 400

            async def login(request: LoginRequest) -> str:
                sent = await http.get(request.url)
                page = await http.get(sent.headers["location"].replace(urls[0], urls[1]))
                form = {**fields_of(page.text, "/consent"), "choice": "allow"}
                allowed = await http.post(f"{urls[1]}/sign-in/consent", data=form, headers=headers)
                return allowed.headers["location"]

            async with bus_of(client_settings(folder, ports[0]), login) as bus:
                assert await called(bus, "echo", text="hello") == "hello"
                run(folder, "revoke", "ann")
                await until_refused(bus)
            assert "Signed in" not in (await http.get(f"{urls[0]}/sign-in")).text
