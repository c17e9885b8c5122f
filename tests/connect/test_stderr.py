"""The line on stderr that says why a program ended is found among those that do not."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import SERVERS
from toolbus import ConnectFailed, connect_mcp
from toolbus.core.stderr import error_line

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

PRINTED = {
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
