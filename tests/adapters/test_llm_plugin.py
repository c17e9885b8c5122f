"""`llm -T Toolbus`: the real command, with the plug-in that our package registers and a scripted provider."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.terminal import terminal
from tests.pages import ROOT
from tests.patience import PATIENCE
from tests.wire import Asked, Provider, ToolCall

LLM = str(Path(sys.executable).parent / "llm")
NOTES = {"command": sys.executable, "args": [str(ROOT / "examples" / "notes.py")]}
BROKEN = {"command": "no-such-program"}


def script(asked: Asked) -> str | list[ToolCall]:
    """The model's turns: it keeps a note, and repeats the results."""
    return asked.given[-1].text if asked.given else [ToolCall("notes_add", {"text": "buy tea"})]


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider(script) as provider:
        yield provider


@pytest.fixture
def variables(provider: Provider, tmp_path: Path) -> dict[str, str]:
    home = {name: str(tmp_path) for name in ("HOME", "LLM_USER_PATH", "XDG_STATE_HOME")}
    return {**provider.environment, **home, "PATH": "/usr/bin:/bin"}


def written(folder: Path, **config: object) -> str:
    """A config with a server that works."""
    file = folder / "mine.json"
    file.write_text(json.dumps({"servers": {"notes": NOTES}, **config}), encoding="utf-8")
    return str(file)


def ran(folder: Path, variables: dict[str, str], *words: str) -> tuple[int, str, str]:
    """The exit code of a command of llm, and what it printed and warned of."""
    done = subprocess.run(
        [LLM, *words],
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def asking(toolbox: str) -> list[str]:
    """The words that ask a model which has this toolbox."""
    return ["-m", "gpt-4o-mini", "-T", toolbox, "Note the tea."]


def test_a_model_calls_a_tool_of_the_config(variables: dict[str, str], tmp_path: Path) -> None:
    toolbox = f"Toolbus({json.dumps(written(tmp_path))})"
    assert ran(tmp_path, variables, *asking(toolbox)) == (0, "kept as note 1", "")
    # What the plug-in was given is in no log of llm.
    assert b"mine.json" not in (tmp_path / "logs.db").read_bytes()


def test_a_server_that_is_down_is_named(variables: dict[str, str], tmp_path: Path) -> None:
    profiles = {"mine": {"servers": ["notes"]}}
    file = written(tmp_path, servers={"notes": NOTES, "broken": BROKEN}, profiles=profiles)
    code, said, warned = ran(tmp_path, variables, *asking(f"Toolbus({json.dumps(file)})"))
    assert (code, said) == (0, "kept as note 1")
    assert warned.startswith("toolbus: server 'broken': spawn failed: command 'no-such-program' not found")
    for narrower in ({"servers": "notes"}, {"profile": "mine"}):
        some = json.dumps({"config": file, **narrower})
        assert ran(tmp_path, variables, *asking(f"Toolbus({some})")) == (0, "kept as note 1", "")


def test_the_config_of_a_folder_has_to_be_trusted(variables: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "toolbus.yaml").write_text(f"servers:\n  notes: {json.dumps(NOTES)}\n", encoding="utf-8")
    code, said, error = ran(tmp_path, variables, *asking("Toolbus"))
    assert (code, said) == (1, "")
    assert "is not trusted yet; review and accept it: toolbus trust" in error


def test_a_missing_file_is_one_line(variables: dict[str, str], tmp_path: Path) -> None:
    done = ran(tmp_path, variables, *asking('Toolbus("nowhere.yaml")'))
    assert done == (1, "", "Error: nowhere.yaml: no such file; check the path")


def test_the_tools_can_be_listed(variables: dict[str, str], tmp_path: Path) -> None:
    toolbox = f"Toolbus({json.dumps(written(tmp_path))})"
    _, said, _ = ran(tmp_path, variables, "tools", "list", toolbox, "--json")
    [listed] = json.loads(said)["toolboxes"]
    assert [tool["name"] for tool in listed["tools"]] == ["notes_add", "notes_search"]


def test_other_commands_of_llm_import_only_the_plug_in(variables: dict[str, str], tmp_path: Path) -> None:
    program = "import sys, llm; llm.get_tools(); print([each for each in sys.modules if 'toolbus' in each])"
    done = subprocess.run(
        [sys.executable, "-c", program], env=variables, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.stdout == "['toolbus', 'toolbus.adapters', 'toolbus.adapters.llm_plugin']\n"


@pytest.mark.parametrize(("key", "told"), [("y", "kept as note 1"), ("n", "not allow")])
def test_a_person_at_the_terminal_answers_the_policy(
    key: str, told: str, variables: dict[str, str], tmp_path: Path
) -> None:
    toolbox = f"Toolbus({json.dumps(written(tmp_path, policy=[{'do': 'ask', 'reason': 'my notes'}]))})"
    with terminal(*asking(toolbox), folder=tmp_path, env=variables, program=LLM) as screen:
        screen.until("policy[0] asks: my notes", 'Call notes_add with {"text": "buy tea"}? [y/N]: ')
        screen.press(f"{key}\n")
        screen.until(told)
        assert screen.ended() == 0
