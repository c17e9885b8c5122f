"""The command line answers at once: what a command does not need is not imported."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.running import TOOLBUS, environment
from tests.conftest import sampled
from tests.patience import PATIENCE
from tests.timing import fastest

AT_MOST = 0.35
"""Of the time that importing the SDK takes."""
SDK = {"mcp", "mcp_types", "httpx2", "anyio"}
HEAVY = {"mcp", "mcp_types", "pydantic", "httpx", "httpx2", "anyio", "rich", "yaml", "asyncio"}
LOADED = (
    "import sys\n"
    "from toolbus.cli.app import exit_code\n"
    "print('exit code:', exit_code(sys.argv[1:]))\n"
    "print('loaded:', *sys.modules)\n"
)


def seconds(home: Path, *command: str) -> float:
    began = time.perf_counter()
    subprocess.run(command, env=environment(home), capture_output=True, timeout=PATIENCE, check=True)
    return time.perf_counter() - began


def test_help_takes_a_fraction_of_what_importing_the_sdk_takes(tmp_path: Path) -> None:
    def a_fraction(ours: float, theirs: float) -> bool:
        return ours <= AT_MOST * theirs

    ours, theirs = fastest(
        lambda: seconds(tmp_path, TOOLBUS, "--help"),
        lambda: seconds(tmp_path, sys.executable, "-c", "import mcp"),
        until=a_fraction,
    )
    assert a_fraction(ours, theirs), f"{ours:.2f} s, the import of mcp {theirs:.2f} s"


def loaded(home: Path, *words: str, code: int | None = None, **variables: str) -> set[str]:
    """The packages and modules that a command has imported when it ends; `code` checks its exit code."""
    run = subprocess.run(
        [sys.executable, "-c", LOADED, *words],
        cwd=home,
        env=environment(home) | variables,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert code is None or f"exit code: {code}\n" in run.stdout, run.stderr
    modules = run.stdout.rpartition("loaded:")[2].split()
    return {name.partition(".")[0] for name in modules} | set(modules)


def test_help_and_mistakes_import_nothing_heavy(tmp_path: Path) -> None:
    assert loaded(tmp_path, "--help") & HEAVY == set()
    assert loaded(tmp_path, "--version") & HEAVY == set()
    # typer itself takes pydantic to read the words of a command.
    assert loaded(tmp_path, "call", "--help") & (HEAVY - {"pydantic"}) == set()
    assert loaded(tmp_path, "tolls") & (HEAVY - {"pydantic"}) == set()


ALONE = {
    "login": "servers.login",
    "serve": "gateway.serve",
    "console": "gateway.console",
    "up": "servers.up",
    "down": "servers.down",
    "status": "servers.status",
    "watch": "servers.watch",
    "chat": "use.chat",
}


@pytest.mark.parametrize("name", sampled(list(ALONE), "login", "up"))
def test_a_command_imports_no_other_command(name: str, tmp_path: Path) -> None:
    commands = "toolbus.cli.commands"
    assert not {one for one in loaded(tmp_path, "--help") if one.startswith(commands)}
    own = {one for one in loaded(tmp_path, name, "--help") if one.startswith(commands)}
    folder = ALONE[name].partition(".")[0]
    assert own == {commands, f"{commands}.{folder}", f"{commands}.{ALONE[name]}"}


WITHOUT_CONFIG = [
    *("tools", "call x", "script x", "check", "search x", "chat x", "read", "read x", "skill"),
    *("lock", "lock diff", "lock approve x", "policy", "serve", "up", "watch", "login x", "key list"),
]


@pytest.mark.parametrize("words", sampled(WITHOUT_CONFIG, "tools", "lock", "serve", "key list"))
def test_a_missing_config_is_reported_before_anything_heavy_is_imported(words: str, tmp_path: Path) -> None:
    light = {"pydantic", "asyncio"} if words == "tools" else {"pydantic"}  # it looks for editors
    assert loaded(tmp_path, *words.split(), code=2) & (HEAVY - light) == set()
    assert not (tmp_path / ".state").exists()


STARTING_NOTHING = [
    "config",
    "config --redacted --config toolbus.yaml",
    "config --schema",
    "import mcp.json",
    "import mcp.json --write",
    "init --force",
    "trust --yes",
    "add b -- x",
    "remove a",
    "disable a",
    "enable a",
]


# What shows, imports, writes, trusts and edits.
SOME = ("config", "import mcp.json --write", "init --force", "trust --yes", "disable a")


@pytest.mark.parametrize("words", sampled(STARTING_NOTHING, *SOME))
def test_a_command_that_starts_no_server_does_not_import_the_sdk(words: str, tmp_path: Path) -> None:
    write_files(tmp_path)
    assert loaded(tmp_path, *words.split(), code=0) & SDK == set()


COMPLETED = ["toolbus ca", "toolbus call ", "toolbus tools ", "toolbus enable "]


@pytest.mark.parametrize("line", sampled(COMPLETED, "toolbus ca", "toolbus call "))
def test_completion_does_not_import_the_sdk(line: str, tmp_path: Path) -> None:
    write_files(tmp_path)
    position = str(line.count(" "))
    variables = {"_TOOLBUS_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": position}
    assert loaded(tmp_path, code=0, **variables) & SDK == set()


def write_files(folder: Path) -> None:
    (folder / "toolbus.yaml").write_text("servers: {a: {command: x}}")
    (folder / "mcp.json").write_text('{"mcpServers": {"b": {"command": "x"}}}')
