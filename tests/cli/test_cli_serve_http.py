"""`toolbus serve --http`: it reports where it listens, and ends without losing calls."""

import json
import re
import signal
import socket
import subprocess
from collections.abc import Generator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from tests import warm
from tests.cli.running import TOOLBUS, Fifo, environment, living_at, scripted, toolbus, write_config
from tests.patience import PATIENCE

META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Served(NamedTuple):
    """A gateway under way."""

    process: subprocess.Popen[str]
    serving: dict[str, Any]
    """Its reports."""

    @property
    def url(self) -> str:
        return self.serving["url"]

    def get(self, path: str) -> tuple[int, bytes]:
        """The status and the body of a page."""
        with self.response("GET", path, None, {}) as response:
            return response.status, response.read()

    def post(self, method: str, path: str = "", key: str = "", **params: Any) -> tuple[int, Any]:
        """The status and the body of a modern request to the MCP endpoint."""
        with self.stream(method, path, key, **params) as response:
            return response.status, json.loads(response.read())

    @contextmanager
    def stream(self, method: str, path: str = "", key: str = "", **params: Any) -> Generator[HTTPResponse]:
        """The response to a modern request, as soon as it begins."""
        meta = {**META, **params.pop("_meta", {})}
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        headers = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": method,
            **({"mcp-name": params["name"]} if "name" in params else {}),
            **({"authorization": f"Bearer {key}"} if key else {}),
        }
        with self.response("POST", urlsplit(self.url).path + path, json.dumps(message), headers) as response:
            yield response

    def tools(self, **how: str) -> list[str]:
        status, body = self.post("tools/list", **how)
        assert status == 200, body
        return [tool["name"] for tool in body["result"]["tools"]]

    @contextmanager
    def response(
        self, method: str, path: str, body: str | None, headers: dict[str, str]
    ) -> Generator[HTTPResponse]:
        address = urlsplit(self.url)
        with closing(HTTPConnection(address.hostname or "", address.port, timeout=PATIENCE)) as connection:
            connection.request(method, path, body, headers)
            with connection.getresponse() as response:
                yield response


@contextmanager
def served(folder: Path, *words: str, program: str | None = None) -> Generator[Served]:
    """A gateway on a free port, once it serves, by default a warm one; killed if it is there afterwards."""
    with subprocess.Popen(
        [program or warm.toolbus(), "serve", "--http", ":0", "--json", *words],
        cwd=folder,
        env=environment(folder.parent),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            events = (json.loads(line) for line in process.stdout)
            serving = next((event for event in events if event["event"] == "Serving"), None)
            assert serving is not None, process.stderr and process.stderr.read()
            yield Served(process, serving)
        finally:
            process.kill()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a home of its own."""
    made = tmp_path / "home" / "work"
    made.mkdir(parents=True)
    return made


def test_it_reports_where_it_listens_and_serves_there(folder: Path) -> None:
    post = scripted(folder, "post", tools=[{"name": "send"}])
    write_config(folder, {"post": post, "attic": {"command": "no-such-program"}})

    with served(folder, program=TOOLBUS) as gateway:
        names = gateway.tools()
        called = gateway.post("tools/call", name="post_send", arguments={"to": "Ann"})
        ready = gateway.get("/readyz")
        health, metrics = gateway.get("/healthz"), gateway.get("/metrics")
        gateway.process.send_signal(signal.SIGTERM)
        code = gateway.process.wait(PATIENCE)

    port = urlsplit(gateway.url).port
    facts: dict[str, Any] = {
        "url": f"http://127.0.0.1:{port}/mcp",
        "servers": 1,
        "of": 2,
        "tools": 1,
        "held": 0,
        "auth": [],
        "console": f"http://127.0.0.1:{port}/console",
        "rest": None,
    }
    assert gateway.serving == {"event": "Serving", **facts}
    assert names == ["post_send"]
    assert called[1]["result"]["content"] == [{"type": "text", "text": '{"to": "Ann"}'}]
    assert (ready[0], health[0], metrics[0]) == (200, 200, 200)
    assert json.loads(ready[1])["servers"]["attic"]["state"] == "failed"
    assert b"toolbus_" in metrics[1]
    assert code == 0
    assert living_at(folder.parent) == set()


def test_a_person_reads_it_in_one_line_and_where_the_console_is_in_another(folder: Path) -> None:
    post = scripted(folder, "post", tools=[{"name": "send"}])
    other = scripted(folder, "other", tools=[{"name": "get"}])
    views: dict[str, Any] = {"default": {"servers": ["post"]}, "all": {}}
    serve = {"path": "/x/y", "public_url": "http://localhost:1", "views": views}
    write_config(folder, {"post": post, "other": other}, serve=serve)

    with subprocess.Popen(
        [warm.toolbus(), "serve", "--http", "127.0.0.1:0"],
        cwd=folder,
        env=environment(folder.parent),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        line, console = process.stderr.readline(), process.stderr.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)

    url, _, facts = line.removeprefix("serving ").partition(": ")
    assert url.startswith("http://127.0.0.1:")
    assert url.endswith("/x/y")
    assert facts == "1 server, 1 tool in the view default; open to everyone on this machine\n"
    assert (process.returncode, out, err) == (0, "", "")
    assert console == f"console: {url.removesuffix('/x/y')}/console; 'toolbus console' opens it\n"


def test_a_call_in_flight_ends_before_it_does(folder: Path) -> None:
    with Fifo(folder / "control") as control:
        steps = {"tools": [{"name": "walk"}], "steps": {"walk": 1}, "control": control.path}
        write_config(folder, {"own": scripted(folder, "own", **steps)})
        with served(folder) as gateway:
            call: dict[str, Any] = {"name": "own_walk", "arguments": {"n": 1}, "_meta": {"progressToken": 1}}
            with gateway.stream("tools/call", **call) as response:
                while b"notifications/progress" not in response.readline():
                    pass
                gateway.process.send_signal(signal.SIGTERM)
                assert "for 1 request in flight; a second signal ends it" in _noted(gateway, "serve")
                control.say("go")
                rest = response.read()
            code = gateway.process.wait(PATIENCE)

    result = json.loads(rest.partition(b"data: ")[2].partition(b"\n")[0])["result"]
    assert result["content"][0]["text"] == '{"n": 1}'
    assert code == 0
    assert living_at(folder.parent) == set()


def test_a_key_is_needed_where_the_config_says_so_and_gives_its_view(folder: Path) -> None:
    post = scripted(folder, "post", tools=[{"name": "send"}, {"name": "read"}])
    views: dict[str, Any] = {"all": {}, "few": {"include": ["post/read"]}}
    settings = {"auth": {"keys": True}, "views": views, "default_view": "all"}
    write_config(folder, {"post": post}, serve=settings)
    made = toolbus("key", "add", "ann", "--view", "few", "--json", folder=folder)
    key = json.loads(made.stdout)["key"]

    with served(folder) as gateway:
        refused = gateway.post("tools/list")
        wrong = gateway.post("tools/list", key="tb_wrong")
        names = gateway.tools(key=key)
        other = gateway.post("tools/list", "/all", key)
        gateway.process.send_signal(signal.SIGTERM)
        _, err = gateway.process.communicate(timeout=PATIENCE)

    assert gateway.serving["auth"] == ["keys"]
    assert (refused[0], wrong[0], names, other[0]) == (401, 401, ["post_read"], 403)
    (line,) = [line for line in err.splitlines() if "unknown key" in line]
    when = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
    assert re.fullmatch(
        rf"{when}  clients       the gateway refused a request of 127.0.0.1: unknown key", line
    )
    assert key not in err
    assert "tb_wrong" not in err


def test_an_address_in_use_is_one_line(folder: Path) -> None:
    write_config(folder, {"post": scripted(folder, "post", marker=str(folder / "started"))})
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        done = toolbus("serve", "--http", str(port), folder=folder)

    why = f"cannot listen on 127.0.0.1:{port}: the address is in use"
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"toolbus: {why}; choose another with --http, or port 0 for any\n"
    assert not (folder / "started").exists()


def test_a_certificate_that_cannot_be_used_is_one_line(folder: Path) -> None:
    serve = {"tls": {"cert": "cert.pem", "key": "key.pem"}}
    write_config(folder, {"post": scripted(folder, "post")}, serve=serve)

    done = toolbus("serve", "--http", ":0", folder=folder)

    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "serve.tls: the certificate or its key cannot be used (No such file or directory)" in done.stderr


def _noted(gateway: Served, about: str = "config") -> str:
    """The next thing that it reports about its config, or about something else."""
    assert gateway.process.stdout is not None
    for line in gateway.process.stdout:
        event = json.loads(line)
        if event["event"] == "Noted" and event["about"] == about:
            return event["message"]
    raise AssertionError("it has ended")


def test_views_and_authentication_are_followed_and_the_address_stays(folder: Path) -> None:
    servers = {"post": scripted(folder, "post", tools=[{"name": "send"}, {"name": "read"}])}
    views: dict[str, Any] = {"all": {}, "few": {"include": ["post/read"]}}
    file = write_config(
        folder, servers, serve={"auth": {"keys": True}, "views": views, "default_view": "all"}
    )
    made = toolbus("key", "add", "ann", "--view", "few", "--json", folder=folder)
    key = json.loads(made.stdout)["key"]

    def change(**serve: Any) -> str:
        write_config(folder, servers, serve={"views": views, "default_view": "all", **serve})
        return _noted(gateway)

    with served(folder, "--config", str(file)) as gateway:
        session = _initialized(gateway, key)
        assert _tools_of(gateway, key, session) == (200, ["post_read"])
        views["few"] = {"include": ["post/send"]}
        assert change(auth={"keys": True}) == "reloaded"
        assert gateway.tools(key=key) == ["post_send"]
        assert _tools_of(gateway, key, session)[0] == 404  # it had another view
        later = change(auth={"keys": True}, http="127.0.0.1:9", max_body=5)
        assert later == "reloaded; serve.max_body from the next start on"  # --http counts more
        views.pop("few")
        assert change(auth={"keys": True}) == "reloaded"
        assert gateway.post("tools/list", key=key)[0] == 403
        assert change() == "reloaded"
        assert gateway.tools() == ["post_read", "post_send"]


def test_a_config_that_would_open_the_gateway_to_others_is_not_used(folder: Path) -> None:
    servers = {"post": scripted(folder, "post", tools=[{"name": "send"}])}
    open_to_others = {"auth": {"keys": True}, "hosts": ["tools.example.com"]}
    file = write_config(folder, servers, serve=open_to_others)
    with served(folder, "--config", str(file), "--http", "0.0.0.0:0") as gateway:
        write_config(folder, servers)
        assert "would be open to others without authentication" in _noted(gateway)
        assert gateway.serving["auth"] == ["keys"]
        port = urlsplit(gateway.url).port
        here = Served(gateway.process, {**gateway.serving, "url": f"http://127.0.0.1:{port}/mcp"})
        assert here.post("tools/list")[0] == 401


def _initialized(gateway: Served, key: str) -> str:
    """The id of a new session of a legacy client."""
    info = {"name": "test", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
    with _legacy(gateway, key, {"method": "initialize", "params": params}) as response:
        assert response.status == 200
        return response.headers["mcp-session-id"]


def _tools_of(gateway: Served, key: str, session: str) -> tuple[int, list[str]]:
    with _legacy(gateway, key, {"method": "tools/list"}, {"mcp-session-id": session}) as response:
        tools = json.loads(response.read()).get("result", {}).get("tools", [])
        return response.status, [tool["name"] for tool in tools]


@contextmanager
def _legacy(
    gateway: Served, key: str, message: dict[str, Any], headers: dict[str, str] | None = None
) -> Generator[HTTPResponse]:
    sent = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "authorization": f"Bearer {key}",
        **(headers or {}),
    }
    body = json.dumps({"jsonrpc": "2.0", "id": 1, **message})
    with gateway.response("POST", urlsplit(gateway.url).path, body, sent) as response:
        yield response
