"""The console's rules for browsers, and the requests that it accepts."""

import pytest

from tests.gateway.console.opening import console_over, home_of
from tests.gateway.driving import JSON
from tests.inside.config import Serve

pytestmark = pytest.mark.anyio

CONFIG: JSON = {"servers": {"gone": {"command": "no-such-command-at-all"}}}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


async def test_every_response_tells_the_browser_what_it_must_not_do() -> None:
    async with console_over(CONFIG) as opened:
        refused = await opened.http.get(f"{opened.home}/servers")
        await opened.enter()
        pages = [
            await opened.http.get(f"{opened.home}/{path}")
            for path in ("servers", "nowhere", "../static/console.js")
        ]
        form = await opened.post("servers/restart", {"server": "gone"})
        async with opened.stream("servers") as stream:
            streamed = stream.headers
        for headers in (*(one.headers for one in (refused, *pages, form)), streamed):
            assert headers["content-security-policy"] == POLICY
            assert headers["referrer-policy"] == "same-origin"
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cross-origin-opener-policy"] == "same-origin"
            assert headers["cross-origin-resource-policy"] == "same-origin"
            assert headers.get_list("cache-control") in (["no-store"], ["no-cache, no-transform"])
            assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": "http://localhost"},
        {"origin": "null"},
        {"origin": ""},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site"},
    ],
)
async def test_a_form_of_another_page_does_nothing(headers: dict[str, str]) -> None:
    """This includes a page of another port of this machine, whose requests carry our cookie."""
    async with console_over(CONFIG) as opened:
        await opened.enter()
        refused = await opened.post("servers/restart", {"server": "gone"}, **headers)
        assert refused.status_code == 403
        assert "Restarting" not in await opened.page("servers")


async def test_a_form_of_our_page_does_something_and_says_so_once() -> None:
    async with console_over(CONFIG) as opened:
        await opened.enter()
        done = await opened.post("servers/restart", {"server": "gone"}, **{"sec-fetch-site": "same-origin"})
        assert done.status_code == 303
        assert done.headers["location"].startswith("../servers#server-")
        assert "Restarting gone." in await opened.page("servers")
        assert "Restarting gone." not in await opened.page("servers")


async def test_a_form_without_a_cookie_does_nothing() -> None:
    async with console_over(CONFIG) as opened:
        assert (await opened.post("servers/restart", {"server": "gone"})).status_code == 401


@pytest.mark.parametrize(
    "path", ["servers", "servers/nothing", "nothing/restart", "servers/restart/more", ""]
)
async def test_only_actions_take_a_form(path: str) -> None:
    async with console_over(CONFIG) as opened:
        await opened.enter()
        assert (await opened.post(path, {"server": "gone"})).status_code == 404


async def test_what_is_not_a_form_is_refused() -> None:
    async with console_over(CONFIG) as opened:
        await opened.enter()
        sent = {"origin": opened.origin}
        json = await opened.http.post(f"{opened.home}/servers/restart", json={"server": "gone"}, headers=sent)
        assert json.status_code == 415
        many = await opened.post("servers/restart", {f"a{number}": "b" for number in range(1001)})
        assert many.status_code == 400
        assert (await opened.http.put(f"{opened.home}/servers")).status_code == 405


async def test_an_unknown_server_is_an_error_on_the_page() -> None:
    async with console_over(CONFIG) as opened:
        await opened.enter()
        done = await opened.post("servers/restart", {"server": "<b>gome"})
        assert (done.status_code, done.headers["location"]) == (303, "../servers")
        page = await opened.page("servers")
    assert "&lt;b&gt;gome" in page
    assert "<b>" not in page


async def test_a_foreign_host_is_refused_before_anything_else() -> None:
    async with console_over(CONFIG) as opened:
        await opened.enter()
        for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example"):
            assert (
                await opened.http.get(f"{opened.home}/servers", headers={"host": host})
            ).status_code == 421
            refused = await opened.http.post(
                f"{opened.url}/token",
                headers={"host": host, "authorization": f"Bearer {opened.app.entry.secret}"},
            )
            assert refused.status_code == 421


async def test_other_machines_come_in_only_if_the_config_says_so() -> None:
    forwarded = {"x-forwarded-for": "203.0.113.7"}
    async with console_over(CONFIG) as opened:
        await opened.enter()
        assert (await opened.http.get(f"{opened.home}/servers", headers=forwarded)).status_code == 403
    async with console_over(CONFIG, Serve(console=True)) as opened:
        await opened.enter()
        assert (await opened.http.get(f"{opened.home}/servers", headers=forwarded)).status_code == 200


async def test_behind_a_proxy_the_cookie_is_for_its_path_and_for_https_alone() -> None:
    serve = Serve(
        console=True,
        public_url="https://tools.example.com/team",
        trusted_proxies=("127.0.0.1",),
        auth={"keys": True},  # pyright: ignore[reportArgumentType]  pydantic reads it
    )
    sent = {"host": "tools.example.com", "x-forwarded-proto": "https", "x-forwarded-for": "203.0.113.7"}
    async with console_over(CONFIG, serve) as opened:
        token = opened.app.entry.new_token(opened.app.entry.secret)
        entered = await opened.http.get(f"{opened.url}?token={token}", headers=sent)
        opened.home = home_of(opened.url, entered.headers["location"])
        cookie, _, attributes = entered.headers["set-cookie"].partition("; ")
        path = opened.home.removeprefix(opened.origin)
        assert attributes == f"Path=/team{path}; HttpOnly; SameSite=Strict; Secure"
        own = {**sent, "cookie": cookie, "origin": "https://tools.example.com"}
        assert (await opened.http.get(f"{opened.home}/servers", headers=own)).status_code == 200
        form = {"server": "gone"}
        posted = await opened.http.post(f"{opened.home}/servers/restart", data=form, headers=own)
        assert posted.status_code == 303
        evil = {**own, "origin": "https://evil.example"}
        assert (
            await opened.http.post(f"{opened.home}/servers/restart", data=form, headers=evil)
        ).status_code == 403
