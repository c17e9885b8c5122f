"""Secrets that a server, someone on the way to it, a model or a reader of logs must not get unnoticed."""

import asyncio
import json
import logging
import ssl
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from opentelemetry.baggage import set_baggage
from opentelemetry.context import attach, detach
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from tests.hostile.echoing import FORMS
from tests.servers.certificates import self_signed
from tests.servers.raw_http import raw_server
from toolbus import ConnectFailed, Elicitation, Interactions, Toolbus, ToolbusError, connect_mcp
from toolbus.core.text import cleaned

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


SECRET = "s3cret-Value_9"
SERVER = str(Path(__file__).with_name("echoing.py"))
SHOWN = (
    "s3cret-Value_9",
    "s3cret%2DValue_9",
    "zM2NyZXQtVmFsdWVfO",
    "MzY3JldC1WYWx1ZV85",
    "czNjcmV0LVZhbHVlXz",
)


def echoing(form: str, **more: Any) -> dict[str, Any]:
    """A config with the server that repeats its secret."""
    entry = {"command": sys.executable, "args": [SERVER, form], "env": {"API_TOKEN": "${OF_THE_TEST}"}}
    return {"servers": {"a": {**entry, "era": "legacy", **more}}}


def chain(error: BaseException | None) -> list[str]:
    """All that an exception shows, and those that led to it."""
    found = [] if error is None else traceback.format_exception(error)
    while error is not None:
        found += [str(error), repr(error), repr(vars(error))]
        error = error.__cause__ or error.__context__
    return found


async def everything(bus: Toolbus, asked: list[Any]) -> list[Any]:
    """All that the API of a bus returns about a server, and all errors that it raises."""
    events: list[Any] = []
    bus.on_event(events.append)
    found: list[Any] = [asked, events]

    async def add(work: Callable[[], Awaitable[Any]]) -> None:
        try:
            found.append(await work())
        except ToolbusError as error:
            found.extend(chain(error))

    for tool in ("look", "fail", "reject", "mismatch", "garble", "ask"):
        await add(lambda tool=tool: bus.call(f"a/{tool}"))
        await add(lambda tool=tool: next(t for t in bus.tools() if t.origin.tool == tool).execute())
    await add(lambda: bus.read_resource("a", "test://one"))
    await add(lambda: bus.get_prompt("a", "ask"))
    await add(lambda: bus.complete("a", "ask", "a"))
    await add(lambda: bus.subscribe("a", "test://one"))
    found += [list(bus.catalog), bus.instructions, bus.resources(), bus.templates(), bus.prompts()]
    found += [bus.servers, bus.inventories, bus.config]
    await add(lambda: bus.call("a/die", recover=0))
    found += [bus.servers, *(line for error in bus.failures.values() for line in chain(error))]
    return found


def strings(value: Any) -> Iterator[str]:
    """Every text in a value, and what shows it."""
    yield value if isinstance(value, str) else repr(value)
    if isinstance(value, bytes):
        yield value.decode(errors="replace")
    elif isinstance(value, Mapping):
        yield from (text for pair in cast("Mapping[Any, Any]", value).items() for text in strings(pair))
    elif isinstance(value, list | tuple):
        yield from (text for item in cast("list[Any]", value) for text in strings(item))
    elif is_dataclass(value) and not isinstance(value, type):
        yield from (text for one in fields(value) for text in strings(getattr(value, one.name)))


def leaks(found: Any) -> list[str]:
    """The texts in which the secret shows, also once hidden characters are removed."""
    shown = [form for text in strings(found) for form in (text, cleaned(text), text.replace("\b", ""))]
    return [text for text in shown if any(secret in text for secret in SHOWN)]


@pytest.mark.parametrize("form", FORMS)
async def test_a_server_that_repeats_its_secret(
    form: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither a model, a program, an event, a log nor a traceback gets it."""
    monkeypatch.setenv("OF_THE_TEST", SECRET)
    caplog.set_level(logging.DEBUG)
    asked: list[Any] = []

    def elicit(question: Elicitation) -> Any:
        asked.append(question)
        return question.accept({})

    async with Toolbus(echoing(form), interactions=Interactions(elicit=elicit)) as bus:
        found = await everything(bus, asked)
        assert asked
        assert "***" in repr(found) or "KioqKioq" in repr(found)
    assert leaks([found, caplog.text, *(vars(record) for record in caplog.records)]) == []


async def test_a_server_whose_secrets_the_config_lets_through(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Results have them, errors and logs still do not."""
    monkeypatch.setenv("OF_THE_TEST", SECRET)
    caplog.set_level(logging.DEBUG)
    async with Toolbus(echoing("plain", redact=False)) as bus:
        result = await bus.call("a/look")
        assert result.text.startswith(f"<{SECRET}>")
        await bus.call("a/mismatch")
        raised: list[str] = []
        for tool in ("reject", "garble", "die"):
            with pytest.raises(ToolbusError) as caught:
                await bus.call(f"a/{tool}", recover=0)
            raised += chain(caught.value)
    assert leaks([caplog.text, raised]) == []


def program(folder: Path, text: str, mode: int = 0o755) -> str:
    """A program whose path has the secret in it, by reference."""
    path = folder / f"run-{SECRET}"
    path.write_text(text)
    path.chmod(mode)
    return f"{folder}/run-${{OF_THE_TEST}}"


SPAWNED: dict[str, Callable[[Path], dict[str, Any]]] = {
    "no such command": lambda folder: {"command": "${OF_THE_TEST}"},
    "no such file": lambda folder: {"command": f"{folder}/${{OF_THE_TEST}}"},
    "a command with its arguments": lambda folder: {"command": "run --key=${OF_THE_TEST}"},
    "a file that is not executable": lambda folder: {"command": program(folder, "", 0o600)},
    "no interpreter": lambda folder: {"command": program(folder, f"#!/{SECRET}\n")},
    "not a program": lambda folder: {"command": program(folder, "\0")},
    "a folder": lambda folder: {"command": f"{folder}/${{OF_THE_TEST}}"},
    "no such working directory": lambda folder: {"command": "echo", "cwd": f"{folder}/x/${{OF_THE_TEST}}"},
    "an argument that is too long": lambda folder: {"command": "echo", "args": ["${OF_THE_TEST}" * 20_000]},
    "a surrogate": lambda folder: {"command": "echo", "args": ["\ud800${OF_THE_TEST}"]},
    "a program that exits": lambda folder: {
        "command": "sh",
        "args": ["-c", 'echo "$0" "$API_TOKEN" >&2; echo "$API_TOKEN"; exit 3', "${OF_THE_TEST}"],
    },
    "a file beside the config": lambda folder: {
        "command": "./tool",
        "cwd": f"{folder}/${{OF_THE_TEST}}",
        "args": ["${OF_THE_TEST}"],
    },
}
"""What cannot be started -> its entry."""


@pytest.mark.parametrize("kind", SPAWNED)
async def test_a_program_with_a_secret_that_cannot_be_started(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the error, its causes, an event nor a log shows the secret."""
    monkeypatch.setenv("OF_THE_TEST", SECRET)
    caplog.set_level(logging.DEBUG)
    (tmp_path / SECRET).mkdir()
    (tmp_path / "tool").touch()
    config = tmp_path / "toolbus.yaml"
    entry = {"env": {"API_TOKEN": "${OF_THE_TEST}"}, **SPAWNED[kind](tmp_path)}
    config.write_text(json.dumps({"servers": {"a": entry}}))
    await check_failure(config, caplog)


async def check_failure(config: Path | dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    """Fail to connect, and look for the secret in all that is shown of it."""
    events: list[Any] = []
    async with Toolbus(config) as bus:
        bus.on_event(events.append)
        with pytest.raises(ToolbusError) as caught:
            await bus.connect("a")
        found = [events, bus.servers, bus.config, chain(caught.value), chain(bus.failures["a"])]
    assert leaks([found, caplog.text, *(vars(record) for record in caplog.records)]) == []


REPLIES: dict[str, tuple[str, bytes]] = {
    "a page": ("200 OK", f"<p>{SECRET}</p>".encode()),
    "an error": ("200 OK", json.dumps({"id": 1, "error": {"code": 1, "message": SECRET}}).encode()),
    "an invalid handshake": ("200 OK", json.dumps({"id": 1, "result": {"x": SECRET}}).encode()),
    "no such page": ("404 Not Found", SECRET.encode()),
    "a failure": ("500 Oops", json.dumps({"error": {"code": 1, "message": SECRET}}).encode()),
    "a refusal": ("401 Unauthorized", SECRET.encode()),
    "a redirect": (f"307 Moved\r\nlocation: http://elsewhere.test/{SECRET}?key={SECRET}", b""),
    "a redirect to itself": (f"307 Moved\r\nlocation: /{SECRET}", b""),
    "an invalid header": (f"200 OK\r\n{SECRET}", b"{}"),
    "an invalid encoding": ("200 OK\r\ncontent-encoding: gzip", SECRET.encode()),
    "a session": (f"200 OK\r\nmcp-session-id: {SECRET}", SECRET.encode()),
    "an event stream": ("200 OK\r\ncontent-type: text/event-stream", f"data: {SECRET}\n\n".encode()),
}
"""What a web server may answer to everything: the status and headers, and the body."""


@pytest.mark.parametrize("kind", REPLIES)
async def test_a_web_server_that_repeats_its_secret_instead_of_connecting(
    kind: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the error, its causes, an event nor a log shows the secret."""
    monkeypatch.setenv("OF_THE_TEST", SECRET)
    caplog.set_level(logging.DEBUG)
    head, body = REPLIES[kind]

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {head}\r\nconnection: close\r\n\r\n".encode() + body)
        writer.close()

    async with await asyncio.start_server(reply, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        url = f"http://me:{SECRET}@127.0.0.1:{port}/${{OF_THE_TEST}}/mcp?key={SECRET}"
        await check_failure({"servers": {"a": {"url": url, "headers": {"X-Key": SECRET}}}}, caplog)


@pytest.mark.parametrize(
    "url",
    [
        "http://${OF_THE_TEST}.invalid/mcp",
        "http://me:${OF_THE_TEST}@127.0.0.1:1/${OF_THE_TEST}?key=${OF_THE_TEST}",
        "https://me:${OF_THE_TEST}@127.0.0.1:1/",
        "http+unix://%2F${OF_THE_TEST}/mcp",
        "http://127.0.0.1:${OF_THE_TEST}/mcp",
        "http://[${OF_THE_TEST}]/mcp",
    ],
)
async def test_a_url_with_a_secret_that_cannot_be_reached(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the error, its causes, an event nor a log shows the secret."""
    monkeypatch.setenv("OF_THE_TEST", SECRET)
    caplog.set_level(logging.DEBUG)
    await check_failure({"servers": {"a": {"url": url, "auth": "${OF_THE_TEST}"}}}, caplog)
