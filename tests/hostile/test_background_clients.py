"""Commands in the background bus whose output nobody reads."""

import os
import signal
from pathlib import Path

import pytest

from tests import warm
from tests.background.holding import background, everyday_entry, status
from tests.cli.running import environment, write_config
from tests.patience import PATIENCE, wait_until


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a server, in a home of its own."""
    folder = tmp_path / "work"
    folder.mkdir()
    write_config(folder, {"every": everyday_entry()})
    return folder


@pytest.mark.parametrize("stream", [1, 2])
def test_a_client_that_is_killed_while_nobody_reads_its_output(folder: Path, stream: int) -> None:
    """Its command ends with it, and takes none of the places of the others."""
    words = ["call", "every_big", "size=3000000"] if stream == 1 else ["call", "every_" + "x" * 300_000]
    with background(folder):
        output, writer = os.pipe()
        nothing = os.open(os.devnull, os.O_RDWR)
        streams = (nothing, writer, nothing) if stream == 1 else (nothing, nothing, writer)
        call = warm.Running("toolbus", words, folder, environment(folder.parent), streams)
        os.close(writer)
        assert os.read(output, 1000)
        assert status(folder)["commands"] == 1
        call.kill()
        assert call.wait(PATIENCE) == -signal.SIGKILL
        wait_until(lambda: status(folder)["commands"] == 0, "the command still waits for its reader")
        os.close(output)
        os.close(nothing)
