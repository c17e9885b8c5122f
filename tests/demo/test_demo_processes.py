"""The demo servers as processes: what they print, how they leave, what they import."""

import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests import warm
from tests.demo.running import address, arguments, greeted, last_words, said, started, told
from tests.patience import PATIENCE
from toolbus.demo.serve import command_line

NAMES = ["notes", "files", "worker", "pictures"]
SIGNALS = [signal.SIGTERM, signal.SIGINT]
SILENCE = (0, "", "")


def own_arguments(name: str, folder: Path) -> list[str]:
    return [str(folder)] if name == "files" else []


@pytest.mark.parametrize("number", [*SIGNALS, None], ids=["SIGTERM", "SIGINT", "end of input"])
def test_over_http_every_server_leaves_without_a_word(number: signal.Signals | None, tmp_path: Path) -> None:
    with ExitStack() as stack:
        processes = {
            name: stack.enter_context(started(name, *own_arguments(name, tmp_path), "--http", "0"))
            for name in NAMES
        }
        urls = [address(said(process)) for process in processes.values()]
        for process in processes.values():
            if number is not None:
                process.send_signal(number)
        ends = {name: last_words(process) for name, process in processes.items()}
    assert len(set(urls)) == 4
    assert ends == dict.fromkeys(NAMES, SILENCE)


@pytest.mark.parametrize("number", [*SIGNALS, None], ids=["SIGTERM", "SIGINT", "end of input"])
def test_over_stdio_every_server_leaves_without_a_word(number: signal.Signals | None, tmp_path: Path) -> None:
    with ExitStack() as stack:
        processes = {
            name: stack.enter_context(started(name, *own_arguments(name, tmp_path))) for name in NAMES
        }
        names = [greeted(process) for process in processes.values()]
        for process in processes.values():
            if number is not None:
                process.send_signal(number)
                process.wait(PATIENCE)  # while its standard input is still open
        ends = {name: last_words(process) for name, process in processes.items()}
    assert names == NAMES
    assert ends == dict.fromkeys(NAMES, SILENCE)


def test_the_end_of_input_ends_a_call_that_is_under_way() -> None:
    with started("worker") as process:
        greeted(process)
        told(process, "tools/call", {"name": "count_words", "arguments": {"seconds": 600}})
        assert "counting 29 words in 600 s" in said(process)
        code, _, error = last_words(process)
    assert (code, error) == (0, "")


def test_a_client_that_no_longer_reads_is_left_without_a_word() -> None:
    with started("worker") as process:
        greeted(process)
        assert process.stdout is not None
        process.stdout.close()
        told(process, "tools/list", {})
        process.stdout = None
        assert last_words(process) == (0, None, "")


def test_the_address_is_printed_when_the_server_listens_on_it() -> None:
    with started("worker", "--http", "0") as process:
        url = address(said(process))
        host, _, port = url.removeprefix("http://").removesuffix("/mcp").partition(":")
        socket.create_connection((host, int(port)), timeout=5).close()
    assert host == "127.0.0.1"


def test_a_port_that_is_taken_is_one_line_on_standard_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [warm.python(), *arguments("worker", "--http", str(port))]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    problem = "Address already in use; use --http 0 for a free port"
    assert done.stderr == f"cannot listen on 127.0.0.1:{port}: {problem}\n"


@pytest.mark.parametrize("port", ["x", "-1", "65536"])
def test_what_is_no_port_is_wrong_usage(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command_line("worker", "Works.").parse_args([f"--http={port}"])
    out, error = capsys.readouterr()
    assert (caught.value.code, out) == (2, "")
    assert error.endswith(f"expected a port from 0 to 65535, not {port!r}\n")


def test_a_server_imports_the_sdk_and_nothing_else_that_is_slow() -> None:
    modules = ", ".join(f"toolbus.demo.{name}" for name in NAMES)
    program = (
        "import sys, mcp.server.mcpserver; known = set(sys.modules)\n"
        f"import {modules}\n"
        "new = sorted(set(sys.modules) - known)\n"
        "print(*[name for name in new if name.split('.')[0] not in sys.stdlib_module_names])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert done.stdout.split() == [
        "toolbus",
        "toolbus.demo",
        *sorted(f"toolbus.demo.{name}" for name in [*NAMES, "serve"]),
    ]
