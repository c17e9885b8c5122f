"""Errors are one line that ends in the next step, never a traceback, and an exit code."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.running import TOOLBUS, environment, scripted, toolbus, write_config
from tests.conftest import plain, sampled
from tests.patience import PATIENCE

TOOLS = [{"name": f"tool_{number}", "description": "x" * 200} for number in range(2000)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("errors")
    write_config(folder, {"many": scripted(folder, "many", tools=TOOLS)})
    return folder


def piped(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a line of bash; its exit code comes from the first command."""
    return subprocess.run(
        ["bash", "-c", f"{line}; exit ${{PIPESTATUS[0]}}"],
        cwd=folder,
        env=environment(folder.parent),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.mark.parametrize("words", [["tools"], ["call", "x"], ["config"]], ids=" ".join)
def test_without_a_config_the_ways_to_get_one_are_named(tmp_path: Path, words: list[str]) -> None:
    run = toolbus(*words, folder=tmp_path)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == (
        f"toolbus: no config found in {str(tmp_path)!r} or its parents; create one with 'toolbus init' "
        "or 'toolbus import', pass one with --config, use one server with 'toolbus tools URL', "
        "or try 'toolbus demo'\n"
    )


@pytest.mark.parametrize("typed", ["localhost:8000", "example.com/mcp", "nosuch"])
def test_without_a_config_what_is_no_server_is_named(tmp_path: Path, typed: str) -> None:
    run = toolbus("tools", typed, folder=tmp_path)
    said = f"toolbus: {typed!r} is not a URL (start it with http://), a Python file or a server of a config; "
    assert (run.returncode, run.stderr.startswith(f"{said}no config found in ")) == (2, True)


def test_a_config_that_cannot_be_read_is_named_with_the_line(tmp_path: Path) -> None:
    (tmp_path / "toolbus.yaml").write_text("servers:\n  a: [1\n")
    run = toolbus("tools", "--json", folder=tmp_path)
    message = json.loads(run.stdout)["error"]["message"]
    assert json.loads(run.stdout) == {"error": {"type": "ConfigError", "message": message}}
    assert (run.returncode, run.stderr) == (2, f"toolbus: {message}\n")
    assert "toolbus.yaml" in message
    assert "line 3" in message
    assert "\n" not in message


def test_a_config_without_servers_or_with_a_wrong_key_says_what_to_do(tmp_path: Path) -> None:
    write_config(tmp_path, {})
    run = toolbus("tools", folder=tmp_path)
    assert (run.returncode, run.stdout, run.stderr.count("\n")) == (2, "", 1)
    assert run.stderr.startswith("toolbus: ")
    assert "servers" in run.stderr
    write_config(tmp_path, {"a": {"comand": "x"}})
    run = toolbus("check", folder=tmp_path)
    assert (run.returncode, run.stdout, run.stderr.count("\n")) == (2, "", 1)
    assert "did you mean 'command'?" in run.stderr


USAGE = {
    "tolls": "no such command 'tolls'. Did you mean 'tools'? See 'toolbus --help'",
    "tools --serch x": "no such option: --serch (Possible options: --save, --search, --server); see "
    "'toolbus tools --help'",
    "call": "missing argument 'NAME'; see 'toolbus call --help'",
    "tools mani": "server 'mani': unknown server; did you mean 'many'?",
    "check xyz": "server 'xyz': unknown server; known servers: many",
    "watch xyz": "server 'xyz': unknown server; known servers: many",
    "lock difff": "no command or server 'difff'; did you mean 'toolbus lock diff'?",
    "lock approve many_tool_1": "no server 'many_tool_1'; did you mean 'many/tool_1'?",
    "disable many_tool_1": "no server 'many_tool_1' in toolbus.yaml; did you mean 'many/tool_1'?",
    "remove many_tool_1": "no server 'many_tool_1' in toolbus.yaml; known servers: many",
    "logs -n x": "invalid value for '--lines' / '-n': 'x' is not a number; see 'toolbus logs --help'",
}


@pytest.mark.parametrize(("line", "message"), USAGE.items(), ids=list(USAGE))
def test_wrong_usage_says_what_was_meant_and_where_to_read_on(folder: Path, line: str, message: str) -> None:
    run = toolbus(*line.split(), folder=folder)
    assert (run.returncode, run.stdout, run.stderr) == (2, "", f"toolbus: {message}\n")


def test_json_has_wrong_usage_as_its_one_document(folder: Path) -> None:
    run = toolbus("--json", "tolls", folder=folder)
    message = USAGE["tolls"]
    assert json.loads(run.stdout) == {"error": {"type": "Usage", "message": message}}
    assert (run.returncode, run.stderr) == (2, f"toolbus: {message}\n")


def test_a_traceback_is_shown_with_debug_only(folder: Path) -> None:
    run = toolbus("tools", "xyz", "--debug", folder=folder)
    assert run.stderr.startswith("Traceback (most recent call last):")
    *_, cause, message = run.stderr.splitlines()
    assert cause.endswith(f"ServerNotFound: {USAGE['check xyz']}")
    assert message == f"toolbus: {USAGE['check xyz']}"
    assert run.returncode == 2


LEAVING = ["toolbus tools | head -1", "toolbus tools --json | head -1", "toolbus --help | true"]


@pytest.mark.parametrize("line", sampled(LEAVING, LEAVING[0], LEAVING[2]))
def test_a_reader_that_leaves_is_no_reason_for_noise(folder: Path, line: str) -> None:
    run = piped(line, folder)
    assert run.stderr == ""
    assert len(run.stdout.splitlines()) == ("head" in line)


UNWRITABLE = ["toolbus config >&-", "toolbus config --json >&-", "toolbus config > /dev/full"]


@pytest.mark.parametrize("line", sampled(UNWRITABLE, UNWRITABLE[0], UNWRITABLE[2]))
def test_an_output_that_cannot_be_written_to_makes_no_traceback(folder: Path, line: str) -> None:
    run = piped(line, folder)
    # the right line, then "Exception ignored in: ..." and exit code 120.
    full = "toolbus: No space left on device\n"
    assert (run.returncode, run.stderr) == ((1, full) if "full" in line else (0, ""))


def test_a_closed_input_is_an_empty_one(folder: Path) -> None:
    run = piped(f"{TOOLBUS} tools --search tool_1999 <&-", folder)
    assert (run.returncode, run.stderr) == (
        0,
        "'toolbus tools --search' is now 'toolbus search'\n1 of 2000 tools match 'tool_1999'\n",
    )


def test_a_server_that_floods_both_its_outputs_leaves_the_screen_clean(tmp_path: Path) -> None:
    noise = scripted(
        tmp_path, "noisy", tools=[{"name": "x"}], stderr="noise\n" * 50_000, stdout="junk\n" * 1000
    )
    write_config(tmp_path, {"noisy": noise, "talks": plain("talk", "stderr_flood")})
    run = toolbus("tools", folder=tmp_path)
    assert run.stdout.splitlines() == [
        "noisy  ready  2025-06-18 (legacy)  1 tool",
        "  noisy_x",
        "talks  ready  2025-06-18 (legacy)  1 tool",
        "  talks_echo  [text]  Say it again.",
    ]
    assert (run.returncode, run.stderr) == (0, "")
