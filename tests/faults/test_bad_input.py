"""Mistakes of users: each has one clear line, and breaks nothing else."""

import asyncio
import socket
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.conftest import SERVERS, plain, sampled
from tests.patience import PATIENCE
from toolbus import (
    ArgumentsError,
    AuthRequired,
    BusClosed,
    ConfigError,
    ConnectFailed,
    SecretMissing,
    ServerNotFound,
    Toolbus,
    ToolbusError,
    ToolNotFound,
    connect_mcp,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def handler() -> Iterator[dict[str, int]]:
    """An HTTP server that answers everything with the status that its path names."""

    class Answer(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            self.send_response(int(self.path.strip("/").partition("?")[0]))
            self.send_header("content-length", "0")
            self.end_headers()

        do_GET = do_POST = do_DELETE = answer  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield {"port": server.server_port}
    server.shutdown()
    thread.join()
    server.server_close()


def one_line(error: BaseException) -> str:
    text = str(error)
    assert text
    assert "\n" not in text
    return text


async def beside_a_good_one(bad: dict[str, Any]) -> str:
    """Start the bad server beside a good one, which must work; gives the bad one's error."""
    async with Toolbus({"servers": {"bad": bad, "good": plain()}}) as bus:
        assert (await bus.call("good_echo", {"text": "fine"})).text == "fine"
        status = bus.servers["bad"]
        assert status.state in ("failed", "auth_required")
        assert status.error is not None
        with pytest.raises(ToolNotFound) as caught:
            await bus.call("bad_echo")
        assert caught.value.down == ("bad",)
        return status.error


async def failure(source: Any = None, **config: Any) -> ToolbusError:
    """The error of a connection that cannot be."""
    with pytest.raises(ToolbusError) as caught:
        await connect_mcp(source, alias="bad", **config)
    one_line(caught.value)
    return caught.value


def test_a_missing_config_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        Toolbus(tmp_path / "nowhere.yaml")
    assert "nowhere.yaml" in one_line(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("a.yaml", "servers:\n  a:\n    command: [x\n", "line 4"),
        ("a.json", '{"servers": {\n"a": {"command": }}}', "line 2"),
        ("a.toml", "[servers.a]\ncommand = \n", "line 2"),
    ],
)
def test_a_malformed_file_names_the_line(tmp_path: Path, name: str, text: str, line: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError) as caught:
        Toolbus(tmp_path / name)
    assert name in one_line(caught.value)
    assert line in one_line(caught.value)


def test_two_servers_of_one_alias_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("servers:\n  a: {command: x}\n  a: {command: y}\n")
    with pytest.raises(ConfigError, match="'a'"):
        Toolbus(tmp_path / "a.yaml")


def test_an_unknown_key_names_the_near_miss() -> None:
    with pytest.raises(ConfigError) as caught:
        Toolbus({"servers": {"a": {"comand": "x"}}})
    assert (caught.value.server, caught.value.key) == ("a", "comand")
    assert "did you mean 'command'?" in one_line(caught.value)


def test_an_unknown_transport_is_a_value_error_that_names_the_allowed_words() -> None:
    with pytest.raises(ValueError, match=r"carrier-pigeon.*stdio.*streamable-http.*sse"):
        Toolbus({"servers": {"a": {"transport": "carrier-pigeon", "url": "http://x"}}})


async def test_a_command_that_is_not_there() -> None:
    error = await failure(command="no-such-program")
    assert isinstance(error, ConnectFailed)
    assert (error.server, error.phase) == ("bad", "spawn")
    assert "command 'no-such-program' not found" in str(error)
    assert "not found" in await beside_a_good_one({"command": "no-such-program"})


async def test_arguments_inside_the_command_are_pointed_out() -> None:
    assert "put the arguments into args" in str(await failure(command="python -m server"))


async def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    error = await failure(plain(cwd=str(tmp_path / "none")))
    assert "(cwd) does not exist" in str(error)


async def test_a_server_that_exits_at_once_shows_its_exit_code_and_last_words() -> None:
    error = await failure(plain("exit_at_once"))
    assert isinstance(error, ConnectFailed)
    assert (error.phase, error.exit_code, error.stderr) == ("handshake", 3, ("cannot open the database",))
    assert "exit code 3" in await beside_a_good_one(plain("exit_at_once"))


async def test_a_server_that_never_answers_is_given_up_in_time_and_its_process_is_gone() -> None:
    silent = plain("never_answer", "stay", timeouts={"connect": 0.5})
    async with asyncio.timeout(PATIENCE):
        error = await failure(silent)
    assert isinstance(error, ConnectFailed)
    assert "timed out after 0.5 s" in str(error)
    assert "timed out" in await beside_a_good_one(plain("never_answer", timeouts={"connect": 0.5}))


STATUSES = {401: AuthRequired, 403: AuthRequired, 500: ConnectFailed, 503: ConnectFailed}
REFUSALS = [(transport, status) for status in STATUSES for transport in ("http", "sse")]


@pytest.mark.parametrize(
    "refusal", sampled(REFUSALS, ("http", 401), ("sse", 403), ("http", 500), ("sse", 503)), ids=str
)
async def test_a_refusal_over_http_names_the_status(
    handler: dict[str, int], refusal: tuple[str, int]
) -> None:
    transport, status = refusal
    url = f"http://127.0.0.1:{handler['port']}/{status}"
    error = await failure(transport=transport, url=url)
    assert type(error) is STATUSES[status]
    assert isinstance(error, ConnectFailed)
    assert error.status == status
    assert f"HTTP {status}" in str(error)
    assert f"HTTP {status}" in await beside_a_good_one({"url": url, "transport": transport})


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_web_server_that_never_answers_is_given_up_in_time(transport: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:  # the system connects, nobody answers
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        error = await failure(url=url, transport=transport, timeouts={"connect": 0.5})
    assert "timed out after 0.5 s; check that it is the URL of an MCP server" in str(error)
    assert "download" not in str(error)


async def test_401_is_a_state_of_its_own(handler: dict[str, int]) -> None:
    async with Toolbus({"servers": {"a": {"url": f"http://127.0.0.1:{handler['port']}/401"}}}) as bus:
        assert bus.servers["a"].state == "auth_required"


async def test_404_points_at_the_path(handler: dict[str, int]) -> None:
    error = await failure(f"http://127.0.0.1:{handler['port']}/404")
    assert "HTTP 404 Not Found; check the path of the URL" in str(error)


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_wrong_port(transport: str) -> None:
    error = await failure(url="http://127.0.0.1:9/mcp", transport=transport)
    assert "cannot connect" in str(error)
    assert "check that the server is running: http://127.0.0.1:9/mcp" in str(error)


async def test_a_missing_secret_disables_that_server_and_names_secret_and_field() -> None:
    bad = {"command": sys.executable, "env": {"TOKEN": "${NO_SUCH_SECRET}"}}
    error = await failure(bad)
    assert isinstance(error, SecretMissing)
    assert (error.field, error.reference) == ("env.TOKEN", "NO_SUCH_SECRET")
    assert "NO_SUCH_SECRET" in await beside_a_good_one(bad)


async def test_a_required_server_that_fails_makes_the_start_fail() -> None:
    bus = Toolbus({"servers": {"good": plain(), "bad": {"command": "no-such-program", "required": True}}})
    with pytest.raises(ConnectFailed) as caught:
        await bus.start()
    assert caught.value.server == "bad"
    assert {status.state for status in bus.servers.values()} == {"closed"}


async def test_an_unknown_tool_names_the_near_misses() -> None:
    async with Toolbus({"servers": {"a": plain()}}) as bus:
        with pytest.raises(ToolNotFound) as caught:
            await bus.call("a_ecko")
        with pytest.raises(ToolNotFound) as by_origin:
            await bus.call("a/ecko")
    assert caught.value.close_matches == ["a_echo"]
    assert by_origin.value.close_matches == ["a/echo"]
    assert one_line(caught.value) == "no tool named 'a_ecko' among 1; did you mean 'a_echo'?"


@pytest.mark.parametrize("arguments", [["a list"], "a text", 7, {"text": object()}])
async def test_arguments_that_cannot_be_sent(arguments: Any) -> None:
    async with Toolbus({"servers": {"a": plain()}}) as bus:
        with pytest.raises(ArgumentsError) as caught:
            await bus.call("a_echo", arguments)
        one_line(caught.value)
        assert (await bus.call("a_echo", {"text": "still fine"})).text == "still fine"


async def test_calls_before_start_and_after_stop() -> None:
    bus = Toolbus({"servers": {"a": plain()}})
    with pytest.raises(BusClosed, match="not started"):
        await bus.call("a_echo")
    await bus.start()
    await bus.stop()
    with pytest.raises(BusClosed, match="the bus is closed; create a new one"):
        await bus.call("a_echo")


async def test_an_unknown_server_names_the_near_miss() -> None:
    async with Toolbus({"servers": {"files": plain()}}) as bus:
        with pytest.raises(ServerNotFound) as caught:
            await bus.read_resource("flies", "memo://x")
        with pytest.raises(ServerNotFound):
            bus.tools("flies")
        with pytest.raises(ConfigError):
            await bus.add_server("files", plain())
    assert caught.value.close_matches == ["files"]


async def test_what_is_no_server_object_is_said_so() -> None:
    error = await failure(object())
    assert isinstance(error, ConnectFailed)
    assert "object is not an MCP server" in str(error)


async def test_secrets_are_in_no_error_status_event_or_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    secret = "hunter2-hunter2"
    heard: list[object] = []
    config = {
        "command": sys.executable,
        "args": [str(SERVERS / "plain.py"), "show_secret", "--token=${TOKEN}"],
        "env": {"TOKEN": "${TOKEN}"},
    }
    urls = {"url": "http://127.0.0.1:9/${TOKEN}/mcp?key=${TOKEN}", "headers": {"X-Key": "${TOKEN}"}}
    bus = Toolbus({"servers": {"a": config, "b": urls}}, get_secret=lambda _: secret, on_event=heard.append)
    async with bus:
        shown = [repr(bus.servers), repr(heard), repr(bus.catalog), caplog.text]
    assert "***" in shown[0]
    assert [secret in text for text in shown] == [False] * 4
