"""`toolbus serve`: one MCP server for an editor over stdio, until it leaves or a signal comes."""

import json
import shlex
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.cli.running import TOOLBUS, Fifo, environment, living_at, scripted, toolbus, write_config
from tests.cli.terminal import terminal
from tests.patience import PATIENCE

HELLO: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"elicitation": {}},
    "clientInfo": {"name": "editor", "version": "1"},
}
ASKS = {
    "message": "How many?",
    "requestedSchema": {"type": "object", "properties": {"n": {"type": "integer"}}},
}


class Client:
    """An editor that speaks the legacy protocol over the pipes of the gateway that it has started."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.notified: list[str] = []
        self._last = 0

    def send(self, method: str, **params: Any) -> int:
        """Send a request; returns its id."""
        self._last += 1
        self._write({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params})
        return self._last

    def answer(self, asked: dict[str, Any], result: dict[str, Any]) -> None:
        self._write({"jsonrpc": "2.0", "id": asked["id"], "result": result})

    def until(self, what: int | str) -> dict[str, Any]:
        """The response to the request of that id, or the next message with that method."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            if "method" in message:
                self.notified.append(message["method"])
            if what in (message.get("method"), None if "method" in message else message.get("id")):
                return message
        raise AssertionError(f"it ended before {what}")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a request."""
        return self.until(self.send(method, **params))["result"]

    def tools(self) -> list[str]:
        return [tool["name"] for tool in self.ask("tools/list")["tools"]]

    def _write(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def left(self) -> tuple[int, str]:
        """Close stdin; returns the exit code and the content of stderr."""
        _, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, err


@contextmanager
def started(folder: Path, *words: str, program: str | None = None) -> Generator[subprocess.Popen[str]]:
    """The command, by default a warm one; killed if it is still there afterwards."""
    with subprocess.Popen(
        [program or warm.toolbus(), "serve", "--stdio", *words],
        cwd=folder,
        env=environment(folder.parent),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def client(folder: Path, *words: str, program: str | None = None) -> Generator[Client]:
    """An editor with its gateway."""
    with started(folder, *words, program=program) as process:
        made = Client(process)
        made.ask("initialize", **HELLO)
        yield made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a home of its own."""
    made = tmp_path / "home" / "work"
    made.mkdir(parents=True)
    return made


def test_an_editor_gets_the_tools_of_all_servers_and_stdout_has_nothing_else(folder: Path) -> None:
    post = scripted(folder, "post", tools=[{"name": "send"}], stdout="hello\n", stderr="noise\n")
    shop = scripted(folder, "shop", tools=[{"name": "buy"}], asks={"buy": ASKS})
    write_config(folder, {"post": post, "shop": shop, "attic": {"command": "no-such-program"}})

    with client(folder, program=TOOLBUS) as editor:
        names = editor.tools()
        sent = editor.ask("tools/call", name="post_send", arguments={"to": "Ann"})
        buying = editor.send("tools/call", name="shop_buy", arguments={})
        asked = editor.until("elicitation/create")
        editor.answer(asked, {"action": "accept", "content": {"n": 3}})
        bought = editor.until(buying)["result"]
        code, err = editor.left()

    assert names == ["post_send", "shop_buy"]
    assert sent["content"] == [{"type": "text", "text": '{"to": "Ann"}'}]
    assert asked["params"]["message"] == "How many?"
    assert json.loads(bought["content"][0]["text"])["content"] == {"n": 3}
    assert code == 0
    lines = err.splitlines()
    why = "connecting -> failed: spawn failed: command 'no-such-program' not found"
    assert any(f"  attic         {why}; " in line for line in lines)
    assert "serving over stdio: 2 of 3 servers, 2 tools" in lines
    assert living_at(folder.parent) == set()


def test_a_question_reaches_the_editor_although_it_may_belong_to_two_calls(folder: Path) -> None:
    tools = [{"name": "hang"}, {"name": "buy"}]
    with Fifo(folder / "marker") as marker:
        shop = scripted(folder, "shop", tools=tools, hangs=["hang"], asks={"buy": ASKS}, marker=marker.path)
        write_config(folder, {"shop": shop})
        with client(folder) as editor:
            editor.send("tools/call", name="shop_hang", arguments={})
            assert [marker.line(), marker.line()] == ["started", "called"]
            buying = editor.send("tools/call", name="shop_buy", arguments={})
            editor.answer(editor.until("elicitation/create"), {"action": "accept", "content": {"n": 3}})
            bought = editor.until(buying)["result"]

    assert json.loads(bought["content"][0]["text"])["content"] == {"n": 3}


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_call_in_flight_ends_before_the_command_does(folder: Path, sign: signal.Signals) -> None:
    with Fifo(folder / "control") as control:
        steps = {"tools": [{"name": "walk"}], "steps": {"walk": 1}, "control": control.path}
        write_config(folder, {"own": scripted(folder, "own", **steps)})
        with client(folder) as editor:
            walking = editor.send(
                "tools/call", name="own_walk", arguments={"n": 1}, _meta={"progressToken": 1}
            )
            editor.until("notifications/progress")
            editor.process.send_signal(sign)
            control.say("go")
            walked = editor.until(walking)["result"]
            code = editor.process.wait(PATIENCE)  # its stdin is still open
            _, err = editor.left()

    assert walked["content"][0]["text"] == '{"n": 1}'
    assert code == 0
    assert err.splitlines() == ["serving over stdio: 1 server, 1 tool"]
    assert living_at(folder.parent) == set()


def test_a_second_signal_ends_it_at_once(folder: Path) -> None:
    with Fifo(folder / "marker") as marker:
        script = {"tools": [{"name": "hang"}], "hangs": ["hang"], "marker": marker.path}
        write_config(folder, {"own": scripted(folder, "own", **script)})
        with client(folder, "--drain", "600") as editor:
            editor.send("tools/call", name="own_hang", arguments={})
            assert [marker.line(), marker.line()] == ["started", "called"]
            editor.process.send_signal(signal.SIGTERM)
            editor.process.send_signal(signal.SIGINT)
            code = editor.process.wait(PATIENCE)

    assert code in (130, 143)
    assert living_at(folder.parent) == set()


def test_a_call_that_does_not_end_is_left_after_the_drain(folder: Path) -> None:
    with Fifo(folder / "marker") as marker:
        script = {"tools": [{"name": "hang"}], "hangs": ["hang"], "marker": marker.path}
        write_config(folder, {"own": scripted(folder, "own", **script)})
        with client(folder, "--drain", "0") as editor:
            editor.send("tools/call", name="own_hang", arguments={})
            assert [marker.line(), marker.line()] == ["started", "called"]
            editor.process.send_signal(signal.SIGTERM)
            code = editor.process.wait(PATIENCE)

    assert code == 0
    assert living_at(folder.parent) == set()


def test_an_editor_gets_the_view_that_its_entry_names(folder: Path) -> None:
    post = scripted(folder, "post", tools=[{"name": "send"}, {"name": "read"}])
    views = {"default": {}, "few": {"include": ["post/read"]}}
    write_config(folder, {"post": post}, serve={"views": views})

    with client(folder, "--view", "few") as few, client(folder) as all_tools:
        seen = few.tools(), all_tools.tools()
        refused = few.until(few.send("tools/call", name="post_send", arguments={}))
        (_, err), _ = few.left(), all_tools.left()

    assert seen == (["post_read"], ["post_read", "post_send"])
    assert refused["error"]["code"] == -32602
    assert err.splitlines()[-1] == "serving over stdio: 1 server, 1 tool"


def test_a_changed_config_is_used_without_a_restart(folder: Path) -> None:
    post = scripted(folder, "post", tools=[{"name": "send"}])
    shop = scripted(folder, "shop", tools=[{"name": "buy"}])
    file = write_config(folder, {"post": post})

    with client(folder, "--config", str(file)) as editor:
        before = editor.tools()
        file.write_text(json.dumps({"servers": {"post": post, "shop": shop}}))
        while editor.tools() == before:
            pass
        after = editor.tools()
        code, err = editor.left()

    assert (before, after) == (["post_send"], ["post_send", "shop_buy"])
    assert "notifications/tools/list_changed" in editor.notified
    assert code == 0
    assert err.splitlines()[-1].endswith("  config        reloaded")


def test_a_required_server_that_is_down_ends_it(folder: Path) -> None:
    write_config(folder, {"attic": {"command": "no-such-program", "required": True}})

    with started(folder) as process:
        code = process.wait(PATIENCE)  # its stdin is still open
        out, err = process.communicate()

    assert (code, out) == (1, "")
    trouble, error = err.splitlines()
    assert "  attic         connecting -> failed: " in trouble
    assert error.startswith("toolbus: server 'attic': spawn failed: command 'no-such-program' not found; ")


def test_on_a_terminal_it_says_what_it_is_for(folder: Path) -> None:
    write_config(folder, {"post": scripted(folder, "post")})

    with terminal("serve", "--stdio", folder=folder, width=300) as screen:
        seen = screen.until("\n")
        code = screen.ended()

    assert code == 2
    assert seen.startswith("toolbus: --stdio is for an editor or agent that starts it; ")
    assert "'toolbus install'" in seen


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("serve --stdio --http :0", "--stdio and --http cannot be combined; keep one"),
        ("serve --stdio --view fwe", "no view 'fwe' in the config; did you mean 'few'?"),
        ("serve --stdio --view other", "no view 'other' in the config; known: few"),
        (
            "serve --http 0.0.0.0:7400",
            "0.0.0.0:7400: would be open to others without authentication; set serve.auth: {keys: true}, or ",
        ),
        ("serve --http 127.0.0.1", "--http 127.0.0.1: expected HOST:PORT, such as 127.0.0.1:7400"),
        ("serve --drain -1", "invalid value for '--drain'"),
        ("serve --stdio --config no.yaml", "no.yaml: no such file; check the path"),
    ],
)
def test_a_mistake_is_one_line(line: str, message: str, folder: Path) -> None:
    serve: dict[str, Any] = {"views": {"few": {}}, "default_view": "few"}
    write_config(folder, {"post": {"command": "python"}}, serve=serve)

    _is_one_line(toolbus(*shlex.split(line), folder=folder), message)


def test_names_are_missing_beyond_this_machine(folder: Path) -> None:
    write_config(folder, {"post": {"command": "python"}}, serve={"auth": {"keys": True}})
    done = toolbus("serve", "--http", "0.0.0.0:7400", folder=folder)
    _is_one_line(done, "--http 0.0.0.0:7400: serve.hosts is missing; list the names under which clients ")


def test_stdio_leaves_no_room_for_json(folder: Path) -> None:
    write_config(folder, {"post": {"command": "python"}})
    done = toolbus("serve", "--stdio", "--json", folder=folder)

    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["message"] == "--stdio speaks MCP on stdout; leave out --json"


def test_a_config_that_is_missing_empty_or_not_trusted_is_one_line(folder: Path) -> None:
    missing = toolbus("serve", "--stdio", folder=folder)
    write_config(folder, {})
    empty = toolbus("serve", "--stdio", folder=folder)
    (folder / "toolbus.yaml").write_text("servers: {post: {command: other}}\n")
    untrusted = toolbus("serve", "--stdio", folder=folder)

    _is_one_line(missing, "no config found in ")
    _is_one_line(empty, "no servers configured; add one with 'toolbus add'")
    _is_one_line(untrusted, "toolbus trust")


def _is_one_line(done: subprocess.CompletedProcess[str], message: str) -> None:
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
