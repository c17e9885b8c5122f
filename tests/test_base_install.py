"""The parts that work without extras: every module, every command, every block of the documentation.

A part that needs an extra names it in its error. On a page, the section of its block shows how to install it.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests import warm
from tests.base_install import base_python
from tests.pages import FROM_NOTHING, README, ROOT
from tests.patience import PATIENCE
from tests.sandbox.place import sandbox_problem

PAGES = sorted(
    {README, ROOT / "CONTRIBUTING.md", ROOT / "examples" / "README.md", *(ROOT / "docs").rglob("*.md")}
    - set((ROOT / "docs" / "reference" / "python").glob("*.md"))
)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The folders with the programs of a base install; the first has those whose imports are made."""
    python = base_python(tmp_path_factory.mktemp("base") / "env")
    return [warm.prepared(python).programs, Path(python).parent]


@pytest.fixture
def environment(programs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    """The environment of a user who has only that, in a copy of `examples/`."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tmp_path / "examples")
    own = str(Path(sys.executable).parent)
    path = [*map(str, programs), *(one for one in os.environ["PATH"].split(os.pathsep) if one != own)]
    return os.environ | {
        "PATH": os.pathsep.join(path),
        "HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "TERM": "dumb",
    }


def run(*words: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a program of the base install."""
    return subprocess.run(
        words,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.mark.parametrize("page", PAGES, ids=[page.relative_to(ROOT).as_posix() for page in PAGES])
def test_each_block_of_a_page_runs_unless_its_section_names_an_extra(
    page: Path,
    environment: Mapping[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    subtests: pytest.Subtests,
) -> None:
    if page.name == "sandbox.md" and (problem := sandbox_problem()):
        pytest.skip(problem)
    if page in FROM_NOTHING:
        (tmp_path / "project").mkdir()
        monkeypatch.chdir(tmp_path / "project")
    done = run("python", "-m", "tests.pages", str(page), env=environment)
    assert done.returncode == 0, done.stderr
    skipped: dict[str, str] = json.loads(done.stdout)
    for reason in skipped.values():
        with subtests.test("a block"):  # pytest shows each reason once, with a count
            pytest.skip(reason)


TELL = 'Install it: `pip install "toolbus[{0}]"`.'
WRONG = {
    "names no extra": (
        "No extra.",
        "from toolbus.agent import Agent",
        "it needs toolbus[agent], which its section does not name",
    ),
    "names another extra": (
        TELL.format("search"),
        "from toolbus.agent import Agent",
        "it needs toolbus[agent], which its section does not name",
    ),
    "names the extra in another section": (
        f"## One\n{TELL.format('agent')}\n## Two",
        "from toolbus.agent import Agent",
        "it needs toolbus[agent], which its section does not name",
    ),
    "only mentions the extra": ("With toolbus[search].", "import numpy", "in a base install"),
    "imports by itself": ("No extra.", "import numpy", "in a base install"),
    "uses a name of a skipped block": (
        f"## One\n{TELL.format('agent')}\n```python\nfrom toolbus.agent import Agent\n```\n## Two",
        "print(Agent)",
        "'Agent' needs an extra that is named only above line 3",
    ),
    "fails otherwise": (TELL.format("search"), "print(1 / 0)", "ZeroDivisionError"),
}


@pytest.mark.parametrize("block", WRONG.values(), ids=WRONG)
def test_a_page_that_does_not_say_what_it_needs_is_wrong(
    block: tuple[str, str, str], environment: Mapping[str, str], tmp_path: Path
) -> None:
    page, (intro, code, problem) = tmp_path / "page.md", block
    page.write_text(f"{intro}\n```python\n{code}\n```\n")
    done = run("python", "-m", "tests.pages", str(page), env=environment)
    assert done.returncode == 1
    assert problem in done.stderr


SAYS_IT = """\
# Page

```console
$ echo done
done
```

## One

`pip install "toolbus[agent]" numpy`:

```python
import numpy as np
from toolbus.agent import Agent
```

### Below

```python
print(Agent)
```

```console
$ python -c "import numpy; print(1)"
1
```

## Two

```python
print("always")
```

```text
always
```

## Three

`pip install "toolbus[agent]"`:

```python
print(Agent)
```

```text
<class 'toolbus.agent.agent.Agent'>
```
"""


def test_a_block_that_needs_an_extra_is_skipped_with_the_reason(
    environment: Mapping[str, str], tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    page.write_text(SAYS_IT)
    done = run("python", "-m", "tests.pages", str(page), env=environment)
    assert done.returncode == 0, done.stderr
    needs = "needs toolbus[agent], numpy"
    assert json.loads(done.stdout) == {
        "page.md:12": needs,
        "page.md:19": f"follows a block that {needs}",
        "page.md:24": needs,
        "page.md:42": "follows a block that needs toolbus[agent]",
    }


MODULES = """
from importlib import import_module
from pathlib import Path
import toolbus
from toolbus.errors import ExtraMissing

root = Path(toolbus.__file__).parent
for file in sorted(root.rglob("*.py")):
    parts = file.relative_to(root.parent).with_suffix("").parts
    if parts[-1] == "__main__" or "console" in parts and "static" in parts:
        continue
    name = ".".join(parts).removesuffix(".__init__")
    try:
        module = import_module(name)
        for public in getattr(module, "__all__", ()):
            getattr(module, public)
    except ExtraMissing:
        continue
    except ImportError as error:
        print(name, error)
"""


def test_every_module_and_every_public_name_can_be_imported_or_names_its_extra(
    environment: Mapping[str, str],
) -> None:
    done = run("python", "-c", MODULES, env=environment)
    # These are imported once it is known that numpy is there (`search/encoders/encoder.py`).
    needs = {"encoders.minilm": "numpy", "encoders.weights": "google", "vectors": "numpy"}
    expected = [f"toolbus.search.{name} No module named '{needed}'" for name, needed in needs.items()]
    expected.append("toolbus.testing.model No module named 'pydantic_ai'")  # toolbus.testing names the extra
    expected.append("toolbus.testing.plugin No module named 'pytest'")  # only pytest itself loads it
    assert (done.stdout.splitlines(), done.stderr) == (expected, "")


def test_tools_are_found_by_words(environment: Mapping[str, str]) -> None:
    found = run("toolbus", "--config", "toolbus.yaml", "--json", "search", "keep a note", env=environment)
    assert found.returncode == 0, found.stderr
    answer = json.loads(found.stdout)
    assert [hit["name"] for hit in answer["hits"]][:1] == ["notes_add"]
    assert answer["encoder"]["reason"] == 'numpy is not installed; pip install "toolbus[search]"'


ENCODERS = """
from toolbus.sync import SyncToolbus

url = {"url": "http://localhost:9/v1", "model": "m"}
for wanted, own in ("minilm", None), ("static", None), (url, None), ("auto", list):
    with SyncToolbus({"servers": {}, "search": {"encoder": wanted}}, encoder=own) as bus:
        bus.search("anything")
        print(bus.search_ready(60).reason)
"""


def test_every_encoder_says_which_extra_it_needs(environment: Mapping[str, str]) -> None:
    done = run("python", "-c", ENCODERS, env=environment)
    reason = 'numpy is not installed; pip install "toolbus[search]"'
    assert done.stdout.splitlines() == [reason] * 4, done.stderr


def test_every_command_has_its_help(environment: Mapping[str, str]) -> None:
    listed = run("toolbus", "--help", env=environment).stdout.partition("Options:")[0]
    commands = re.findall(r"^  ([a-z]+)  ", listed, re.MULTILINE)
    assert {"search", "script", "chat", "serve", "console", "up", "runs"} <= set(commands)
    helps = {command: run("toolbus", command, "--help", env=environment) for command in commands}
    assert [name for name, done in helps.items() if done.returncode or "Usage:" not in done.stdout] == []


NEEDS = {
    "chat": ["agent", "hello"],
    "script": ["code", "notes.py"],
    "runs worker": ["durable"],
    "runs": ["durable"],
}


@pytest.mark.parametrize("command", NEEDS)
def test_a_command_that_needs_an_extra_says_how_to_install_it(
    command: str, environment: Mapping[str, str]
) -> None:
    extra, *words = NEEDS[command]
    done = run("toolbus", "--config", "toolbus.yaml", *command.split(), *words, env=environment)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith(f'pip install "toolbus[{extra}]"\n')
    assert done.stderr.count("\n") == 1


def test_servers_run_in_the_background_and_are_searched_there(environment: Mapping[str, str]) -> None:
    config = ("--config", "toolbus.yaml")
    try:
        up = run("toolbus", *config, "up", env=environment)
        assert up.returncode == 0, up.stderr
        for words in (
            ["search", "keep a note"],
            ["call", "notes_add", "text=tea"],
            ["status"],
            ["console", "--no-browser"],
        ):
            done = run("toolbus", *config, *words, env=environment)
            assert done.returncode == 0, done.stderr
    finally:
        run("toolbus", *config, "down", env=environment)
