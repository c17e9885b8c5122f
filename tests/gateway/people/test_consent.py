"""The consent page: what it says, and what the answers do."""

from pathlib import Path

import pytest

from tests.gateway.console.opening import plain
from tests.gateway.people.door import REDIRECT, door, fields_of, query_of
from tests.inside.gateway import Person

pytestmark = pytest.mark.anyio
ANN = Person(name="ann", user="ann")


async def test_the_page_names_client_destination_view_and_scopes(tmp_path: Path) -> None:
    async with door(tmp_path) as opened:
        await opened.enter("ann", "default", "research")
        request = await opened.requests.ask("research", "default")
        page = await opened.get(request=request)
        text = plain(page.text)
        for said in ("Connect Desk?", "Desk, as it calls itself", "client.example.com", "default, research"):
            assert said in text
        assert f"{opened.origin}/mcp" in text
        assert fields_of(page.text, "/consent")["view"] == ["default", "research"]
        assert "<script" not in page.text


async def test_allow_gives_the_chosen_views_and_refuse_gives_nothing(tmp_path: Path) -> None:
    async with door(tmp_path) as opened:
        await opened.enter("ann", "default", "research")
        request = await opened.requests.ask("default", "research")
        allowed = await opened.consent(request, view=["research"])
        assert allowed.status_code == 303
        assert allowed.headers["location"].startswith(f"{REDIRECT}?code=tbg_")
        assert opened.requests.approved == [(ANN, ("research",))]
        refused = await opened.consent(request, "refuse")
        assert query_of(refused.headers["location"])["error"] == "access_denied"
        assert len(opened.requests.approved) == 1


async def test_nobody_allows_a_view_that_is_not_theirs(tmp_path: Path) -> None:
    async with door(tmp_path) as opened:
        await opened.enter("ann", "default")
        both = await opened.requests.ask("default", "research")
        assert (await opened.consent(both, view=["research"])).status_code == 400
        other = await opened.requests.ask("research")
        page = await opened.get(request=other)
        assert "You cannot connect Desk" in page.text
        assert 'value="allow"' not in page.text
        assert (await opened.consent(other, view=["research"])).status_code == 400
        assert opened.requests.approved == []
        refused = await opened.consent(other, "refuse")
        assert query_of(refused.headers["location"])["error"] == "access_denied"


async def test_somebody_else_signs_in_for_the_same_request(tmp_path: Path) -> None:
    async with door(tmp_path) as opened:
        await opened.enter("ann")
        request = await opened.requests.ask()
        form = fields_of((await opened.get(request=request)).text, "/out")
        left = await opened.post("/out", form)
        assert left.headers["location"] == f"/sign-in?request={request}"
        assert "Sign in to connect Desk" in (await opened.get(request=request)).text
        await opened.post("/invite", {"code": await opened.invite("bob")})
        await opened.consent(request)
        assert [person.name for person, _ in opened.requests.approved] == ["bob"]


async def test_a_program_on_the_computer_is_called_that(tmp_path: Path) -> None:
    async with door(tmp_path) as opened:
        await opened.enter()
        for redirect, said, source in (
            ("http://127.0.0.1:4711/x", "127.0.0.1:4711", "http://127.0.0.1:4711"),
            ("http://[::1]:4711/x", "[::1]:4711", "http:"),
            ("cursor://auth/done", "cursor://auth", "cursor:"),
        ):
            page = await opened.get(request=await opened.requests.ask(redirect_uri=redirect))
            assert f"{said} (a program on this computer)" in plain(page.text)
            assert page.headers["content-security-policy"].endswith(f"form-action 'self' {source}")


async def test_an_unknown_request_or_page_is_said_plainly(tmp_path: Path) -> None:
    async with door(tmp_path) as opened:
        late = await opened.get(request="gone")
        assert (late.status_code, "Go back to your client" in late.text) == (400, True)
        assert (await opened.post("/consent", {"request": "gone"})).status_code == 400
        assert (await opened.get("/nothing")).status_code == 404
        assert (await opened.get("/oidc")).status_code == 404
        assert (await opened.http.put(f"{opened.url}/invite")).status_code == 404
        assert "Sign in" in (await opened.get()).text
        style = await opened.get("/console.css")
        assert style.headers["content-type"].startswith("text/css")


async def test_who_has_none_of_the_views_gets_the_url_of_their_own(tmp_path: Path) -> None:
    async with door(tmp_path) as opened:
        await opened.enter("ann", "research")
        text = plain((await opened.get(request=await opened.requests.ask("default"))).text)
        assert "The client asks for the view default, and you may not use it." in text
        assert f"{opened.origin}/mcp/research" in text


async def test_who_has_no_view_with_a_scope_is_told_whom_to_ask(tmp_path: Path) -> None:
    auth = {"sign_in": {"scopes": {"tools:all": "default"}}}
    async with door(tmp_path, auth=auth) as opened:
        await opened.enter("ann", "research")
        text = plain((await opened.get(request=await opened.requests.ask("tools:all"))).text)
        assert "Ask the operator of this gateway for access." in text


async def test_a_view_is_shown_with_its_scope_if_that_has_another_name(tmp_path: Path) -> None:
    auth = {"sign_in": {"scopes": {"tools:all": "default", "research": "research"}}}
    async with door(tmp_path, auth=auth) as opened:
        await opened.enter("ann", "default", "research")
        page = await opened.get(request=await opened.requests.ask("tools:all", "research"))
        assert "default (scope tools:all), research" in plain(page.text)


async def test_the_log_names_person_and_client_and_no_secret(tmp_path: Path) -> None:
    async with door(tmp_path) as opened:
        code = await opened.invite("ann", "default")
        for _ in range(2):
            await opened.post("/invite", {"code": code})
        request = await opened.requests.ask()
        await opened.consent(request, "refuse")
        await opened.consent(request)
        assert opened.notes == [
            "'ann' signed in with a link",
            "somebody at 127.0.0.1 came with a link that is used or wrong",
            "'ann' refused 'Desk' (client.example.com)",
            "'ann' allowed 'Desk' (client.example.com) to use default",
        ]


async def test_wrong_links_do_not_flood_the_log(tmp_path: Path) -> None:
    async with door(tmp_path) as opened:
        for _ in range(15):
            await opened.post("/invite", {"code": "wrong"})
        assert len(opened.notes) == 10


async def test_a_person_sees_a_page_and_a_program_json_when_a_client_is_wrong(tmp_path: Path) -> None:
    async with door(tmp_path) as opened:
        redirect = "https://other.example.com/<b>"
        body = {"redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none"}
        made = (await opened.http.post(f"{opened.origin}/register", json=body)).json()
        known = {"response_type": "code", "client_id": made["client_id"], "redirect_uri": redirect}
        for query in ({"client_id": "unknown"}, known, {"client_id": "<b>://"}):
            url = f"{opened.origin}/authorize"
            page = await opened.http.get(url, params=query, headers={"accept": "text/html,*/*"})
            plainly = await opened.http.get(url, params=query)
            assert (page.status_code, "This client cannot connect" in page.text) == (400, True)
            assert "<b>" not in page.text
            assert "default-src 'none'" in page.headers["content-security-policy"]
            assert (plainly.status_code, "error" in plainly.json()) == (400, True)
