"""Named headers of a client go to the servers that ask for them; their values separate clients."""

from collections.abc import Iterator

import pytest

from tests.identity.passing import called, gateway, names
from tests.servers.recording import Recording, recording
from toolbus import Toolbus
from toolbus.config import bus_config
from toolbus.errors import ConfigError

pytestmark = pytest.mark.anyio


@pytest.fixture
def server() -> Iterator[Recording]:
    with recording() as started:
        yield started


def seen(server: Recording, method: str = "tools/call") -> list[str | None]:
    """The value of x-team in each request of that method."""
    return [headers.get("x-team") for _, _, headers, name in server.requests if name == method]


def opened(server: Recording) -> int:
    """The number of connections made."""
    return len(seen(server, "initialize"))


async def test_each_client_has_its_own_value(server: Recording) -> None:
    """This includes the requests that open its connection; clients without the header share the bus's own."""
    async with gateway({"me": {"url": server.url, "forward_headers": ["X-Team"]}}) as served:
        red, blue = {"x-team": "red"}, {"X-TEAM": "blue"}
        assert "me_look" in await names(served, red)
        for headers in (red, blue, {}, red):
            assert await called(served, "me_look", headers) == "seen"
    assert seen(server) == ["red", "blue", None, "red"]
    assert sorted(seen(server, "initialize"), key=str) == [None, "blue", "red"]


async def test_only_named_headers_go_to_the_servers_that_name_them(server: Recording) -> None:
    with recording() as other:
        servers = {"me": {"url": server.url, "forward_headers": ["x-team"]}, "other": {"url": other.url}}
        async with gateway(servers) as served:
            headers = {"x-team": "red", "x-org": "acme", "cookie": "a=b", "user-agent": "curious"}
            assert await called(served, "me_look", headers) == "seen"
            assert await called(served, "other_look", headers) == "seen"
        sent = {name for _, _, headers, _ in (*server.requests, *other.requests) for name in headers}
        assert seen(server) == ["red"]
        assert seen(other) == [None]
        assert opened(other) == 1  # shared with the bus
        assert not {"x-org", "cookie"} & sent
        assert "curious" not in str(server.requests + other.requests)


async def test_a_legacy_session_keeps_its_value(server: Recording) -> None:
    """A request with another value does not get the session."""
    async with gateway({"me": {"url": server.url, "forward_headers": ["x-team"]}}) as served:
        served.http.headers["x-team"] = "red"
        session = await served.opened()
        assert "seen" in (await session.call("me_look")).text
        served.http.headers["x-team"] = "blue"
        assert (await session.call("me_look")).status_code == 404
        other = await served.opened()
        assert "seen" in (await other.call("me_look")).text
    assert seen(server) == ["red", "blue"]


async def test_the_program_itself_passes_headers(server: Recording) -> None:
    settings = {"servers": {"me": {"url": server.url, "forward_headers": ["x-team"]}}}
    async with Toolbus(settings) as bus:
        red = bus.as_user("ann", headers={"X-Team": "red"})
        assert (await red.call("me/look")).text == "seen"
        assert (await bus.as_user("ann", headers={"x-team": "red"}).call("me/look")).text == "seen"
        assert (await bus.as_user("bob", headers={"x-team": "red"}).call("me/look")).text == "seen"
        assert (await bus.as_user("ann").call("me/look")).text == "seen"
        for wrong in ({"x-team": "red\r\nx-role: admin"}, {"Authorization": "x"}, {"x team": "red"}):
            with pytest.raises(ValueError, match=r"header|credential"):
                bus.as_user("ann", headers=wrong)
    assert seen(server) == ["red", "red", "red", None]
    # Ann's and bob's connections are apart; without a header, ann shares that of the bus.
    assert opened(server) == 3


async def test_sessions_of_a_client_have_its_identity(server: Recording) -> None:
    """This applies even to sessions with connections of their own."""
    settings = {"servers": {"me": {"url": server.url, "forward_headers": ["x-team"], "per_session": True}}}
    async with Toolbus(settings) as bus:
        for team in ("red", "blue"):
            session = bus.as_user("ann", headers={"x-team": team}, session="one")
            assert (await session.call("me/look")).text == "seen"
            await session.close()
    assert seen(server) == ["red", "blue"]


async def test_a_reload_changes_what_is_forwarded(server: Recording) -> None:
    async with Toolbus({"servers": {"me": {"url": server.url, "forward_headers": ["x-team"]}}}) as bus:
        red = bus.as_user("ann", headers={"x-team": "red", "x-org": "acme"})
        await red.call("me/look")
        await bus.reload({"servers": {"me": {"url": server.url, "forward_headers": ["x-org"]}}})
        await red.call("me/look")
    calls = [headers for _, _, headers, name in server.requests if name == "tools/call"]
    assert [(one.get("x-team"), one.get("x-org")) for one in calls] == [("red", None), (None, "acme")]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"url": "http://a.test", "forward_headers": ["Authorization"]}, "use auth: {type: token_exchange"),
        ({"url": "http://a.test", "forward_headers": ["cookie"]}, "use auth: {type: token_exchange"),
        ({"url": "http://a.test", "forward_headers": ["Host"]}, "belongs to one connection"),
        ({"url": "http://a.test", "forward_headers": ["Transfer-Encoding"]}, "belongs to one connection"),
        ({"url": "http://a.test", "forward_headers": ["MCP-Session-Id"]}, "belongs to one connection"),
        ({"url": "http://a.test", "forward_headers": ["X-Forwarded-For"]}, "belongs to one connection"),
        ({"url": "http://a.test", "forward_headers": ["x team"]}, "expected the name of a header"),
        ({"url": "http://a.test", "forward_headers": ["x:\r\ny"]}, "expected the name of a header"),
        ({"command": "python", "forward_headers": ["x-team"]}, "is for servers with a url"),
        (
            {"url": "http://a.test", "forward_headers": ["x-team"], "headers": {"X-Team": "red"}},
            "is set in headers",
        ),
    ],
)
def test_headers_that_cannot_be_forwarded(entry: dict[str, object], reason: str) -> None:
    """The check of the config reports it, with the reason."""
    with pytest.raises(ConfigError, match=reason):
        bus_config({"servers": {"me": entry}})
