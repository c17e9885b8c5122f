"""Secrets that a server, someone on the way to it, a model or a reader of logs must not get unnoticed."""

import asyncio
import json
import logging
import ssl
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.baggage import set_baggage
from opentelemetry.context import attach, detach
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from tests import warm
from tests.cli.running import toolbus, write_config
from tests.conftest import sampled
from tests.hostile.echoing import FORMS
from tests.hostile.leaks import SECRET, chain, leaks
from tests.servers.certificates import self_signed
from tests.servers.raw_http import Request, raw_server, response
from toolbus import ConnectFailed, Elicitation, Interactions, Toolbus, ToolbusError, connect_mcp

pytestmark = pytest.mark.anyio
UNENCRYPTED = "credentials are sent without encryption: use https"


@pytest.mark.parametrize("baggage", [False, True])
async def test_a_server_that_reads_the_baggage_of_a_trace(baggage: bool) -> None:
    """Baggage is sent only if the config allows it."""
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


async def test_credentials_over_plain_http_to_another_machine(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are warned of."""
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # so that nothing is looked up
    with pytest.raises(ConnectFailed):
        await connect_mcp(url="http://mcp.test/mcp", headers={"X-Other": "1"})
    assert UNENCRYPTED not in caplog.text
    with pytest.raises(ConnectFailed):
        await connect_mcp(url="http://mcp.test/mcp", headers={"Authorization": "Bearer s3cret-1"})
    assert UNENCRYPTED in caplog.text


async def test_credentials_that_stay_on_this_machine(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """There is no false alarm."""
    async with raw_server() as server:
        await (await connect_mcp(url=server.url, headers={"Authorization": "Bearer s3cret-1"})).close()
    assert UNENCRYPTED not in caplog.text


async def test_a_certificate_that_is_not_verified(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is warned of."""
    certificate = self_signed(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    async with raw_server(tls) as server:
        url = server.url.replace("http:", "https:")
        await (await connect_mcp(url=url, verify=str(certificate))).close()
        assert "not verified" not in caplog.text
        await (await connect_mcp(url=url, verify=False)).close()
    assert "its certificate is not verified (verify: false)" in caplog.text


SERVER = str(Path(__file__).with_name("echoing.py"))


def echoing(form: str, **more: Any) -> dict[str, Any]:
    """A config with the server that repeats its secret."""
    entry = {"command": warm.python(), "args": [SERVER, form], "env": {"API_TOKEN": "${OF_THE_TEST}"}}
    return {"servers": {"a": {**entry, "era": "legacy", **more}}}


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
    await add(lambda: bus.call("a/die", reconnect_timeout=0))
    found += [bus.servers, *(line for error in bus.failures.values() for line in chain(error))]
    return found


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


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_a_web_server_that_repeats_its_secret(kind: str) -> None:
    """A model does not get it, in any kind of response."""

    async def send(writer: asyncio.StreamWriter, request: Request) -> None:
        token = request.headers["authorization"]
        result = {"content": [{"type": "text", "text": f"you sent {token}"}]}
        body = json.dumps({"jsonrpc": "2.0", "id": request.message["id"], "result": result}).encode()
        body = body if kind == "application/json" else b"data: " + body + b"\n\n"
        writer.write(response(body).replace(b"application/json", kind.encode()))

    async with raw_server() as server:
        server.send = send
        async with connect_mcp(url=server.url, headers={"Authorization": f"Bearer {SECRET}"}) as mcp:
            assert (await mcp.call_tool("look")).text == "you sent Bearer ***"


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
                await bus.call(f"a/{tool}", reconnect_timeout=0)
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
"""Entries that cannot be started, by name."""


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
    "a media type": (f"200 OK\r\ncontent-type: text/{SECRET}", b""),
    "an unknown encoding": (f"200 OK\r\ncontent-encoding: {SECRET}", b""),
    "an event stream": ("200 OK\r\ncontent-type: text/event-stream", f"data: {SECRET}\n\n".encode()),
}
"""A web server's answers to everything: the status and headers, and the body."""


@pytest.mark.parametrize("transport", sampled(["streamable-http", "sse"], "streamable-http"))
@pytest.mark.parametrize("kind", REPLIES)
async def test_a_web_server_that_repeats_its_secret_instead_of_connecting(
    kind: str, transport: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
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
        entry = {"url": url, "transport": transport, "headers": {"X-Key": SECRET}}
        await check_failure({"servers": {"a": entry}}, caplog)


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


COMMANDS = {
    "tools": ["tools", "--full"],
    "call": ["call", "a/look"],
    "call that fails": ["call", "a/fail"],
    "call that is rejected": ["call", "a/reject"],
    "call that is garbled": ["call", "a/garble"],
    "call that asks": ["call", "a/ask"],
    "call that ends the server": ["call", "a/die"],
    "resources": ["read"],
    "read": ["read", "a", "test://one"],
    "prompts": ["prompt"],
    "prompt": ["prompt", "a/ask"],
    "check": ["check"],
    "config": ["config", "--redacted"],
    "trust": ["trust"],
}


def test_a_server_that_repeats_its_secret_on_the_command_line(tmp_path: Path) -> None:
    """No command prints it, not with --json, --debug and -vv either."""
    folder = tmp_path / "work"
    folder.mkdir()
    servers = echoing("plain")["servers"]
    write_config(folder, {**servers, "gone": {"command": "/no/${OF_THE_TEST}"}})

    def run(words: list[str]) -> list[str]:
        done = toolbus(*words, folder=folder, env={"OF_THE_TEST": SECRET})
        assert done.returncode in (0, 1, 2), done
        return [done.stdout, done.stderr]

    options: list[list[str]] = [[], ["--json", "--debug", "-vv"]]
    with ThreadPoolExecutor(3) as pool:
        runs = [[*words, *more] for words in COMMANDS.values() for more in options]
        assert leaks(list(pool.map(run, runs))) == []
