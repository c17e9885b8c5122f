"""The gateway as a process, `toolbus serve`, and the servers that stand behind it."""

import json
import re
import socket
import subprocess
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests import warm
from tests.cli.running import environment
from tests.interop.servers import INTEROP
from tests.patience import PATIENCE

HERE = Path(__file__).parent
URL = re.compile(r"https?://[\w.:\[\]-]+/\S*\w")
SDK_PYTHON = INTEROP / "everything-server" / "bin" / "python"
LEGACY_PYTHON = INTEROP / "legacy" / "bin" / "python"

Config = dict[str, Any]

Process = subprocess.Popen[bytes] | warm.Running


@contextmanager
def web_everything(folder: Path, script: str = "everything.py") -> Generator[str]:
    """A server of this folder over HTTP, in a process of its own; gives its URL."""
    port_file = folder / f"{script}.port"
    process = subprocess.Popen([warm.python(), str(HERE / script), "http", str(port_file)])
    try:
        wait_until(port_file.exists, process, script)
        yield f"http://127.0.0.1:{port_file.read_text()}/mcp"
    finally:
        end(process)
        port_file.unlink(missing_ok=True)


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@contextmanager
def sdk_everything(folder: Path) -> Generator[str]:
    """The everything server of the Python SDK over HTTP, in both eras; gives its URL."""
    log = folder / "sdk_everything.log"
    with log.open("w") as stderr:
        words = ["-m", "mcp_everything_server", "--port", str(port := free_port())]
        process = subprocess.Popen([str(SDK_PYTHON), *words], stdout=stderr, stderr=stderr)
    try:
        wait_until(lambda: "Uvicorn running" in log.read_text(), process, "the everything server", log)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        end(process)


@contextmanager
def behind(kind: str, folder: Path) -> Generator[Config]:
    """The entry of a config for the everything server: `modern-http`, `legacy-stdio`, ..., `sdk1-stdio`.

    With `both`, it may be used in either era, and asks in the middle of calls.
    """
    era, _, transport = kind.partition("-")
    if era == "both" and transport == "stdio":
        yield {"command": warm.python(), "args": [str(HERE / "everything_in_calls.py"), "stdio"]}
    elif era == "both":
        with web_everything(folder, "everything_in_calls.py") as url:
            yield {"url": url}
    elif era == "sdk1":
        yield {"command": str(LEGACY_PYTHON), "args": [str(HERE / "legacy_everything.py"), "stdio"]}
    elif transport == "stdio":
        yield {"command": warm.python(), "args": [str(HERE / "everything.py"), "stdio"], "era": era}
    else:
        with web_everything(folder) as url:
            yield {"url": url, "era": era}


def written_config(folder: Path, servers: Mapping[str, Config]) -> Path:
    """A config file with these servers, whose tools keep their names."""
    file = folder / "toolbus.yaml"
    file.write_text(json.dumps({"servers": {name: {**one, "prefix": ""} for name, one in servers.items()}}))
    return file


def stdio_command(config: Path) -> list[str]:
    """The command that an editor starts; with a home of its own, which a client does not forward."""
    home = environment(config.parent, TOOLBUS_TRUST="1")
    shown = [f"{name}={value}" for name, value in home.items() if name != "PATH"]
    return [
        "/usr/bin/env",
        *shown,
        str(warm.folder() / "toolbus"),
        "serve",
        "--stdio",
        "--config",
        str(config),
    ]


@contextmanager
def gateway(config: Path, *options: str) -> Generator[str]:
    """The gateway over HTTP on a free port; gives its URL."""
    log = config.with_suffix(".log")
    words = ["serve", "--http", "127.0.0.1:0", "--config", str(config), *options]
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [str(warm.folder() / "toolbus"), *words],
            env=environment(config.parent, TOOLBUS_TRUST="1"),
            cwd=config.parent,
            stdin=subprocess.DEVNULL,
            stdout=stderr,
            stderr=stderr,
        )
    try:
        wait_until(lambda: URL.search(log.read_text()) is not None, process, "toolbus serve", log)
        found = URL.search(log.read_text())
        assert found
        yield found[0]
    finally:
        end(process)


def wait_until(ready: Any, process: Process, name: str, log: Path | None = None) -> None:
    deadline = time.monotonic() + PATIENCE
    while not ready():
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.02)
        said = log.read_text() if log else ""
        assert process.poll() is None, f"{name} ended at once: {said}"
        assert time.monotonic() < deadline, f"{name} did not start: {said}"


def end(process: Process) -> None:
    process.terminate()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(PATIENCE)
        raise
