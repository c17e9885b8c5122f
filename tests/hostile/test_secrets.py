"""Secrets that a server, or someone on the way to it, must not get unnoticed."""

import ssl
from pathlib import Path

import pytest
from opentelemetry.baggage import set_baggage
from opentelemetry.context import attach, detach
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from tests.servers.certificates import self_signed
from tests.servers.raw_http import raw_server
from toolbus import ConnectFailed, connect_mcp

pytestmark = pytest.mark.anyio
UNENCRYPTED = "credentials are sent without encryption: use https"


@pytest.mark.parametrize("baggage", [False, True])
async def test_baggage_stays_here_unless_the_config_sends_it(baggage: bool) -> None:
    span = SpanContext(0xABC, 0xDEF, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    async with raw_server() as server, connect_mcp(url=server.url, baggage=baggage) as mcp:
        token = attach(set_baggage("customer", "s3cret", set_span_in_context(NonRecordingSpan(span))))
        try:
            await mcp.call_tool("look")
        finally:
            detach(token)
    (call,) = server.calls
    meta = call.message["params"]["_meta"]
    assert meta["traceparent"] == f"00-{0xABC:032x}-{0xDEF:016x}-01"
    assert meta.get("baggage") == ("customer=s3cret" if baggage else None)


async def test_credentials_that_anyone_on_the_way_can_read_are_warned_of(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # so that nothing is looked up
    with pytest.raises(ConnectFailed):
        await connect_mcp(url="http://mcp.test/mcp", headers={"X-Other": "1"})
    assert UNENCRYPTED not in caplog.text
    with pytest.raises(ConnectFailed):
        await connect_mcp(url="http://mcp.test/mcp", headers={"Authorization": "Bearer s3cret-1"})
    assert UNENCRYPTED in caplog.text


async def test_credentials_that_stay_on_this_machine_are_not_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with raw_server() as server:
        await (await connect_mcp(url=server.url, headers={"Authorization": "Bearer s3cret-1"})).close()
    assert UNENCRYPTED not in caplog.text


async def test_a_certificate_that_is_not_verified_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certificate = self_signed(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    async with raw_server(tls) as server:
        url = server.url.replace("http:", "https:")
        await (await connect_mcp(url=url, verify=str(certificate))).close()
        assert "not verified" not in caplog.text
        await (await connect_mcp(url=url, verify=False)).close()
    assert "its certificate is not verified (verify: false)" in caplog.text
