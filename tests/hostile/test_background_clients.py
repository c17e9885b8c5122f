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


def test_a_client_that_is_killed_while_nobody_reads_its_output(folder: Path) -> None:
    """Its command ends with it, and takes none of the places of the others."""
    words = ["call", "every_big", "size=3000000"]
    with background(folder):
        output, writer = os.pipe()
        nothing = os.open(os.devnull, os.O_RDWR)
        call = warm.Running("toolbus", words, folder, environment(folder.parent), (nothing, writer, nothing))
        os.close(writer)
        assert os.read(output, 1000)
        assert status(folder)["commands"] == 1
        call.kill()
        assert call.wait(PATIENCE) == -signal.SIGKILL
        wait_until(lambda: status(folder)["commands"] == 0, "the command still waits for its reader")
        os.close(output)
        os.close(nothing)
