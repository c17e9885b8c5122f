"""Attacks on the people who allow clients: on consent, on links, and on their OIDC provider."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.gateway.console.chromium import Chromium, started_or_skipped
from tests.gateway.console.opening import Markup, plain
from tests.gateway.people.door import Door, door, fields_of, query_of
from tests.gateway.signing import Signer, signing
from tests.patience import PATIENCE

pytestmark = pytest.mark.anyio
GROUPS = {"claim": "team", "views": {"staff": "default"}}

READABLE = """[...document.querySelectorAll('iframe')].map((one) => {
  try { return one.contentDocument.body.innerText; } catch { return ''; }
}).join('')"""
"""The text that a page can read in its frames."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    """The browser."""
    yield from started_or_skipped()


@pytest.fixture(scope="module")
def signer() -> Iterator[Signer]:
    """An OIDC provider that signs anything for a test."""
    with signing() as made:
        made.add_key("RS256")
        yield made


# Consent


@pytest.mark.parametrize(
    ("changed", "headers"),
    [
        ({"token": ""}, {}),
        ({"token": "x"}, {}),
        ({"token": "\u00e9"}, {}),
        ({}, {"origin": ""}),
        ({}, {"origin": "null"}),
        ({}, {"origin": "https://evil.example.com"}),
        ({}, {"origin": "http://127.0.0.1:1"}),
        ({}, {"sec-fetch-site": "same-site"}),
        ({}, {"sec-fetch-site": "cross-site"}),
        ({}, {"content-type": "text/plain"}),
    ],
)
async def test_consent_forged_by_another_page(
    changed: dict[str, Any], headers: dict[str, str], tmp_path: Path
) -> None:
    """Nothing is allowed without the token of the page, or from another page."""
    async with door(tmp_path) as opened:
        await opened.enter()
        request = await opened.requests.ask()
        form = fields_of((await opened.get(request=request)).text, "/consent")
        answered = await opened.post("/consent", {**form, "choice": "allow", **changed}, **headers)
        assert answered.status_code in (400, 403)
        assert opened.requests.approved == []


async def test_a_token_of_another_browser_or_request(tmp_path: Path) -> None:
    """The token is bound to the session and to the request: another one is worth nothing."""
    async with door(tmp_path) as opened:
        await opened.enter("mallory")
        own, other = await opened.requests.ask(), await opened.requests.ask()
        form = fields_of((await opened.get(request=own)).text, "/consent")
        swapped = await opened.post("/consent", {**form, "request": other, "choice": "allow"})
        assert swapped.status_code == 403
        await opened.enter("ann")  # another session in the same browser
        stale = await opened.post("/consent", {**form, "choice": "allow"})
        assert stale.status_code == 403
        assert (await opened.http.get(f"{opened.url}/consent", params={"request": own})).status_code == 404
        assert opened.requests.approved == []


async def test_a_page_that_frames_consent_or_posts_to_it(browser: Chromium, tmp_path: Path) -> None:
    """In a real browser, the neighbor's page shows no frame, and its form allows nothing."""
    async with door(tmp_path) as opened, browser.tab(harmless=False) as tab:
        await tab.goto(f"{opened.url}/invite?code={await opened.invite()}")
        await tab.click("text=Sign in as ann >> nth=-1")
        await tab.see("h1", "Signed in as ann")
        request = await opened.requests.ask()
        consent = f"{opened.url}?request={request}"
        loaded = 'onload="window.loads = (window.loads ?? 0) + 1"'
        async with page_of_others(
            f'<iframe src="{consent}" {loaded}></iframe><iframe name=t {loaded}></iframe>'
            f'<form method=post action="{opened.url}/consent" target=t>'
            f'<input name=request value="{request}"><input name=choice value=allow>'
            "<button>Win</button></form>"
        ) as url:
            await tab.goto(url)
            await tab.do("waitForFunction", "window.loads === 2")
            await tab.click("button")
            await tab.do("waitForFunction", "window.loads === 3")
            assert await tab.run(READABLE) == ""
            assert "frame-ancestors 'none'" in " ".join(await tab.problems())
        assert opened.requests.approved == []
        # The same person in the same browser gets through by the page itself.
        await tab.goto(consent)
        assert "Connect Desk?" in await tab.text()


@asynccontextmanager
async def page_of_others(markup: str) -> AsyncGenerator[str]:
    """A page on another port of this host."""
    head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n<!doctype html>"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"{head}{markup}".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()


async def test_a_client_whose_name_is_markup_or_without_end(tmp_path: Path) -> None:
    """The page shows its name as text, and not more than fits."""
    async with door(tmp_path) as opened:
        await opened.enter()
        name = '<script>alert(1)</script>"\u202e' + "x" * 5000
        page = await opened.get(request=await opened.requests.ask(name=name))
        assert Markup(page.text).named("script") == []
        assert "\u202e" not in page.text
        assert "x" * 100 not in page.text


@pytest.mark.parametrize(
    "place", ["https://evil.example.com", "//evil.example.com", "/\\evil.example.com", "a\r\nx: y"]
)
async def test_an_open_redirect_by_the_request(place: str, tmp_path: Path) -> None:
    """No parameter leads the browser to another site, or into a header."""
    async with door(tmp_path, {"issuer": "http://127.0.0.1:9", "client_id": "c", "groups": GROUPS}) as opened:
        used = await opened.post("/invite", {"code": await opened.invite(), "request": place})
        assert used.headers["location"].startswith("/sign-in?request=")
        assert "x" not in used.headers
        page = await opened.http.get(f"{opened.origin}{used.headers['location']}")
        assert (page.status_code, "location" in page.headers) == (400, False)
        assert (await opened.get("/oidc", request=place)).status_code == 400


async def test_a_session_that_somebody_planted(tmp_path: Path) -> None:
    """A foreign cookie identifies nobody, and a sign-in replaces any cookie of the browser."""
    async with door(tmp_path) as opened:
        cookie = {"cookie": "toolbus_person=planted"}
        planted = await opened.http.get(opened.url, headers=cookie)
        assert "Signed in" not in planted.text
        code = await opened.invite()
        used = await opened.post("/invite", {"code": code}, **cookie)
        assert "planted" not in used.headers["set-cookie"]
        before = used.headers["set-cookie"].partition(";")[0]
        await opened.enter("ann")
        again = await opened.http.get(opened.url, headers={"cookie": before})
        assert "Signed in" not in again.text


@pytest.mark.parametrize("code", ["", "x", "x" * 10_000, "\u00e9", "../../x", "%00"])
async def test_a_guessed_link(code: str, tmp_path: Path) -> None:
    """Only the SHA-256 of a link is looked up, so nothing that is guessed is a name of anything."""
    async with door(tmp_path) as opened:
        await opened.invite()
        assert (await opened.get("/invite", code=code)).status_code == 400
        answered = await opened.post("/invite", {"code": code})
        assert (answered.status_code, "set-cookie" in answered.headers) == (400, False)


async def test_a_form_of_megabytes(tmp_path: Path) -> None:
    """It is not kept: nobody has signed in yet, and no form of ours is large."""
    async with door(tmp_path) as opened:
        answered = await opened.post("/invite", {"code": "x" * 2_000_000})
        assert answered.status_code == 413


# The OIDC provider


@asynccontextmanager
async def signed_in_by(signer: Signer, folder: Path) -> AsyncGenerator[Door]:
    """The pages of a gateway that trusts the provider."""
    setting = {"issuer": signer.issuer, "client_id": "bus", "groups": GROUPS}
    async with door(folder, setting) as opened:
        yield opened


async def returned(opened: Door, signer: Signer, **forged: Any) -> httpx2.Response:
    """Go to the provider, and come back; its ID token has the `forged` claims."""
    sent = query_of((await opened.get("/oidc")).headers["location"])
    usual: dict[str, Any] = {"aud": "bus", "nonce": sent["nonce"], "team": "staff", "scope": None}
    headers = {"typ": "JWT", **forged.pop("headers", {})}
    signer.granted = {"id_token": signer.token(headers=headers, **{**usual, **forged})}
    return await opened.get("/callback", state=sent["state"], code="c")


async def test_a_person_of_this_provider_gets_in(signer: Signer, tmp_path: Path) -> None:
    """Without a forgery, the same steps sign a person in."""
    async with signed_in_by(signer, tmp_path) as opened:
        assert (await returned(opened, signer)).status_code == 303


@pytest.mark.parametrize(
    "forged",
    [
        {"nonce": "another"},
        {"nonce": None},
        {"aud": "another"},
        {"aud": ["bus", "another"], "azp": "another"},
        {"iss": "https://evil.example.com"},
        {"exp": 1.0},
        {"exp": "soon"},
        {"exp": None},
        {"headers": {"typ": "at+jwt"}},
        {"headers": {"kid": "unknown"}},
        {"headers": {"crit": ["x"]}},
        {"sub": None},
        {"sub": ["ann"]},
        {"sub": " "},
        {"team": None},
        {"team": {"staff": True}},
        {"team": [["staff"]]},
    ],
    ids=str,
)
async def test_a_forged_id_token(forged: dict[str, Any], signer: Signer, tmp_path: Path) -> None:
    """A token of another sign-in, client, issuer or time, of another type, or without a group, is refused."""
    async with signed_in_by(signer, tmp_path) as opened:
        back = await returned(opened, signer, **forged)
        assert (back.status_code, "set-cookie" in back.headers) == (403, False)
        assert "ey" + "J" not in back.text


@pytest.mark.parametrize(
    "granted",
    [{}, {"id_token": 1}, {"id_token": "a.b.c"}, {"id_token": "x" * 100_000}],
    ids=lambda one: str(one)[:20],
)
async def test_a_provider_that_gives_no_token(
    granted: dict[str, Any], signer: Signer, tmp_path: Path
) -> None:
    """Nobody is signed in."""
    async with signed_in_by(signer, tmp_path) as opened:
        sent = query_of((await opened.get("/oidc")).headers["location"])
        signer.granted = granted
        assert (await opened.get("/callback", state=sent["state"], code="c")).status_code == 403


async def test_a_response_in_another_browser_or_of_another_sign_in(signer: Signer, tmp_path: Path) -> None:
    """Mallory's response signs nobody else in: the state, and a cookie of the same browser, are needed."""
    async with signed_in_by(signer, tmp_path) as opened:
        sent = query_of((await opened.get("/oidc")).headers["location"])
        signer.granted = {
            "id_token": signer.token(headers={"typ": "JWT"}, aud="bus", nonce=sent["nonce"], team="staff")
        }
        async with httpx2.AsyncClient(timeout=PATIENCE) as victim:
            query = {"state": sent["state"], "code": "c"}
            stolen = await victim.get(f"{opened.url}/callback", params=query)
            assert (stolen.status_code, "set-cookie" in stolen.headers) == (403, False)
        for state in ("", "x", "\u00e9"):
            assert (await opened.get("/callback", state=state, code="c")).status_code == 403
        # The request of a client in the cookie cannot be replaced.
        [flow] = [value for name, value in opened.http.cookies.items() if name == "toolbus_flow"]
        cookie = {"cookie": f"toolbus_flow={flow}evil"}
        changed = await opened.http.get(
            f"{opened.url}/callback", params={"state": sent["state"], "code": "c"}, headers=cookie
        )
        assert changed.status_code == 403


async def test_a_mixed_up_provider(signer: Signer, tmp_path: Path) -> None:
    """A response that names another issuer is refused before its code is sent anywhere."""
    async with signed_in_by(signer, tmp_path) as opened:
        sent = query_of((await opened.get("/oidc")).headers["location"])
        query = {"state": sent["state"], "code": "c", "iss": "https://evil.example.com"}
        back = await opened.get("/callback", **query)
        assert (back.status_code, "is not from" in back.text) == (403, True)


async def test_metadata_of_another_provider(signer: Signer, tmp_path: Path) -> None:
    """A provider whose metadata names another issuer is not used."""
    setting = {
        "issuer": signer.issuer.replace("127.0.0.1", "localhost"),
        "client_id": "bus",
        "groups": GROUPS,
    }
    async with door(tmp_path, setting) as opened:
        sent = await opened.get("/oidc")
        assert sent.status_code == 502
        assert "is about the issuer" in plain(sent.text)


async def test_a_flood_of_sign_ins_at_a_provider_that_is_down(tmp_path: Path) -> None:
    """The provider is asked once in ten seconds, whatever number of browsers begin to sign in."""
    with signing() as signer:
        signer.status = 500
        async with signed_in_by(signer, tmp_path) as opened:
            found = await asyncio.gather(*(opened.get("/oidc") for _ in range(20)))
            assert {one.status_code for one in found} == {502}
            assert len(signer.asked) <= 3  # the places of its metadata
