"""The two agents in examples/ run, print exactly this, and leave no process behind."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import warm
from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]

OUTPUT = {
    "assistant.py": """\
you: I need tea and bread.
  notes_add {'text': 'buy tea'}
  returned 'kept as note 1'
  notes_add {'text': 'buy bread'}
  returned 'kept as note 2'
I wrote both down.
you: How long is my list?
  notes_search {'word': 'buy'}
  returned 'buy tea\\nbuy bread'
  count_lines {'text': 'buy tea\\nbuy bread'}
  returned '2'
There are 2 things on your list.
""",
    "structured_output.py": """\
2 things in 1 shop: tea, bread
{"items":["tea","bread"],"shops":1}
""",
}


@pytest.mark.parametrize("program", OUTPUT)
def test_the_example_prints_this(program: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    folder = tmp_path / "examples"
    shutil.copytree(ROOT / "examples", folder, ignore=shutil.ignore_patterns("__pycache__"))
    # With --full, it makes its imports itself.
    python = sys.executable if request.config.getoption("--full") else warm.python()
    done = subprocess.run(
        [python, "-W", "error", program],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == (OUTPUT[program], "", 0)


@pytest.mark.parametrize("program", OUTPUT)
def test_the_line_to_change_for_a_real_model_is_there(program: str) -> None:
    text = (ROOT / "examples" / program).read_text()
    assert text.count('For a real one: MODEL = "') == 1
    assert text.count("\nMODEL = ScriptedModel(") == 1
