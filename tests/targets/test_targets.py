"""Servers that no config has: named on the command line, used at once."""

import json
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests import warm
from tests.cli.running import toolbus
from tests.conftest import SERVERS, web_server
from tests.servers.recording import recording

FASTMCP = '''
from fastmcp import FastMCP

print("printed while it is imported")
mcp = FastMCP("weather")


@mcp.tool
def forecast(city: str) -> str:
    """The weather of a city."""
    print("printed by a call")
    return f"sun in {city}"
'''
SDK = '''
import os

from mcp.server.mcpserver import MCPServer

server = other_name = MCPServer("sums")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    os.write(1, b"raw noise" + bytes([10]))
    return a + b
'''
READS = "assert sys.stdin.read() == ''\nasyncio.run(server.run_stdio_async())\n"
TRAP = "servers:\n  trap: {command: touch, args: [ran]}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder in an empty home."""
    made = tmp_path / "folder"
    made.mkdir()
    return made


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    with web_server("http", tmp_path_factory.mktemp("web")) as port:
        yield f"http://127.0.0.1:{port}/mcp"


def test_a_tool_result_in_two_commands_from_an_empty_folder(folder: Path, url: str) -> None:
    listed = toolbus("tools", url, folder=folder)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "add  " in listed.stdout
    called = toolbus("call", "--server", url, "add", "a=2", "b=3", folder=folder)
    assert (called.returncode, called.stdout, called.stderr) == (0, "5\n", "")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_a_command_comes_last(era: str, folder: Path) -> None:
    behaviours = ["modern"] if era == "modern" else []
    command = ["--", warm.python(), str(SERVERS / "plain.py"), *behaviours]
    called = toolbus("call", "echo", "text=hello", *command, folder=folder)
    assert (called.returncode, called.stdout) == (0, "hello\n")
    checked = toolbus("check", *command, folder=folder)
    assert (checked.returncode, f"({era})" in checked.stdout) == (0, True)


@pytest.mark.parametrize(
    ("text", "name", "pairs", "said"),
    [(FASTMCP, "forecast", ["city=Rome"], "sun in Rome"), (SDK, "add", ["a=2", "b=3"], "5")],
    ids=["fastmcp", "sdk"],
)
def test_a_python_file_is_a_server(text: str, name: str, pairs: list[str], said: str, folder: Path) -> None:
    (folder / "served.py").write_text(text)
    called = toolbus("call", "--server", "served.py", name, *pairs, folder=folder)
    assert (called.returncode, called.stdout, called.stderr) == (0, f"{said}\n", "")


MISTAKES = {
    "x = (": "served.py, line 1: '(' was never closed",
    "x = 1": "served.py has no FastMCP, MCPServer or Server object; make one at its top level",
    "from fastmcp import FastMCP\na, b = FastMCP('a'), FastMCP('b')": "served.py has several servers: a, b; "
    "name one: served.py:a",
    "raise ValueError('no database')": "served.py, line 1: ValueError: no database",
    "import not_installed_here": "served.py needs not_installed_here, which",
    "import sys; sys.exit(4)": "served.py exited with code 4 while it was imported",
    f"{SDK}server.run()": "served.py calls run() while it is imported; put that under `if __name__",
    f"{SDK}server.run('streamable-http', port=0)": "served.py calls run() while it is imported",
    f"{FASTMCP}mcp.run()": "served.py calls run() while it is imported",
    "import os; os.kill(os.getpid(), 9)": "the process ended with",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_in_a_python_file_is_one_line(text: str, folder: Path) -> None:
    (folder / "served.py").write_text(text)
    done = toolbus("tools", "served.py", "--json", folder=folder)
    assert MISTAKES[text] in json.loads(done.stdout)["servers"]["served"]["error"]


def test_a_python_file_cannot_read_the_messages_while_it_is_imported(folder: Path) -> None:
    (folder / "served.py").write_text(f"{SDK}import asyncio, sys\n{READS}")
    done = toolbus("call", "--server", "served.py", "add", "a=2", "b=3", folder=folder)
    assert (done.returncode, done.stdout) == (0, "5\n")


def test_one_of_several_servers_of_a_python_file_has_a_name(folder: Path) -> None:
    (folder / "served.py").write_text(f"{SDK}\nb = MCPServer('b')\n")
    for name in ("server", "other_name"):
        assert (
            toolbus("call", "--server", f"served.py:{name}", "add", "a=1", "b=1", folder=folder).stdout
            == "2\n"
        )
    lost = toolbus("tools", "served.py:c", folder=folder)
    assert "served.py has no server 'c'; it has: server, b" in lost.stdout


def test_a_folder_named_toolbus_is_not_run_instead(folder: Path) -> None:
    (folder / "toolbus").mkdir()
    (folder / "toolbus" / "__init__.py").write_text("open('ran', 'w')")
    (folder / "served.py").write_text(SDK)
    assert toolbus("tools", "served.py", folder=folder).returncode == 0
    assert not (folder / "ran").exists()


def test_several_servers_have_prefixes(folder: Path, url: str) -> None:
    (folder / "served.py").write_text(SDK)
    words = ("--server", "served.py", "--server", url, "--server", url, "--json")
    done = json.loads(toolbus("tools", *words, folder=folder).stdout)
    assert list(done["servers"]) == ["served", "server", "server-2"]
    names = {tool["name"] for tool in done["tools"]}
    assert {"served_add", "server_add", "server-2_add"} <= names
    one = json.loads(toolbus("tools", "served", *words, folder=folder).stdout)
    assert list(one["servers"]) == ["served"]


def test_every_command_takes_a_target(folder: Path, url: str) -> None:
    (folder / "script.py").write_text("(await add(a=2, b=3))")
    words = {
        "search": ["search", "add", "numbers"],
        "prompts": ["prompts"],
        "resources": ["resources"],
        "run": ["run", "script.py"],
    }
    for key, line in words.items():
        done = toolbus(*line, "--server", url, folder=folder)
        assert done.returncode == 0, (key, done.stderr)


def test_a_config_in_the_folder_is_neither_read_nor_asked_about(folder: Path, url: str) -> None:
    for text in (TRAP, "not: [a config"):
        (folder / "toolbus.yaml").write_text(text)
        done = toolbus("call", "--server", url, "add", "a=2", "b=3", folder=folder)
        assert (done.returncode, done.stdout, done.stderr) == (0, "5\n", "")
    assert not (folder / "ran").exists()


def test_a_server_is_kept_as_add_keeps_it(folder: Path, url: str) -> None:
    done = toolbus(
        "tools", url, "--header", "X-Api-Key=k3y-of-ann-0123456789", "--save", "web", folder=folder
    )
    assert (done.returncode, done.stderr) == (0, "added web to toolbus.yaml\n")
    assert "k3y-of-ann" not in (folder / "toolbus.yaml").read_text()
    assert "k3y-of-ann" in (folder / ".env").read_text()
    assert toolbus("call", "web_add", "a=2", "b=3", folder=folder).stdout == "5\n"
    again = toolbus("tools", url, "--save", "web", folder=folder)
    assert (again.returncode, "already has a server 'web'" in again.stderr) == (2, True)


def test_a_server_that_wants_a_sign_in_says_the_next_step(folder: Path) -> None:
    with recording() as locked:
        locked.statuses = {"initialize": 401, "server/discover": 401}
        done = toolbus("tools", "--json", locked.url, folder=folder)
        error = json.loads(done.stdout)["servers"]["server"]["error"]
    assert "pass a credential with --header" in error
    assert f"toolbus add server {locked.url} --auth oauth && toolbus login server" in error


@pytest.mark.parametrize("kind", ["url", "command"])
def test_the_command_that_resumes_a_call_needs_the_options_of_its_server(kind: str, folder: Path) -> None:
    """Its line has their names, and no value: that may be a secret."""
    suspended = ["call", "book", "guest=Ann", "--on-input", "suspend"]
    program = ["--env", "API_KEY=k3y-of-ann", "--", warm.python(), str(SERVERS / "asking.py"), "stdio"]
    with web_server("http", folder, script="asking.py") as port:
        url = f"http://127.0.0.1:{port}/mcp"
        used = ["--server", url, "--header", "X-Key: k3y-of-ann"] if kind == "url" else program
        done = toolbus(*suspended, *used, folder=folder)
        (folder / "call.json").write_text(done.stdout)
        line = f"--server {url} --header X-Key=..." if kind == "url" else "--env API_KEY=... -- COMMAND"
        assert done.stderr.endswith(f"to answer, run: toolbus call --resume FILE {line}\n")
        resumed = toolbus("call", "--resume", "call.json", "date=2026-01-31", *used, folder=folder)
    assert resumed.stdout == "Ann: 2026-01-31, 2, inside, quiet False\n"


MISUSES: dict[str, tuple[list[str], str]] = {
    "an option as a target": (["tools", "--server", "--json"], "'--json' is not a server: expected a URL"),
    "an option, attached": (["tools", "--server=-x"], "'-x' is not a server"),
    "nothing": (["tools", "--server", ""], "'' is not a server"),
    "a file URL": (["tools", "--server", "file:///etc/passwd"], "not with file://"),
    "a file URL as an argument": (["check", "file:///etc/passwd"], "not with file://"),
    "no such file": (["tools", "gone.py"], "'gone.py': no such file"),
    "an alias": (["tools", "--server", "files"], "'files' is not a server to use without a config"),
    "a secret without a scheme": (["tools", "--server", "me:hunter22@host/mcp"], "that is not a server"),
    "a config as well": (["tools", "http://x", "--config", "a.yaml"], "cannot be combined"),
    "an option without a target": (["tools", "--save", "x"], "--save is for a server that no config has"),
    "a header for two": (["tools", "http://x", "http://y", "--header", "A=b"], "--header is for one server"),
    "a header for a command": (["tools", "--header", "A=b", "--", "x"], "--header is for a URL"),
    "a variable for a URL": (["tools", "http://x", "--env", "A=b"], "--env is for a command"),
    "an invalid name": (["tools", "http://x", "--save", "a/b"], "invalid server name 'a/b'"),
}


@pytest.mark.parametrize("case", MISUSES)
def test_a_misuse_is_one_line_and_starts_nothing(case: str, folder: Path) -> None:
    words, said = MISUSES[case]
    done = toolbus(*words, folder=folder)
    assert (done.returncode, len(done.stderr.splitlines()), said in done.stderr) == (2, 1, True), done.stderr
    assert "hunter22" not in done.stderr


def test_secrets_of_a_target_are_in_no_message_and_no_log(folder: Path) -> None:
    secret = "s3cr3t-0123456789"
    url = f"http://me:{secret}@127.0.0.1:9/mcp?token={secret}"
    lines = [
        ["tools", url],
        ["check", "-vv", url],
        ["call", "--server", url, "x", "--debug", "--json"],
        ["tools", "http://127.0.0.1:9/mcp", "--header", f"Authorization=Bearer {secret}", "-vv"],
        ["check", "--env", f"TOKEN={secret}", "-vv", "--", sys.executable, "-c", "raise SystemExit(3)"],
    ]
    for words in lines:
        done = toolbus(*words, folder=folder)
        assert done.returncode != 0
        assert secret not in done.stdout + done.stderr, words


def test_arguments_after_two_dashes_stay_arguments(folder: Path, url: str) -> None:
    called = toolbus("call", "--server", url, "add", "--", "a=-2", "b=3", folder=folder)
    assert called.stdout == "1\n"
    found = toolbus("search", "--server", url, "--", "add", folder=folder)
    assert found.returncode == 0
    (folder / "script.py").write_text("args")
    ran = toolbus("run", "--server", url, "script.py", "--", "--fast", folder=folder)
    assert "--fast" in ran.stdout
