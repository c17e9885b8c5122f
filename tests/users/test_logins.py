"""Each user signs in for themselves; a server to which nobody did says so, to those whom it concerns."""

import asyncio

import pytest

from tests.inside.bus import View
from tests.inside.connect import link
from tests.inside.state import Login, TokenSource, open_tokens
from tests.users.personal_bus import heard, text_of
from toolbus import LoginRequired, Toolbus
from toolbus.config import load_config
from toolbus.events import LoginNeeded, StateChanged

pytestmark = pytest.mark.anyio
ISSUER = "https://sign-in.example"


def bus_with(port: int, tokens: TokenSource) -> Toolbus:
    """A bus with one server, to which everybody has to sign in."""
    entry = {"url": f"http://127.0.0.1:{port}/mcp", "auth": "oauth"}
    config = load_config({"servers": {"me": entry}})
    return Toolbus(config.model_copy(update={"tokens": tokens}))


async def sign_in(tokens: TokenSource, port: int, user: str) -> None:
    """As if somebody had signed in elsewhere; the token is the name."""
    resource = f"http://127.0.0.1:{port}/mcp"
    await tokens.save(Login(issuer=ISSUER, resource=resource, user=user, access=user or "bus"))


@pytest.mark.parametrize(
    "other", [{"headers": {"Host": "evil.example"}}, {"verify": False}, {"verify": "ca.pem"}]
)
async def test_a_login_is_not_sent_where_another_config_leads_its_url(
    other: dict[str, object], personal_port: int
) -> None:
    """A cloned project can name the URL of a server that the user has signed in to."""
    tokens = open_tokens("memory")
    await sign_in(tokens, personal_port, "")
    entry = {"url": f"http://127.0.0.1:{personal_port}/mcp", "auth": "oauth"}
    async with Toolbus(load_config({"servers": {"me": entry}}).model_copy(update={"tokens": tokens})) as bus:
        assert await text_of(bus, "whoami") == "bus"
    cloned = load_config({"servers": {"me": {**entry, **other}}}).model_copy(update={"tokens": tokens})
    async with Toolbus(cloned) as bus:
        assert bus.servers["me"].state == "auth_required"


async def refusal(view: View) -> str:
    with pytest.raises(LoginRequired) as down:
        await view.read_resource("me", "me://profile")
    return str(down.value)


async def test_a_user_without_a_login_is_told_how_to_sign_in(personal_port: int) -> None:
    tokens = open_tokens("memory")
    await sign_in(tokens, personal_port, "ann")
    async with bus_with(personal_port, tokens) as bus:
        ann, bob = bus.as_user("ann"), bus.as_user("bob b")
        needed = {name: heard(view, LoginNeeded) for name, view in (("ann", ann), ("bob", bob), ("bus", bus))}
        assert await text_of(ann, "whoami") == "ann"
        assert (await refusal(bob)).endswith("sign in: toolbus login me --user 'bob b'")
        assert (await refusal(bus)).endswith("sign in: toolbus login me")
        with pytest.raises(LoginRequired, match=r"sign in: toolbus login me --user 'bob b'$"):
            await bob.call("me/whoami")
        assert bob.servers["me"].state == bus.servers["me"].state == "auth_required"
        assert ann.servers["me"].state == "ready"
        assert needed["ann"] == []
        [event] = needed["bob"]
        assert (event.server, event.user, event.reason) == ("me", "bob b", "nobody has signed in")
        assert needed["bus"] == [event], "the owner of the bus hears of all users"


async def test_that_a_login_is_needed_is_told_once(
    personal_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "ON_DEMAND_EVERY", 0.0)
    tokens = open_tokens("memory")
    bus = bus_with(personal_port, tokens)
    needed = heard(bus, LoginNeeded)
    async with bus:
        assert [event.user for event in needed] == [""]
        bob = bus.as_user("bob")
        states = heard(bob, StateChanged)
        await asyncio.gather(*(refusal(bob) for _ in range(5)))
        await refusal(bob)
        assert [event.user for event in needed] == ["", "bob"]
        await sign_in(tokens, personal_port, "bob")
        await bob.wait_ready()
        assert await text_of(bob, "whoami") == "bob"
        assert states[-1].state == "ready"
        assert [event.user for event in needed] == ["", "bob"]
        assert len(bus.catalog) == 0, "nobody has signed in for the bus itself"
