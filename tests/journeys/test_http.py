"""HTTP in particular: headers, secrets, redirects, statuses, certificates."""

import asyncio
import ssl
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from opentelemetry.context import attach, detach
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from tests.inside.discover import watch
from tests.patience import PATIENCE
from tests.servers.certificates import self_signed
from tests.servers.recording import Recording, recording
from toolbus import (
    Answer,
    CallTimeout,
    ConnectFailed,
    Elicitation,
    InputNeeded,
    Interactions,
    ServerDown,
    ServerRejected,
    Toolbus,
    connect_mcp,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def record() -> Iterator[Recording]:
    with recording() as record:
        yield record


async def test_headers_bearer_and_query_reach_the_server_and_no_log(
    record: Recording, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("DEBUG")
    monkeypatch.setenv("TOKEN", "tok-123456")
    monkeypatch.setenv("KEY", "key-123456")
    config = {
        "url": record.url + "/${KEY}?key=${KEY}",
        "headers": {"X-Key": "${KEY}"},
        "auth": {"type": "bearer", "token": "${TOKEN}"},
    }
    async with Toolbus({"servers": {"a": config}}) as bus:
        assert (await bus.call("a_look")).text == "seen"
    for _, path, headers, _ in record.requests:
        assert path == "/mcp/key-123456?key=key-123456"
        assert (headers["x-key"], headers["authorization"]) == ("key-123456", "Bearer tok-123456")
    assert "/mcp/***" in caplog.text
    assert "123456" not in caplog.text


async def test_the_trace_of_the_caller_goes_with_the_call(record: Recording) -> None:
    span = SpanContext(0xABC, 0xDEF, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    async with Toolbus({"servers": {"a": record.url}}) as bus:
        await bus.call("a_look")
        token = attach(set_span_in_context(NonRecordingSpan(span)))
        try:
            await bus.call("a_look")
        finally:
            detach(token)
    calls = [message["params"] for message in record.messages if message.get("method") == "tools/call"]
    assert [call.get("_meta", {}).get("traceparent") for call in calls] == [
        None,
        f"00-{0xABC:032x}-{0xDEF:016x}-01",
    ]


async def test_the_version_of_a_probe_that_failed_is_not_on_the_handshake(record: Recording) -> None:
    async with connect_mcp(record.url) as mcp:
        await mcp.call_tool("look")
    versions = {method: headers.get("mcp-protocol-version") for _, _, headers, method in record.requests}
    assert versions["server/discover"] == "2026-07-28"
    assert versions["initialize"] is None
    assert versions["notifications/initialized"] == versions["tools/call"] == "2025-06-18"


async def test_a_server_of_the_old_transport_is_found_behind_a_url_for_the_new_one(
    web_ports: dict[str, int],
) -> None:
    url = f"http://127.0.0.1:{web_ports['sse']}/sse"
    async with connect_mcp(url=url, transport="http") as mcp:
        assert (await mcp.call_tool("echo", {"text": "old"})).text == "old"


FRESH = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}


@pytest.mark.parametrize("status", [400, 404, 405, 501])
async def test_a_modern_server_that_refuses_to_send_notices_is_fine_and_asked_once(
    record: Recording, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "LISTEN_TIMEOUT", 600)  # it does not wait for an acknowledgement
    capabilities = {"tools": {"listChanged": True}}
    record.results["server/discover"] = {
        "supportedVersions": ["2026-07-28"],
        "capabilities": capabilities,
        **FRESH,
    }
    record.results["tools/list"] = {**record.results["tools/list"], **FRESH}
    record.statuses["subscriptions/listen"] = status

    async with asyncio.timeout(PATIENCE), connect_mcp(record.url) as mcp:
        assert (await mcp.call_tool("look")).text == "seen"
        assert mcp.bus.servers["mcp"].era == "modern"
    assert [method for *_, method in record.requests].count("subscriptions/listen") == 1


async def test_user_and_password_in_the_url_become_basic_authorisation(record: Recording) -> None:
    url = f"http://ann:p%40ss@127.0.0.1:{record.port}/mcp"
    async with connect_mcp(url) as mcp:
        await mcp.call_tool("look")
    assert {headers["authorization"] for _, _, headers, _ in record.requests} == {"Basic YW5uOnBAc3M="}


async def test_a_redirect_within_the_origin_is_followed_and_keeps_its_secret_out_of_the_log(
    record: Recording, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    record.redirects["/old"] = "/mcp?key=hidden-1234"
    url = f"http://127.0.0.1:{record.port}/old?key=hidden-1234"
    async with connect_mcp(url) as mcp:
        assert (await mcp.call_tool("look")).text == "seen"
    assert {path for _, path, _, _ in record.requests} == {"/old?key=hidden-1234", "/mcp?key=hidden-1234"}
    # What the server itself says back, the HTTP library may show at its lowest level.
    shown = [record.getMessage() for record in caplog.records if not record.name.startswith("httpcore2")]
    assert [message for message in shown if "hidden-1234" in message] == []


async def test_user_and_password_in_the_url_go_with_a_redirect_within_the_origin(record: Recording) -> None:
    record.redirects["/old"] = "/mcp"
    async with connect_mcp(f"http://ann:p%40ss@127.0.0.1:{record.port}/old") as mcp:
        assert (await mcp.call_tool("look")).text == "seen"
    assert {path for _, path, _, _ in record.requests} == {"/old", "/mcp"}
    assert {headers.get("authorization") for _, _, headers, _ in record.requests} == {"Basic YW5uOnBAc3M="}


async def test_secrets_are_not_sent_to_another_origin(record: Recording) -> None:
    url = f"http://ann:p%40ss@127.0.0.1:{record.port}/mcp"
    with recording() as other:
        record.redirects["/mcp"] = other.url
        with pytest.raises(ConnectFailed, match="not followed"):
            await connect_mcp(url=url, headers={"X-Key": "secret-1"})
    assert other.requests == []


@pytest.mark.parametrize("status", [401, 404, 500, 503])
async def test_a_status_on_a_call_is_named_and_the_link_goes_on(record: Recording, status: int) -> None:
    async with connect_mcp(record.url) as mcp:
        record.statuses["tools/call"] = status
        with pytest.raises(ServerRejected) as caught:
            await mcp.call_tool("look")
        record.statuses.clear()
        assert (await mcp.call_tool("look")).text == "seen"
    assert caught.value.status == status
    assert f"HTTP {status}" in str(caught.value)


async def test_a_server_that_is_gone_fails_the_call_with_its_reason() -> None:
    with recording() as short_lived:
        mcp = await connect_mcp(short_lived.url)
    with pytest.raises(ServerDown, match=r"not connected \(retrying\): .*cannot connect"):
        await mcp.call_tool("look", timeout=1)
    assert not (await mcp.bus.health())["mcp"].ok
    await mcp.close()


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    return self_signed(tmp_path)


async def test_a_certificate_is_checked_against_the_ca_bundle_of_the_config(certificate: Path) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    with recording(tls) as record:
        url = record.url.replace("http:", "https:")
        with pytest.raises(ConnectFailed, match="certificate verify failed"):
            await connect_mcp(url)
        for verify in (str(certificate), False):
            async with connect_mcp(url=url, verify=verify) as mcp:
                assert (await mcp.call_tool("look")).text == "seen"


async def test_a_ca_bundle_that_is_not_there_is_named() -> None:
    with pytest.raises(ConnectFailed, match=r"/no/such\.pem.*cannot be read"):
        await connect_mcp(url="https://127.0.0.1:9/mcp", verify="/no/such.pem")


async def test_a_stream_that_ends_early_is_gone_on_with_as_often_as_it_does(record: Recording) -> None:
    record.closes = 3
    async with Toolbus({"servers": {"a": {"url": record.url}}}) as bus:
        assert (await bus.call("a_look")).text == "seen"
    assert len(record.came) == 4
    # No sooner than the server says.
    assert min(after - before for before, after in pairwise(record.came)) > 0.19


async def test_the_time_limit_of_a_call_holds_while_its_stream_is_closed_again_and_again(
    record: Recording,
) -> None:
    record.closes = 1_000
    async with Toolbus({"servers": {"a": {"url": record.url}}}) as bus:
        with pytest.raises(CallTimeout):
            await bus.call("a_look", timeout=0.7)


REQUIRED = {
    "code": -32042,
    "message": "log in first",
    "data": {
        "elicitations": [
            {"mode": "url", "url": "https://log.in/1", "message": "Log in.", "elicitationId": "1"}
        ]
    },
}


async def test_a_call_that_needs_a_visit_first_is_repeated_after_it(record: Recording) -> None:
    record.errors["tools/call"] = [REQUIRED]
    asked: list[Elicitation] = []

    def elicit(question: Elicitation) -> Answer:
        asked.append(question)
        return question.accept()

    config = {"servers": {"a": {"url": record.url}}}
    async with Toolbus(config, interactions=Interactions(elicit=elicit)) as bus:
        assert (await bus.call("a_look")).text == "seen"
        record.errors["tools/call"] = [REQUIRED, REQUIRED]
        with pytest.raises(InputNeeded, match=r"wants the user to visit https://log\.in/1"):
            await bus.call("a_look")
    assert [(question.url, question.message) for question in asked] == [("https://log.in/1", "Log in.")] * 2
    record.errors["tools/call"] = [REQUIRED]
    async with Toolbus(config) as bus:
        with pytest.raises(
            InputNeeded, match=r"wants the user to visit https://log\.in/1; nobody can answer here"
        ):
            await bus.call("a_look")
