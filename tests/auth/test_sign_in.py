"""Sign in to a real server through a real authorization server, in each way there is."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tests.auth.authorization_server import AuthorizationServer, authorization_server
from tests.auth.buses import bus_of, called, client_of, config, stored
from tests.auth.clients import DOCUMENT, KEY, SECRET
from tests.auth.pages import Person, browse, walk, why_no_browser
from tests.auth.resource_server import ResourceServer, resource_server
from tests.inside.state import open_tokens
from tests.interop.servers import require_installed
from tests.patience import PATIENCE
from toolbus import LoginRequired, SignInFailed, ToolbusError, View
from toolbus.events import LoginNeeded
from toolbus.records import LoginRequest

require_installed("oauth")
pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_person_signs_in_once_and_is_known_in_tools_resources_and_prompts(
    era: str, authority: AuthorizationServer, guarded: ResourceServer, tmp_path: Path
) -> None:
    settings, ann = config(guarded, tmp_path, era=era), Person("ann")
    async with bus_of(settings, ann) as bus:
        assert await called(bus, "whoami") == "ann"
        resource = await bus.read_resource("guarded", "user://name")
        prompt = await bus.get_prompt("guarded", "greet")
    assert "name of ann" in str(resource)
    assert "Greet ann" in str(prompt)
    async with bus_of(settings) as again:  # nobody there to sign in
        assert await called(again, "whoami") == "ann"
    assert len(ann.requests) == 1
    assert authority.count("authorization ") == 1
    assert authority.count("token ") == 1
    assert authority.count("registration 201") == 1


async def test_a_browser_comes_back_by_itself(
    authority: AuthorizationServer, guarded: ResourceServer, tmp_path: Path
) -> None:
    if reason := await asyncio.to_thread(why_no_browser):
        pytest.skip(reason)

    async def in_chromium(request: LoginRequest) -> str | None:
        browsing = asyncio.create_task(asyncio.to_thread(browse, request.url, "ann", request.redirect_uri))
        try:
            await asyncio.shield(browsing)
            return await asyncio.Future[str]()  # the browser has come back, so nobody has to copy anything
        finally:
            await browsing

    async with bus_of(config(guarded, tmp_path), in_chromium) as bus:
        assert await called(bus, "whoami") == "ann"
    assert authority.counts()["token authorization_code 200"] == 1


async def test_a_client_with_a_metadata_document_is_not_registered(
    authority: AuthorizationServer, guarded: ResourceServer, tmp_path: Path
) -> None:
    auth = {"type": "oauth", "client_metadata": DOCUMENT}
    async with bus_of(config(guarded, tmp_path, auth), Person("ann")) as bus:
        assert await called(bus, "whoami") == "ann"
    assert authority.count("registration") == 0
    assert (await stored(guarded, tmp_path)).client["client_id"] == DOCUMENT


@pytest.mark.parametrize(
    ("name", "proof"), [("bot", {"client_secret": "${PROOF}"}), ("signer", {"key": "${PROOF}"})]
)
async def test_a_program_has_its_own_identity(
    name: str, proof: dict[str, str], authority: AuthorizationServer, guarded: ResourceServer, tmp_path: Path
) -> None:
    secrets = {"bot": SECRET, "signer": KEY}
    auth = {"type": "client_credentials", "client_id": name, **proof}
    async with bus_of(config(guarded, tmp_path, auth), get_secret={"PROOF": secrets[name]}.get) as bus:
        assert await called(bus, "whoami") == name
    assert authority.counts()["token client_credentials 200"] == 1


async def test_a_tool_that_needs_another_scope_leads_to_one_more_question(
    authority: AuthorizationServer, guarded: ResourceServer, tmp_path: Path
) -> None:
    ann = Person("ann")
    async with bus_of(config(guarded, tmp_path), ann) as bus:
        assert await called(bus, "whoami") == "ann"
        assert await called(bus, "admin") == "admin ann"
        assert await called(bus, "admin") == "admin ann"
    assert len(ann.requests) == 2
    assert guarded.counts()["tools/call admin 403"] == 1
    assert set(str((await stored(guarded, tmp_path)).scope).split()) >= {"tools", "admin"}


@pytest.mark.parametrize("nonce", [False, pytest.param(True, marks=pytest.mark.full)])
async def test_tokens_are_bound_to_a_key_where_the_server_asks_for_it(nonce: bool, tmp_path: Path) -> None:
    with (
        authorization_server(dpop_nonce=nonce) as authority,
        resource_server(authority.issuer, tmp_path, dpop=True, nonces=nonce) as guarded,
    ):
        settings = config(guarded, tmp_path / "tokens")
        async with bus_of(settings, Person("ann")) as bus:
            assert await asyncio.gather(*(called(bus, "whoami") for _ in range(8))) == ["ann"] * 8
        async with bus_of(settings) as again:
            assert await called(again, "whoami") == "ann"
        login = await stored(guarded, tmp_path / "tokens")
    assert login.type == "DPoP"
    assert authority  # one sign-in was enough, also with nonces


async def test_four_slow_calls_run_at_once(
    authority: AuthorizationServer, guarded: ResourceServer, tmp_path: Path
) -> None:
    async with bus_of(config(guarded, tmp_path), Person("ann")) as bus:
        assert await asyncio.gather(*(called(bus, "slow", together=4) for _ in range(4))) == ["ann"] * 4
    assert guarded.slow_most() == 4


def copied(url: str, user: str, callback: str | None) -> str | None:
    """Sign in, and copy only the code from the address of the last page."""
    redirect = walk(url, user, callback)
    assert redirect is not None
    return redirect.partition("code=")[2].partition("&")[0]


async def test_a_person_may_copy_the_code_only_if_the_rest_proves_nothing(
    authority: AuthorizationServer, guarded: ResourceServer, tmp_path: Path
) -> None:
    client = await client_of(config(guarded, tmp_path))
    with pytest.raises(SignInFailed, match="paste the whole URL") as failed:
        await client.sign_in(Person("ann", copied))
    assert failed.value.step == "sign-in"
    authority.spoil(metadata={"authorization_response_iss_parameter_supported": None})
    login = await client.sign_in(Person("ann", copied))
    assert login.access in authority.secrets()


async def test_a_person_signs_in_on_another_device(
    authority: AuthorizationServer, guarded: ResourceServer, tmp_path: Path
) -> None:
    settings, ann = config(guarded, tmp_path), Person("ann")
    await (await client_of(settings)).sign_in(ann, device=True)
    [request] = ann.requests
    assert request.redirect_uri == ""
    assert request.code is not None
    async with bus_of(settings) as bus:
        assert await called(bus, "whoami") == "ann"
    assert authority.counts()["token device_code 200"] == 1


async def test_a_login_is_revoked_when_it_is_given_back(
    authority: AuthorizationServer, guarded: ResourceServer, tmp_path: Path
) -> None:
    settings = config(guarded, tmp_path)
    client = await client_of(settings)
    login = await client.sign_in(Person("ann"))
    assert await client.sign_out(revoke=True)
    assert authority.counts()["revocation 200"] >= 1
    await open_tokens(settings["tokens"]).save(replace(login, expires_at=0.0))  # as if somebody had a copy
    async with bus_of(settings) as bus:
        required = bus.failures["guarded"]
    assert isinstance(required, LoginRequired)
    assert required.login == "toolbus login guarded"
    assert authority.counts()["token refresh_token 400"] == 1


async def test_a_bus_that_is_stopped_while_somebody_signs_in_ends_the_calls_that_wait(
    guarded: ResourceServer, tmp_path: Path
) -> None:
    asked = asyncio.Event()

    async def never(request: LoginRequest) -> str | None:
        asked.set()
        return await asyncio.Future[str]()

    bus = bus_of(config(guarded, tmp_path, lazy=True), never)
    async with bus:
        call = asyncio.create_task(called(bus, "whoami"))
        await asked.wait()
    with pytest.raises(ToolbusError):
        await call


async def test_a_missing_permission_without_anybody_to_ask_costs_one_call_and_is_reported(
    guarded: ResourceServer, tmp_path: Path
) -> None:
    settings = config(guarded, tmp_path)
    async with bus_of(settings, Person("ann")) as bus:
        assert await called(bus, "whoami") == "ann"
    async with bus_of(settings) as bus:
        events = bus.events()
        with pytest.raises(LoginRequired, match=r"sign in: toolbus login guarded --scopes '.*admin.*'"):
            await called(bus, "admin")
        assert await called(bus, "whoami") == "ann"
        assert bus.servers["guarded"].state == "ready"
    needed = [event async for event in events if isinstance(event, LoginNeeded)]
    assert [(event.server, event.reason) for event in needed] == [("guarded", "the login lacks permissions")]


async def test_users_sign_in_for_themselves(guarded: ResourceServer, tmp_path: Path) -> None:
    async def login(request: LoginRequest) -> str | None:
        return await Person(request.user)(request)

    async with bus_of(config(guarded, tmp_path, lazy=True), login) as bus:
        users = [bus.as_user(name) for name in ("ann", "bob")]
        names = [await called(user, "whoami") for user in users * 2]
        resources = [str(await user.read_resource("guarded", "user://name")) for user in users]
    assert names == ["ann", "bob", "ann", "bob"]
    assert ["name of ann" in resources[0], "name of bob" in resources[1]] == [True, True]
    assert [(await stored(guarded, tmp_path, name)).user for name in ("ann", "bob")] == ["ann", "bob"]


async def test_a_program_does_not_use_the_login_of_a_person_nor_a_person_that_of_a_program(
    guarded: ResourceServer, tmp_path: Path
) -> None:
    machine = {"type": "client_credentials", "client_id": "bot", "client_secret": SECRET}
    async with bus_of(config(guarded, tmp_path), Person("ann")) as bus:
        assert await called(bus, "whoami") == "ann"
    async with bus_of(config(guarded, tmp_path, machine)) as bus:
        assert await called(bus, "whoami") == "bot"
    async with bus_of(config(guarded, tmp_path, {**machine, "client_secret": "wrong"})) as bus:
        assert "sign-in failed: token: invalid_client" in str(bus.servers["guarded"].error)
    other = {"type": "oauth", "client_id": "somebody-else"}
    for settings in (config(guarded, tmp_path / "empty"), config(guarded, tmp_path, other)):
        async with bus_of(settings) as bus:
            with pytest.raises(LoginRequired, match="nobody has signed in; sign in: toolbus login guarded"):
                await called(bus, "whoami")
    async with bus_of(config(guarded, tmp_path)) as bus:
        assert await called(bus, "whoami") == "ann"


async def until_refused(bus: View) -> None:
    """Call until the token has expired."""
    while True:
        await called(bus, "whoami")


async def test_a_login_that_is_removed_elsewhere_is_not_made_again_by_a_renewal(
    authority: AuthorizationServer, guarded: ResourceServer, tmp_path: Path
) -> None:
    authority.spoil(lifetime=2)
    settings = config(guarded, tmp_path)
    async with bus_of(settings, Person("ann")) as bus:
        assert await called(bus, "whoami") == "ann"
    async with bus_of(settings) as bus, asyncio.timeout(PATIENCE):
        assert await called(bus, "whoami") == "ann"
        await (await client_of(settings)).sign_out()
        with pytest.raises(LoginRequired, match="you have signed out; sign in: toolbus login guarded"):
            await until_refused(bus)
    assert await open_tokens(f"file:{tmp_path}").find(guarded.url, "") is None


async def test_a_handler_that_raises_is_not_a_failure_of_the_server(
    guarded: ResourceServer, tmp_path: Path
) -> None:
    async def broken(request: LoginRequest) -> str | None:
        raise ValueError("the bug")

    async with bus_of(config(guarded, tmp_path), broken) as bus:
        assert "sign-in failed: the login handler raised ValueError" in str(bus.servers["guarded"].error)


async def test_the_token_of_a_program_is_replaced_by_itself_and_not_stored(
    authority: AuthorizationServer, guarded: ResourceServer, tmp_path: Path
) -> None:
    authority.spoil(lifetime=2)
    machine = {"type": "client_credentials", "client_id": "bot", "client_secret": SECRET}
    async with bus_of(config(guarded, tmp_path, machine)) as bus, asyncio.timeout(PATIENCE):
        while authority.count("token client_credentials 200") < 3:
            assert await called(bus, "whoami") == "bot"
    assert await open_tokens(f"file:{tmp_path}").find(guarded.url, "") is None
