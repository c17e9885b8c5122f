"""Admission to the gateway: hosts and origins, proxies, keys and views, and waiting times."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.requests import HERE, Clock, refused, request
from tests.inside.config import Serve, setting
from tests.inside.core import ConfigError
from tests.inside.gateway import (
    FREE,
    LOCAL,
    LONGEST,
    MAX_ADDRESSES,
    MAX_LINES,
    AccessControl,
    Admission,
    Keys,
    Principal,
    Refusal,
    RequestRate,
    Throttle,
    access_of,
    file_keys,
)
from toolbus.config import load_config

pytestmark = pytest.mark.anyio

PUBLIC: dict[str, Any] = {
    "http": "0.0.0.0:7400",
    "hosts": ["tools.example.com", "10.0.0.7:7400"],
    "auth": {"keys": True},
    "views": {"default": {}, "research": {"include": ["arxiv/*"]}, "admin": {}},
}
NAMED = {"host": "tools.example.com", "address": "203.0.113.9"}


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


class Door:
    """An access control with keys, and its clock."""

    def __init__(self, folder: Path, serve: dict[str, Any]) -> None:
        self.clock = Clock()
        self.stored = file_keys(folder / "toolbus.yaml")
        settings = setting("serve", serve)
        keys = Keys(self.stored, settings.default_view, clock=self.clock) if settings.auth.keys else None
        self.access: Admission = AccessControl(settings, keys=keys, clock=self.clock)

    def key(self, name: str, *views: str) -> str:
        key = self.stored.add(name, views=views)[0]
        self.clock.pass_(1)
        return key


@pytest.fixture
def door(tmp_path: Path) -> Door:
    return Door(tmp_path, PUBLIC)


@pytest.fixture
def local(tmp_path: Path) -> Door:
    return Door(tmp_path, {"views": PUBLIC["views"]})


async def test_everyone_on_this_machine_is_let_in_without_authentication(local: Door) -> None:
    for host in (HERE, "localhost:7400", "[::1]:7400", "LOCALHOST"):
        assert await local.access.admit(request(host=host)) == Principal(name="local")
    by_path = await local.access.admit(request(path="/mcp/research"))
    assert by_path == Principal(name="local", view="research")
    assert refused(await local.access.admit(request(path="/mcp/other")))[0] == 404
    for path in ("/", "/mcpx", "/mcp/", "/mcp/research/x"):
        assert refused(await local.access.admit(request(path=path)))[0] == 404


@pytest.mark.parametrize(
    "host",
    [
        "evil.example.com",
        "127.0.0.1.evil.example.com",
        "",
        "a, 127.0.0.1",
        "[::1",
        "127.0.0.1:x",
        "a@localhost",
    ],
)
async def test_a_foreign_host(local: Door, host: str) -> None:
    """A web page that points its own name at this machine gets nothing."""
    status, reason = refused(await local.access.admit(request(host=host)))
    assert (status, reason.partition(" '")[0]) == (421, "unknown host")
    assert refused(local.access.check(request(host=host)))[0] == 421


@pytest.mark.parametrize(
    "origin", ["https://evil.example.com", "null", "http://127.0.0.1.evil.example.com", "file://", "*"]
)
async def test_a_foreign_origin(local: Door, origin: str) -> None:
    """A page of somebody else gets nothing, and no header that would let it read."""
    foreign = request(origin=origin)
    assert refused(await local.access.admit(foreign))[0] == 403
    assert local.access.cors(foreign) == {}


async def test_a_host_that_resembles_one_of_the_config(tmp_path: Path) -> None:
    """Names count in ASCII, as clients send them: another spelling is another host."""
    names = {"hosts": ["faß.example:7400", "FAẞ.example"], "origins": ["https://faß.example"]}
    door = Door(tmp_path, {**PUBLIC, **names, "public_url": "https://bücher.example"})
    key = door.key("ann")
    at, origin = "203.0.113.9", "https://xn--fa-hia.example"
    for host in ("xn--fa-hia.example", "xn--fa-hia.example:7400", "xn--bcher-kva.example"):
        found = await door.access.admit(request(key, host=host, address=at, origin=origin))
        assert isinstance(found, Principal)
    for host in ("fass.example", "faß.example", "bucher.example"):
        assert refused(await door.access.admit(request(key, host=host, address=at)))[0] == 421
    foreign = request(key, host="xn--fa-hia.example", address=at, origin="https://fass.example")
    assert refused(await door.access.admit(foreign))[0] == 403


async def test_pages_that_may_use_it(tmp_path: Path) -> None:
    page, public = "https://app.example.com", "https://tools.example.com"
    door = Door(tmp_path, {**PUBLIC, "origins": [page], "public_url": public})
    key = door.key("ann")
    for origin in (page, public):
        assert isinstance(await door.access.admit(request(key, **NAMED, origin=origin)), Principal)
    # A page of this machine is trusted on this machine only.
    at_home = "http://localhost:6274"
    assert refused(await door.access.admit(request(key, **NAMED, origin=at_home)))[0] == 403
    assert isinstance(await door.access.admit(request(key, origin=at_home)), Principal)
    assert door.access.cors(request(origin=at_home)) == {}
    preflight = request(
        method="OPTIONS", **NAMED, origin=page, access_control_request_headers="authorization, mcp-name"
    )
    assert door.access.check(preflight) is None
    headers = door.access.cors(preflight)
    assert headers["access-control-allow-origin"] == page
    assert headers["access-control-allow-headers"] == "authorization, mcp-name"


async def test_a_proxy_in_front_of_a_gateway_without_authentication(local: Door) -> None:
    """A request of another machine is refused, though the proxy is on this one."""
    for headers in ({"x_forwarded_for": "203.0.113.9"}, {"forwarded": "for=203.0.113.9"}):
        status, reason = refused(await local.access.admit(request(**headers)))
        assert (status, reason.partition(";")[0]) == (403, "requests of other machines need authentication")
    assert isinstance(await local.access.admit(request(x_forwarded_for="127.0.0.1")), Principal)


async def test_a_request_without_a_key(door: Door) -> None:
    """It is told how to get in, and nothing else."""
    found = await door.access.admit(request(**NAMED))
    assert isinstance(found, Refusal)
    assert (found.status, found.headers["www-authenticate"]) == (401, 'Bearer realm="toolbus"')
    basic = await door.access.admit(request(**NAMED, authorization="Basic YTpi"))
    assert refused(basic) == (401, "send a bearer token, or a key as one")


async def test_a_wrong_key(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    """It is refused, and neither the response nor the log quotes it."""
    wrong = "tb_" + "x" * 43
    with caplog.at_level(logging.DEBUG, "toolbus"):
        found = await door.access.admit(request(wrong, **NAMED))
    assert isinstance(found, Refusal)
    assert refused(found) == (401, "unknown key")
    assert 'error="invalid_token"' in found.headers["www-authenticate"]
    assert "the gateway refused a request of 203.0.113.9: unknown key" in caplog.text
    assert "x" * 43 not in f"{caplog.text}{found}{request(wrong)!r}"


async def test_two_authorization_headers(door: Door) -> None:
    """They are refused, even if one of them is right."""
    key = door.key("ann")
    both = request(**NAMED, authorization=f"Bearer wrong, Bearer {key}")
    assert refused(await door.access.admit(both))[0] == 401


async def test_a_key_gives_its_view(door: Door) -> None:
    """A path never gives more than the key does."""
    plain, bound, both = (
        door.key("plain"),
        door.key("bound", "research"),
        door.key("both", "admin", "research"),
    )
    views = {
        (name, path): (await door.access.admit(request(key, path=path, **NAMED)))
        for name, key in (("plain", plain), ("bound", bound), ("both", both))
        for path in ("/mcp", "/mcp/research", "/mcp/admin", "/mcp/default", "/mcp/other")
    }
    given = {place: one.view for place, one in views.items() if isinstance(one, Principal)}
    assert given == {
        ("plain", "/mcp"): "default",
        ("plain", "/mcp/default"): "default",
        ("bound", "/mcp"): "research",
        ("bound", "/mcp/research"): "research",
        ("both", "/mcp"): "admin",
        ("both", "/mcp/admin"): "admin",
        ("both", "/mcp/research"): "research",
    }
    # Whether a view exists is not told.
    others = {refused(one)[0] for one in views.values() if isinstance(one, Refusal)}
    assert others == {403}


async def test_a_key_for_a_view_that_is_gone(door: Door) -> None:
    """It lets nobody in, rather than into another view."""
    key = door.key("ann", "gone")
    reason = "the view 'gone' is not in the config any more"
    assert refused(await door.access.admit(request(key, **NAMED))) == (403, reason)


async def test_whoever_guesses_has_to_wait_longer_each_time(door: Door) -> None:
    """An address that sends wrong keys is told to wait, up to a minute."""
    waits: list[int] = []
    for _ in range(FREE + 8):
        found = await door.access.admit(request("tb_wrong", **NAMED))
        while isinstance(found, Refusal) and found.status == 429:
            waits.append(int(found.headers["retry-after"]))
            door.clock.pass_(waits[-1])
            found = await door.access.admit(request("tb_wrong", **NAMED))
        assert refused(found)[0] == 401
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    assert max(waits) == LONGEST
    # Others do not wait.
    assert (
        refused(await door.access.admit(request("tb_wrong", **{**NAMED, "address": "203.0.113.10"})))[0]
        == 401
    )


async def test_guessing_from_the_address_of_somebody_who_is_let_in(door: Door) -> None:
    """A client that was admitted before is not locked out by a neighbor."""
    known, late = door.key("known"), door.key("late")
    assert isinstance(await door.access.admit(request(known, **NAMED)), Principal)
    for _ in range(FREE):
        await door.access.admit(request("tb_wrong", **NAMED))
    assert refused(await door.access.admit(request(late, **NAMED)))[0] == 429
    assert isinstance(await door.access.admit(request(known, **NAMED)), Principal)
    door.clock.pass_(1)
    assert isinstance(await door.access.admit(request(late, **NAMED)), Principal)


async def test_asking_without_a_key_is_not_guessing(door: Door) -> None:
    for _ in range(FREE + 3):
        assert refused(await door.access.admit(request(**NAMED)))[0] == 401
    assert isinstance(await door.access.admit(request(door.key("ann"), **NAMED)), Principal)


def test_guessing_from_very_many_addresses() -> None:
    """The memory for them is bounded, and a network of IPv6 is treated as one address."""
    throttle = Throttle(Clock())
    for number in range(MAX_ADDRESSES + 100):
        throttle.refused(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert len(throttle) == MAX_ADDRESSES
    rate = RequestRate(2, Clock())
    for number in range(MAX_ADDRESSES + 100):
        assert rate.wait(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}") == 0
    assert len(rate) == MAX_ADDRESSES
    for number in range(FREE):
        throttle.refused(f"2001:db8::{number:x}")
    assert throttle.wait("2001:db8::ffff:1") > 0
    assert throttle.wait("2001:db8:0:1::1") == 0
    for address in ("::ffff:198.51.100.1", "198.51.100.1") * FREE:
        throttle.refused(address)
    assert throttle.wait("198.51.100.1") > 0


async def test_very_many_refusals_do_not_fill_the_log(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    """A flood is a few lines and a number."""
    with caplog.at_level(logging.WARNING, "toolbus"):
        for _ in range(MAX_LINES * 3):
            await door.access.admit(request(host="evil.example.com"))
        door.clock.pass_(10)
        await door.access.admit(request(host="evil.example.com"))
    assert len(caplog.records) == MAX_LINES + 2
    assert f"the gateway refused {MAX_LINES * 2} more requests" in caplog.text


async def test_a_forged_forwarded_address(door: Door) -> None:
    """A client cannot give itself another address, name or scheme."""
    for number in range(FREE):
        forged = request("tb_wrong", **NAMED, x_forwarded_for=f"198.51.100.{number}")
        assert refused(await door.access.admit(forged))[0] == 401
    forged = request("tb_wrong", **NAMED, x_forwarded_for="198.51.100.99")
    assert refused(await door.access.admit(forged))[0] == 429
    by_name = request("tb_wrong", address="203.0.113.9", host="evil", x_forwarded_host="tools.example.com")
    assert refused(await door.access.admit(by_name))[0] == 421


async def test_a_trusted_proxy_names_the_client(tmp_path: Path) -> None:
    door = Door(tmp_path, {**PUBLIC, "trusted_proxies": ["10.0.0.0/24", "::1"]})
    for chain in ("198.51.100.1, 203.0.113.9", "203.0.113.9, 10.0.0.4", "203.0.113.9:5123,10.0.0.4"):
        proxied = {"address": "10.0.0.5", "host": "upstream", "x_forwarded_host": "tools.example.com"}
        for _ in range(2):
            await door.access.admit(request("tb_wrong", **proxied, x_forwarded_for=chain))
    assert refused(await door.access.admit(request("tb_wrong", **NAMED)))[0] == 429
    # What the client wrote before the proxy is not believed.
    assert (
        refused(
            await door.access.admit(request("tb_wrong", host="tools.example.com", address="198.51.100.1"))
        )[0]
        == 401
    )


async def test_a_principal_is_current_until_its_key_is_revoked(door: Door) -> None:
    principal = await door.access.admit(request(door.key("ann"), **NAMED))
    assert isinstance(principal, Principal)
    assert door.access.is_current(principal)
    door.stored.revoke("ann")
    door.clock.pass_(1)
    assert not door.access.is_current(principal)
    assert not door.access.is_current(Principal(kind="subject", name="ann", expires=1.0))


async def test_who_would_not_be_let_in_is_not_current(door: Door) -> None:
    """Clients may come from a replica with another config: without a key, with their own, with a token."""
    ann = await door.access.admit(request(door.key("ann"), **NAMED))
    assert isinstance(ann, Principal)
    bob = Principal(kind="subject", name="bob", issuer="https://example.com")
    for other in (LOCAL, replace(ann, key="0" * 64), replace(ann, user="bob"), bob):
        assert not door.access.is_current(other, answers=True)
    unlocked = AccessControl(Serve())
    assert [unlocked.is_current(one) for one in (LOCAL, ann, bob)] == [True, False, False]


def test_there_is_no_metadata_without_oauth(door: Door) -> None:
    assert door.access.metadata(request(path="/.well-known/oauth-protected-resource/mcp")) is None


def test_keys_need_a_config_file() -> None:
    config = load_config({"servers": {}, "serve": {"auth": {"keys": True}}})
    with pytest.raises(ConfigError, match=r"serve.auth.keys: keys belong to a config file; save the config"):
        access_of(config)


def test_an_address_may_ask_so_often_in_a_minute() -> None:
    """One that waits as long as it is told may ask again; others are not concerned."""
    clock = Clock()
    rate = RequestRate(60, clock)
    assert [rate.wait("10.0.0.1") for _ in range(60)] == [0.0] * 60
    assert rate.wait("10.0.0.1") == pytest.approx(1.0)
    assert rate.wait("10.0.0.2") == rate.wait("2001:db8::1") == 0
    clock.pass_(1)
    assert rate.wait("10.0.0.1") == 0
    assert rate.wait("10.0.0.1") > 0
    clock.pass_(3600)
    assert [rate.wait("10.0.0.1") for _ in range(60)] == [0.0] * 60
    assert rate.wait("10.0.0.1") > 0
