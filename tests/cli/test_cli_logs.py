"""`toolbus logs`: the stderr of servers, started by any command."""

import json
import logging
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.background.holding import background
from tests.cli.running import toolbus, write_config
from tests.cli.terminal import terminal
from tests.inside.state import STDERR_LOGGER, StderrReader, kept_stderr, stderr_path
from tests.patience import wait_until
from tests.properties import modest


def grumbling(text: str) -> dict[str, Any]:
    """A server that only complains."""
    return {"command": sys.executable, "args": ["-c", f"import sys; print({text!r}, file=sys.stderr)"]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    write_config(folder, {"files": grumbling("no folder is set"), "web": {"url": "http://127.0.0.1:9/mcp"}})
    return folder


def texts(folder: Path, *words: str) -> list[str]:
    lines = json.loads(toolbus("logs", *words, "--json", folder=folder).stdout)["lines"]
    return [line["text"] for line in lines]


def test_the_stderr_of_a_command_is_kept_for_each_config(folder: Path) -> None:
    other = folder.with_name("other")
    other.mkdir()
    write_config(other, {"files": grumbling("another reason")})
    toolbus("tools", folder=folder)
    toolbus("tools", folder=other)

    assert set(texts(folder, "files")) == {"no folder is set"}
    assert set(texts(other, "files")) == {"another reason"}
    shown = toolbus("logs", "files", "--lines", "1", folder=folder)
    assert (shown.returncode, shown.stdout.count("\n")) == (0, 1)
    assert shown.stdout.endswith("  no folder is set\n")
    listed = json.loads(toolbus("logs", "--json", folder=folder).stdout)["servers"]
    assert [(one["server"], one["bytes"] > 0) for one in listed] == [("files", True)]
    assert "files   20" in toolbus("logs", folder=folder).stdout


def test_what_is_not_there_is_said_with_the_next_step(folder: Path) -> None:
    assert toolbus("logs", folder=folder).stderr == "no server has written to stderr yet\n"
    nothing = toolbus("logs", "files", folder=folder)
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert nothing.stderr == "nothing is kept of the stderr of files; start it with: toolbus check files\n"
    assert "it runs elsewhere, at its URL" in toolbus("logs", "web", folder=folder).stderr
    unknown = toolbus("logs", "flies", folder=folder)
    assert (unknown.returncode, "did you mean 'files'?" in unknown.stderr) == (2, True)
    assert "name one" in toolbus("logs", "-f", folder=folder).stderr


def test_a_server_in_the_background_is_followed_until_ctrl_c(folder: Path) -> None:
    with terminal("logs", "files", "-f", folder=folder) as screen, background(folder):
        screen.until("no folder is set")
        screen.press("\x03")
        assert screen.ended() == 130


def test_serve_keeps_the_stderr_of_its_servers(folder: Path) -> None:
    with terminal("serve", "--http", "127.0.0.1:0", folder=folder):
        wait_until(lambda: texts(folder, "files") != [])


@modest
@given(batches=st.lists(st.lists(st.integers(0, 40_000), max_size=3), min_size=1, max_size=25))
def test_a_reader_sees_each_line_once_across_rotations(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[int]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        config = "/some/toolbus.yaml"
        reader, seen, written = StderrReader(stderr_path(config, "a")), list[str](), list[str]()
        for batch in batches:
            new = [f"{len(written) + place} {'x' * 4 * size}"[:30_000] for place, size in enumerate(batch)]
            with kept_stderr(config):
                for text in new[:2]:
                    logging.getLogger(f"{STDERR_LOGGER}.a").debug("%s", text)
            written += new[:2]
            seen += [line.text for line in reader.added()]
        assert seen == written
        reader.close()
        with closing(StderrReader(stderr_path(config, "a"))) as other:
            assert [line.text for line in other.last(3)] == written[-3:]
