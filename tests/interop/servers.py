"""The start commands of other people's servers; `make test` installs them with `install.py`.

In arguments and environment `{folder}` is a folder of the test's own, so that no test sees
what another one left behind.
"""

import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest

INTEROP = Path(__file__).resolve().parents[2] / ".interop"
NODE = str(INTEROP.with_name(".venv") / "bin" / "node")
"""Newer than what many machines have; `make` puts it there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InteropServer:
    """A command below `.interop/`, its arguments and its environment."""

    command: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict[str, str])

    def config(self, folder: Path) -> dict[str, object]:
        """This server as an entry of a toolbus config, with `folder` filled in."""
        return {
            "command": str(INTEROP / self.command),
            "args": [arg.format(folder=folder) for arg in self.args],
            "env": {key: value.format(folder=folder) for key, value in self.env.items()},
        }


SERVERS = {
    # SDK 2: both eras.
    "time": InteropServer(command="time/bin/mcp-server-time", args=("--local-timezone", "UTC")),
    # `folder` has to be a git repository.
    "git": InteropServer(command="git/bin/mcp-server-git", args=("--repository", "{folder}")),
    # SDK 1: only the legacy era. The database is made when it is missing.
    "sqlite": InteropServer(command="sqlite/bin/mcp-server-sqlite", args=("--db-path", "{folder}/test.db")),
    # The TypeScript SDK. "streamableHttp" or "sse" instead of "stdio" listens on the port named by $PORT.
    "everything": InteropServer(command="node/node_modules/.bin/mcp-server-everything", args=("stdio",)),
    "filesystem": InteropServer(command="node/node_modules/.bin/mcp-server-filesystem", args=("{folder}",)),
    "memory": InteropServer(
        command="node/node_modules/.bin/mcp-server-memory",
        env={"MEMORY_FILE_PATH": "{folder}/memory.jsonl"},
    ),
}

CLOCK = InteropServer(command="apps/node_modules/.bin/mcp-server-basic-vanillajs", args=("--stdio",))
"""A server with an app, by the authors of that extension."""


def require_installed(*names: str) -> None:
    """Skip the whole test module unless `install.py` installed these."""
    if missing := [name for name in names if not (INTEROP / name / ".installed").is_file()]:
        reason = f".interop has no {', '.join(missing)}; run make .interop/.ready (needs node with npm)"
        pytest.skip(reason, allow_module_level=True)


def require_git() -> None:
    """Skip the test on a machine without git."""
    if shutil.which("git") is None:
        pytest.skip("git is not on the PATH; install it to run this test")
