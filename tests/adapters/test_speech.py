"""The leftovers of the tests of the frameworks."""

import subprocess
import sys
from pathlib import Path

from tests.adapters.environments import ROOT

PROGRAM = """
from tests.adapters.speech import STORAGE
STORAGE.mkdir()
(STORAGE / "tasks.db").touch()
print(STORAGE)
"""


def test_the_storage_of_crewai_ends_with_its_process() -> None:
    command = [sys.executable, "-c", PROGRAM]
    ran = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    storage = Path(ran.stdout.strip())
    assert storage.name.startswith("toolbus-crewai-")
    assert not storage.exists()
