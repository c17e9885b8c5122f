"""The line on stderr that says why a program ended is found among those that do not."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import SERVERS
from tests.inside.connect import old_sdk
from tests.inside.core import error_line, last_line, quoted
from toolbus import ConnectFailed, connect_mcp
from toolbus.config import Resolved

UVX = str(Path(sys.executable).parent / "uvx")
NESTED = "raise ExceptionGroup('a group', [ValueError('bad port'), OSError('no disk')])"
CHAINED = "import os\ntry:\n os.environ['NONE']\nexcept KeyError as e:\n raise RuntimeError('no key') from e"
OWN = "class Stop(Exception): ...\nraise Stop('by hand')"

PROGRAMS = {
    "python module": ([sys.executable, "-m", "nowhere"], "No module named nowhere"),
    "python import": (
        [sys.executable, "-c", "import nowhere"],
        "ModuleNotFoundError: No module named 'nowhere'",
    ),
    "python syntax": ([sys.executable, "-c", "x ="], "SyntaxError: invalid syntax"),
    "python chain": ([sys.executable, "-c", CHAINED], "RuntimeError: no key"),
    "python group": ([sys.executable, "-c", NESTED], "OSError: no disk"),
    "python own": ([sys.executable, "-c", OWN], "Stop: by hand"),
    "node": (["node", "nowhere.js"], "Error: Cannot find module '"),
    "node module": (["node", "-e", "require('nowhere')"], "Error: Cannot find module 'nowhere'"),
    "node throw": (["node", "-e", "throw new TypeError('bad port')"], "TypeError: bad port"),
    "npx": (["npx", "--offline", "-y", "no-such-package-2718"], "npm error request to https://"),
    "uvx": ([UVX, "--offline", "no-such-package-2718"], "no-such-package-2718 was not found in the cache"),
    "sh": (["sh", "-c", "no-such-program"], "no-such-program: not found"),
    "git": (["git", "--git-dir", "/nowhere", "log"], "fatal: not a git repository: '/nowhere'"),
}


@pytest.mark.parametrize(("command", "told"), PROGRAMS.values(), ids=PROGRAMS)
def test_the_reason_is_found_in_what_programs_really_print(
    command: list[str], told: str, tmp_path: Path
) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode
    assert told in (error_line(done.stderr.splitlines()) or "nothing")


NPM_10 = """\
npm error code E404
npm error 404 Not Found - GET https://registry.npmjs.org/no-such-package-2718 - Not found
npm error 404
npm error 404  'no-such-package-2718@*' is not in this registry.
npm error 404
npm error 404 Note that you can also install from a
npm error 404 tarball, folder, http url, or git url.
npm error A complete log of this run can be found in: /home/me/.npm/_logs/2026-debug-0.log"""
NPM_OFFLINE = """\
npm ERR! code ENOTFOUND
npm ERR! syscall getaddrinfo
npm ERR! errno ENOTFOUND
npm ERR! network request to https://registry.npmjs.org/x failed, reason: getaddrinfo ENOTFOUND
npm ERR! network This is a problem related to network connectivity."""
NPM_EXECUTABLE = """\
npm error could not determine executable to run
npm error A complete log of this run can be found in: /home/me/.npm/_logs/debug-0.log"""
DOCKER_DOWN = """\
docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?

Run 'docker run --help' for more information"""
DOCKER_IMAGE = """\
Unable to find image 'mcp/none:latest' locally
docker: Error response from daemon: pull access denied for mcp/none, repository does not exist

Run 'docker run --help' for more information"""
UV_BOX = """\
  \u00d7 No solution found when resolving tool dependencies:
  ╰─▶ Because none was not found in the package registry, your requirements are unsatisfiable."""
UV_SPAWN = "error: Failed to spawn: `none`\n  Caused by: No such file or directory (os error 2)"
RICH = """\
╭───────────── Traceback (most recent call last) ─────────────╮
│ /srv/server.py:3 in <module>                                │
╰─────────────────────────────────────────────────────────────╯
ModuleNotFoundError: No module named 'none'"""
ARGUMENTS = "usage: serve [-h] --dir DIR\nserve: error: the following arguments are required: --dir"
COLOURED = "starting\n\x1b[31mError: no key\x1b[39m\n    at main (/srv/index.js:1:1)\n\nNode.js v22.1.0"
LOGGED = "INFO starting\n2026-01-01 00:00:00,000 ERROR the key is wrong\nINFO bye"
FILESYSTEM = """\
Warning: Cannot access directory /home/user, skipping
Error: None of the specified directories are accessible"""
NODE_CAUGHT = """\
Failed to start the server: Error: connect ECONNREFUSED 127.0.0.1:5432
    at main (/srv/index.js:1:32)
    at async Promise.all (index 0) {
  code: 'ECONNREFUSED',
  address: '127.0.0.1'
}"""
UNRELATED = "Settings not found, using defaults\nListening on stdio\nError: no database"

PRINTED = {
    FILESYSTEM: " | ".join(FILESYSTEM.splitlines()),
    NODE_CAUGHT: NODE_CAUGHT.splitlines()[0],
    UNRELATED: "Error: no database",
    NPM_10: "npm error 404 Not Found - GET https://registry.npmjs.org/no-such-package-2718 - Not found",
    NPM_OFFLINE: NPM_OFFLINE.splitlines()[3],
    NPM_EXECUTABLE: "npm error could not determine executable to run",
    DOCKER_DOWN: DOCKER_DOWN.splitlines()[0],
    DOCKER_IMAGE: DOCKER_IMAGE.splitlines()[1],
    UV_BOX: " | ".join(map(str.strip, UV_BOX.splitlines())),
    UV_SPAWN: "error: Failed to spawn: `none` | Caused by: No such file or directory (os error 2)",
    RICH: "ModuleNotFoundError: No module named 'none'",
    ARGUMENTS: "serve: error: the following arguments are required: --dir",
    COLOURED: "Error: no key",
    LOGGED: "2026-01-01 00:00:00,000 ERROR the key is wrong",
    "Welcome!\nListening.": None,
    "": None,
}


@pytest.mark.parametrize(
    ("printed", "told"), PRINTED.items(), ids=[(text or "-").split("\n")[0] for text in PRINTED]
)
def test_the_reason_is_found_in_what_programs_print(printed: str, told: str | None) -> None:
    assert error_line(printed.splitlines()) == told


def test_frames_and_braces_are_not_quoted() -> None:
    printed = "Goodbye.\n    at f (/srv/a.js:1:2)\n    at async g {\n  code: 'E1',\n}\n  ^\n\nNode.js v22.1.0"
    assert quoted(printed.splitlines()) == last_line(printed.splitlines()) == "Goodbye."
    assert quoted(["}"]) == "}", "rather than nothing"
    traceback = '  File "/srv/a.py", line 3, in main\n    ^^^^^\nGoodbye.'
    assert quoted(traceback.splitlines()) == "Goodbye."


def resolved(command: str, *args: str) -> Resolved:
    return Resolved(command=command, args=args)


OLD_SDK = {
    "fastmcp": "from mcp.server.fastmcp import FastMCP",
    "name": "from mcp.shared.exceptions import McpError",
    "decorator": "from mcp.server import Server; Server('a').list_tools()",
    "module": "import mcp.types as t; t.NoSuchTypeOfVersionOne",
}


@pytest.mark.parametrize("code", OLD_SDK.values(), ids=OLD_SDK)
def test_a_server_for_the_sdk_before_2_is_recognized_by_what_the_sdk_of_today_prints(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode
    lines = done.stderr.splitlines()
    hints = [
        old_sdk(resolved(*command), lines)
        for command in (
            ("uvx", "mcp-server-sqlite", "--db-path", "a b.db"),
            ("/usr/bin/uvx", "--from", "pack==1", "serve"),
            ("uv", "tool", "run", "serve"),
            ("uv", "run", "serve.py"),
            ("pipx", "run", "serve"),
            ("/srv/bin/python3", "-m", "serve"),
            ("/srv/bin/serve",),
        )
    ]
    assert hints == [
        f"it needs the MCP SDK before 2.0; {step}"
        for step in (
            "start it with uvx --with 'mcp<2' mcp-server-sqlite --db-path 'a b.db'",
            "start it with uvx --with 'mcp<2' --from pack==1 serve",
            "start it with uv tool run --with 'mcp<2' serve",
            "start it with uv run --with 'mcp<2' serve.py",
            "start it with uvx --with 'mcp<2' serve",
            f"run /srv/bin/python3 -m venv old-sdk, {INSTALLED}",
            "install 'mcp<2' in its environment",
        )
    ]


INSTALLED = "install 'mcp<2' there, and set command: old-sdk/bin/python"


def test_other_failures_are_not_taken_for_an_old_server() -> None:
    lines = [
        "ModuleNotFoundError: No module named 'mcp'",
        "ModuleNotFoundError: No module named 'mcp.server.mcpserver'",
        "ModuleNotFoundError: No module named 'mcp_tools.old'",
        "ImportError: cannot import name 'MCPServer' from 'mcp.server' (/srv/mcp/server/__init__.py)",
        "ImportError: cannot import name 'x' from 'pydantic' (/srv/pydantic/__init__.py)",
        "AttributeError: 'Server' object has no attribute 'port'",
    ]
    assert [old_sdk(resolved("uvx", "serve"), [line]) for line in lines] == [""] * len(lines)
    old = "ModuleNotFoundError: No module named 'mcp.server.fastmcp'"
    assert old_sdk(resolved("uvx", "--with", "mcp<2", "serve"), [old]) == ""


@pytest.mark.anyio
async def test_the_hint_about_the_sdk_is_part_of_the_error() -> None:
    code = "from mcp.server.fastmcp import FastMCP"
    with pytest.raises(ConnectFailed) as caught:
        await connect_mcp(command=sys.executable, args=["-c", code], alias="a")
    assert caught.value.hint is not None
    assert caught.value.hint.startswith(
        f"it needs the MCP SDK before 2.0; run {sys.executable} -m venv old-sdk, install 'mcp<2' there"
    )


@pytest.mark.anyio
async def test_the_reason_is_quoted_though_a_long_stack_stands_below_it() -> None:
    stack = "\\n".join(f"    at step{number} (/srv/index.js:{number}:1)" for number in range(30))
    code = f"import sys; sys.exit('Error: no database\\n{stack}\\n\\nNode.js v22.1.0')"
    with pytest.raises(ConnectFailed) as caught:
        await connect_mcp(command=sys.executable, args=["-c", code], alias="a", cwd=str(SERVERS))
    assert caught.value.problem == (
        "handshake failed: the process ended with exit code 1; on stderr: Error: no database"
    )
    assert caught.value.stderr[0] == "Error: no database"
    assert caught.value.stderr[-1] == "Node.js v22.1.0"
