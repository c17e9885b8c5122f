"""The ways to an HTTP server: proxies, TLS with client certificates, IPv6, Unix sockets."""

import socket
import ssl
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.inside.connect import Proxy, environment_proxy, http, parse_url
from tests.patience import until
from tests.servers.certificates import self_signed
from tests.servers.proxy import proxy_server, server_tls
from tests.servers.raw_http import raw_server, raw_unix_server
from toolbus import ConnectFailed, ConnectionLost, Toolbus, connect_mcp

pytestmark = pytest.mark.anyio
LOGIN = "Basic YW5uOnBAc3M="


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    return self_signed(tmp_path)


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def test_a_plain_server_is_reached_through_the_proxy_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with raw_server() as server, proxy_server(server) as proxy:
        monkeypatch.setenv("http_proxy", f"http://ann:p%40ss@127.0.0.1:{proxy.port}")
        async with connect_mcp("http://mcp.test/mcp?q=1") as mcp:
            assert (await mcp.call_tool("look")).text == "seen"
    assert {head.partition("\r\n")[0] for head in proxy.heads} == {"POST http://mcp.test/mcp?q=1 HTTP/1.1"}
    assert all(f"proxy-authorization: {LOGIN}" in head for head in proxy.heads)
    assert {request.headers["host"] for request in server.requests} == {"mcp.test"}


@pytest.mark.parametrize("is_tls_proxy", [False, True])
async def test_a_tls_server_is_reached_by_a_tunnel_that_hides_the_request_from_the_proxy(
    monkeypatch: pytest.MonkeyPatch, certificate: Path, is_tls_proxy: bool
) -> None:
    tls = server_tls(certificate)
    async with raw_server(tls) as server, proxy_server(server, tls if is_tls_proxy else None) as proxy:
        scheme = "https" if is_tls_proxy else "http"
        monkeypatch.setenv("https_proxy", f"{scheme}://ann:p%40ss@127.0.0.1:{proxy.port}")
        url = f"https://127.0.0.1:{server.port}/mcp"
        async with connect_mcp(url=url, verify=str(certificate), headers={"X-Key": "s3cret"}) as mcp:
            assert (await mcp.call_tool("look")).text == "seen"
    assert {head.partition("\r\n")[0] for head in proxy.heads} == {
        f"CONNECT 127.0.0.1:{server.port} HTTP/1.1"
    }
    assert all(f"proxy-authorization: {LOGIN}" in head for head in proxy.heads)
    assert "s3cret" not in "".join(proxy.heads)
    assert all("proxy-authorization" not in request.headers for request in server.requests)


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", r"it requires credentials \(HTTP 407\)"),
        (b"HTTP/1.1 502 Bad Gateway\r\n\r\n", r"it refused \(HTTP 502\)"),
        (b"220 smtp.test ready\r\n\r\n", "reply is not HTTP"),
        (b"", "the proxy closed the connection"),
    ],
)
async def test_a_tunnel_that_is_refused_is_named_without_the_password(
    monkeypatch: pytest.MonkeyPatch, reply: bytes, problem: str
) -> None:
    async with raw_server() as server, proxy_server(server) as proxy:
        proxy.refuses = reply
        monkeypatch.setenv("https_proxy", f"http://ann:s3cret@127.0.0.1:{proxy.port}")
        with pytest.raises(ConnectFailed, match=problem) as caught:
            await connect_mcp("https://mcp.test/mcp")
    assert "s3cret" not in str(caught.value)


async def test_a_proxy_of_another_kind_is_refused_with_a_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", "socks5://127.0.0.1:1080")
    with pytest.raises(ConnectFailed, match=r"'socks5' is not supported; use an HTTP proxy, or .* no_proxy"):
        await connect_mcp("http://mcp.test/mcp")


def test_the_environment_decides_which_proxy_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "proxy.test:3128")
    monkeypatch.setenv("all_proxy", "http://all.test:1")
    monkeypatch.setenv("no_proxy", "inside.test,.corp.test,127.0.0.1,port.test:8080")
    assert environment_proxy(parse_url("http://out.test/")) == Proxy(parse_url("http://proxy.test:3128"))
    assert environment_proxy(parse_url("https://out.test/")) == Proxy(parse_url("http://all.test:1"))
    direct = ("inside.test", "a.corp.test", "127.0.0.1:9", "port.test:8080")
    assert [environment_proxy(parse_url(f"http://{host}/")) for host in direct] == [None] * 4
    assert environment_proxy(parse_url("http+unix://%2Fa.sock/")) is None


def test_hosts_that_need_no_proxy_may_be_named_as_people_write_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "proxy.test:3128")
    monkeypatch.setenv("no_proxy", "Faß.test, .bücher.test,❤.test,10.0.0.1")
    direct = ("faß.test", "xn--fa-hia.test", "a.faß.test", "a.bücher.test", "10.0.0.1")
    assert [environment_proxy(parse_url(f"http://{host}/")) for host in direct] == [None] * 5
    for host in ("fass.test", "bucher.test"):
        assert environment_proxy(parse_url(f"http://{host}/")) is not None


async def test_a_server_may_require_a_certificate_of_the_client(certificate: Path, tmp_path: Path) -> None:
    tls = server_tls(certificate)
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(certificate)
    async with raw_server(tls) as server:
        url = f"https://127.0.0.1:{server.port}/mcp"
        with pytest.raises((ConnectFailed, ConnectionLost)):
            await connect_mcp(url=url, verify=str(certificate))
        async with connect_mcp(url=url, verify=str(certificate), client_cert=str(certificate)) as mcp:
            assert (await mcp.call_tool("look")).text == "seen"
        locked = self_signed(tmp_path, b"password")
        for bad in (locked, tmp_path / "none.pem"):
            with pytest.raises(ConnectFailed, match=r"client certificate .*cannot be read; it must be a PEM"):
                await connect_mcp(url=url, verify=str(certificate), client_cert=str(bad))


async def test_a_server_on_an_address_of_ipv6() -> None:
    if not socket.has_ipv6:
        pytest.skip("this system has no IPv6")
    try:
        async with raw_server(host="::1") as server:
            async with connect_mcp(f"http://[::1]:{server.port}/mcp") as mcp:
                assert (await mcp.call_tool("look")).text == "seen"
            assert {request.headers["host"] for request in server.requests} == {f"[::1]:{server.port}"}
    except OSError as error:
        pytest.skip(f"this machine has no IPv6 address: {error}")


async def test_a_server_on_a_unix_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "CHECK_INTERVAL", 0.01)
    path = str(tmp_path / "Server.sock")
    config = {"servers": {"a": {"url": f"http+unix://{quote(path, safe='')}/mcp"}}}
    async with raw_unix_server(path) as server, Toolbus(config) as bus:
        before = server.connections
        await until(lambda: server.connections >= before + 2)  # it is checked, which only the server sees
        assert (await bus.call("a_look")).text == "seen"
        assert (bus.servers["a"].state, bus.servers["a"].restarts) == ("ready", 0)
        assert {request.line for request in server.calls} == {"POST /mcp HTTP/1.1"}


async def test_a_unix_socket_that_is_not_there_is_named_like_a_server_that_is_down(tmp_path: Path) -> None:
    url = f"http+unix://{quote(str(tmp_path / 'none.sock'), safe='')}/mcp"
    with pytest.raises(ConnectFailed, match=r"cannot connect: .*check that the server is running"):
        await connect_mcp(url)
