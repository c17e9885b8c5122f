"""Credentials are asked for each request and may change at any time; no log or error shows them."""

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.inside.connect import (
    MAX_REFUSALS,
    Attempt,
    Diagnostics,
    HttpRefusal,
    JsonRpcPeer,
    WireError,
    connect_failure,
    streamable_http_peer,
)
from tests.servers.recording import Recording, recording
from toolbus.config import Secrets, load_server, resolved

pytestmark = pytest.mark.anyio
LOOK: dict[str, Any] = {"name": "look", "arguments": {}}


class Tokens:
    """Another token for every request; `retries` says whether a refusal is worth another try."""

    def __init__(self, *, retries: bool) -> None:
        self._retries = retries
        self._issued = 0
        self.refusals: list[HttpRefusal] = []

    def headers(self, method: str, url: str) -> Mapping[str, str] | None:
        self._issued += 1
        return {"authorization": f"Bearer late-token-{self._issued}"}

    async def renew(self) -> None:
        raise AssertionError("they do not expire")

    async def refused(self, refusal: HttpRefusal) -> bool:
        self.refusals.append(refusal)
        return self._retries and refusal.earlier == 0


@pytest.fixture
def record() -> Iterator[Recording]:
    with recording() as record:
        yield record


@asynccontextmanager
async def connected(url: str, tokens: Tokens) -> AsyncGenerator[tuple[JsonRpcPeer, Attempt]]:
    config = load_server({"url": url}, alias="a")
    attempt = Attempt(
        config=config,
        values=await resolved(config, Secrets()),
        credentials=tokens,
        diagnostics=Diagnostics(),
        warn=pytest.fail,
    )
    async with streamable_http_peer(attempt) as peer:
        yield peer, attempt


async def test_credentials_with_a_line_break_are_not_sent_and_not_quoted(record: Recording) -> None:
    class Injecting(Tokens):
        def headers(self, method: str, url: str) -> Mapping[str, str] | None:
            return {"x-key": "s3cret\r\nX-Evil: 1"}

    async with connected(record.url, Injecting(retries=False)) as (peer, _):
        with pytest.raises(WireError, match="a header contains a line break") as caught:
            await peer.send_raw_request("tools/call", LOOK)
    assert not caught.value.sent
    assert "s3cret" not in str(caught.value)
    assert record.requests == []


def sent_tokens(record: Recording) -> list[str]:
    return [headers["authorization"].removeprefix("Bearer ") for _, _, headers, _ in record.requests]


async def test_each_request_carries_the_token_of_its_moment(record: Recording) -> None:
    tokens = Tokens(retries=False)
    async with connected(record.url, tokens) as (peer, _):
        for _ in range(3):
            await peer.send_raw_request("tools/call", LOOK)
    assert sent_tokens(record) == ["late-token-1", "late-token-2", "late-token-3"]
    assert tokens.refusals == []


async def test_a_refused_request_is_sent_once_more_with_the_next_token(record: Recording) -> None:
    record.token = "late-token-2"
    tokens = Tokens(retries=True)
    async with connected(record.url, tokens) as (peer, _):
        assert await peer.send_raw_request("tools/call", LOOK) == record.results["tools/call"]
    assert sent_tokens(record) == ["late-token-1", "late-token-2"]
    assert [message["params"] for message in record.messages] == [LOOK, LOOK]
    [refusal] = tokens.refusals
    assert (refusal.status, refusal.headers["www-authenticate"]) == (401, 'Bearer error="invalid_token"')
    assert refusal.sent == {"authorization": "Bearer late-token-1"}


async def test_credentials_that_have_expired_are_renewed_before_a_request(record: Recording) -> None:
    class Expired(Tokens):
        renewed = False

        def headers(self, method: str, url: str) -> Mapping[str, str] | None:
            return super().headers(method, url) if self.renewed else None

        async def renew(self) -> None:
            self.renewed = True

    async with connected(record.url, Expired(retries=False)) as (peer, _):
        await peer.send_raw_request("tools/call", LOOK)
    assert sent_tokens(record) == ["late-token-1"]


async def test_a_request_is_not_sent_again_forever(record: Recording) -> None:
    class Stubborn(Tokens):
        async def refused(self, refusal: HttpRefusal) -> bool:
            return True

    record.statuses["tools/call"] = 401
    async with connected(record.url, Stubborn(retries=True)) as (peer, _):
        with pytest.raises(WireError):
            await peer.send_raw_request("tools/call", LOOK)
    assert len(record.requests) == 1 + MAX_REFUSALS


@pytest.mark.parametrize(("retries", "requests"), [(True, 2), (False, 1)])
@pytest.mark.parametrize("status", [401, 403])
async def test_a_second_refusal_is_an_error_and_so_is_the_first_if_a_retry_is_of_no_use(
    record: Recording, status: int, retries: bool, requests: int
) -> None:
    record.statuses["tools/call"] = status
    tokens = Tokens(retries=retries)
    async with connected(record.url, tokens) as (peer, _):
        with pytest.raises(WireError) as caught:
            await peer.send_raw_request("tools/call", LOOK)
    assert caught.value.status == status
    assert len(record.requests) == requests
    assert [refusal.status for refusal in tokens.refusals] == [status] * requests


async def test_a_token_that_came_late_is_in_no_log_and_no_error(
    record: Recording, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    record.errors["tools/call"] = [{"code": -32000, "message": "no rights: late-token-1"}]
    async with connected(record.url, Tokens(retries=False)) as (peer, attempt):
        with pytest.raises(MCPError) as caught:
            await peer.send_raw_request("tools/call", LOOK)
        assert caught.value.message == "no rights: ***"
        record.token = "another"
        with pytest.raises(WireError) as refused:
            await peer.send_raw_request("tools/call", LOOK)
    assert refused.value.message == "invalid token Bearer ***"
    # Whatever quotes it later is covered, too.
    error = connect_failure(OSError("bad header late-token-2 after late-token-1"), attempt)
    assert error.cause == "bad header *** after ***"
    assert caplog.records
    assert "late-token" not in caplog.text
