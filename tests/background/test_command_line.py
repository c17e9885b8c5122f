"""The command lines for a background bus, as the light client reads them."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.background.holding import background
from tests.cli.running import environment
from tests.inside.background import FLAGS, IN_BACKGROUND, NOT_THERE, WITH_VALUE, background_command
from tests.inside.cli import commands
from tests.patience import PATIENCE


@pytest.mark.parametrize(
    ("line", "config"),
    [
        ("call x", None),
        ("--json call x", None),
        ("--config a.yaml call x", "a.yaml"),
        ("call x --config=a.yaml", "a.yaml"),
        ("call x --args --no-up --config b", "b"),
        ("call x --config a -- --no-up", "a"),
        ("-v --no-color tools --wait 3", None),
        ("call x text=--help", None),
        ("call x -- a=-1", None),
        ("search -- words", None),
        ("run script.py -- --fast", None),
        ("tools files", None),
        ("call x https://example.com", None),
    ],
)
def test_what_it_is_for(line: str, config: str | None) -> None:
    command = background_command(line.split())
    assert command is not None
    assert command.config == config


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--help",
        "call --help",
        "call x -h",
        "serve",
        "up",
        "call x --no-up",
        "--no-up",
        "--version",
        "--x call",
        "--out d call x",
        "calls",
        "--config",
        "--config a",
        "call --server http://x x",
        "call x --server=a.py",
        "call x -- npx -y package",
        "tools -- npx -y package",
        "tools http://x",
        "check -v weather.py:app",
        "tools registry:a/b",
    ],
)
def test_what_it_is_not_for(line: str) -> None:
    assert background_command(line.split()) is None


def test_the_options_are_those_of_the_commands() -> None:
    """A new option with a value would be taken for a word otherwise."""
    root = commands()
    with_value, flags = set[str](), set[str]()
    for name in IN_BACKGROUND:
        for parameter in root.loaded(name).params:
            if parameter.param_type_name == "option":
                is_flag = parameter.is_flag or parameter.count
                (flags if is_flag else with_value).update(parameter.opts)
    assert with_value == WITH_VALUE
    assert {"--no-up"} <= flags
    before = {option for parameter in root.params for option in parameter.opts}
    assert before - {"--install-completion", "--show-completion"} <= FLAGS | NOT_THERE | WITH_VALUE


LOADED = """
import atexit, sys
atexit.register(lambda: print("loaded:", *sys.modules))
sys.argv = ["toolbus", *sys.argv[1:]]
from toolbus.cli.entry import main
main()
"""


def test_the_client_imports_nothing_that_takes_time(folder: Path) -> None:
    with background(folder):
        printed, loaded = _loaded(folder, "call", "every_echo", "text=hi")
    assert printed == "hi\n"
    packages = {name.partition(".")[0] for name in loaded}
    slow = {"typer", "rich", "pydantic", "mcp", "mcp_types", "httpx2", "anyio", "yaml", "asyncio"}
    assert packages & slow == set()
    assert not any(name.startswith("toolbus.config") for name in loaded)


def test_status_and_down_do_not_import_what_only_a_bus_needs(folder: Path) -> None:
    with background(folder):
        for command, begins in [("status", "running since "), ("down", "stopped the background bus ")]:
            printed, loaded = _loaded(folder, command)
            assert printed.startswith(begins)
            assert loaded & {"toolbus.bus", "mcp", "mcp_types", "httpx2"} == set()


def _loaded(folder: Path, *words: str) -> tuple[str, set[str]]:
    """The output of a command, and the modules that it has imported."""
    run = subprocess.run(
        [sys.executable, "-c", LOADED, *words],
        cwd=folder,
        env=environment(folder.parent),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    printed, _, loaded = run.stdout.partition("loaded:")
    return printed, set(loaded.split())
