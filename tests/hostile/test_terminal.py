"""A hostile server's output on the command line: valid JSON, and no sequence that a terminal would obey."""

import json
import re
import subprocess
import sys
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.cli.running import TOOLBUS, Done, environment, toolbus, write_config
from tests.cli.terminal import ESCAPE, terminal
from tests.conftest import sampled
from tests.hostile.shouting import ALIAS, EVIL, MARKUP

HERE = Path(__file__).parent
ANSWERS, SHOUTING = str(HERE / "answers.py"), str(HERE / "shouting.py")


def refuse(constant: str) -> Any:
    pytest.fail(f"{constant} is not JSON")


@pytest.mark.parametrize("options", [["--json"], []])
def test_numbers_and_characters_that_json_or_a_terminal_does_not_take(
    tmp_path: Path, options: list[str]
) -> None:
    """They are written out, and `--json` is valid."""
    folder = tmp_path / "work"
    folder.mkdir()
    write_config(folder, {"a": {"command": sys.executable, "args": [ANSWERS, "odd structure"]}})
    done = toolbus("call", *options, "a_look", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert not {"\x9b", "\U000e0041"} & set(done.stdout)
    printed = json.loads(done.stdout, parse_constant=refuse)
    structured = printed["structured"] if options else printed
    assert structured == {"x": [None, None, None, "\x9b31m", "\U000e0041", None]}


COMMANDS: dict[str, list[str]] = {
    "tools": ["tools"],
    "tools --full": ["tools", "--full"],
    "tools --cost": ["tools", "--cost"],
    "tools --search": ["tools", "--search", EVIL],
    "tools of an alias": ["tools", ALIAS],
    "call": ["call", "s/look"],
    "call of an alias": ["call", f"{ALIAS}/look"],
    "call that fails": ["call", "s/fail"],
    "call that is rejected": ["call", "s/reject"],
    "call that asks": ["call", "s/ask"],
    "call with odd numbers": ["call", "s/odd"],
    "call with files": ["call", "s/files"],
    "call without arguments": ["call", "s/needs"],
    "call with a wrong argument": ["call", "s/look", f"x={EVIL}"],
    "call of an unknown tool": ["call", f"s/{EVIL}"],
    "call of an unknown server": ["call", f"{EVIL}/look"],
    "call of a server that is down": ["call", "gone/look"],
    "resources": ["read"],
    "read": ["read", "s", "test://one"],
    "read of an unknown URI": ["read", "s", f"test://{EVIL}"],
    "prompts": ["prompt"],
    "prompt": ["prompt", "s/plain"],
    "prompt without arguments": ["prompt", "s/needs"],
    "prompt that is unknown": ["prompt", f"s/{EVIL}"],
    "check": ["check"],
    "config": ["config"],
    "config --redacted": ["config", "--redacted"],
    "trust": ["trust", "toolbus.yaml"],
    "import": ["import", "toolbus.yaml"],
    "disable": ["disable", f"x{EVIL}"],
    "enable": ["enable", f"x{EVIL}"],
    "remove": ["remove", f"x{EVIL}"],
    "resume": ["call", "--resume", f"x{EVIL}"],
    "chat": ["chat", "--model", f"x{EVIL}", "hi"],
    "an unknown command": [EVIL],
}
OPTIONS = {"plain": [], "--json": ["--json", "--debug", "-vv"]}
Runs = dict[tuple[str, str], Done]
RUNS = [(name, option) for name in COMMANDS for option in OPTIONS]
AS_JSON = (
    *("tools", "call", "call that fails", "call that is rejected", "call that asks", "call with odd numbers"),
    *("call of a server that is down", "resources", "read", "prompts", "prompt", "check", "config"),
    "an unknown command",
)
"""Commands that are also run with JSON and without --full: each kind of document, and of error."""
SOME_RUNS = [(name, option) for name, option in RUNS if option == "plain" or name in AS_JSON]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Runs:
    folder = tmp_path_factory.mktemp("home") / "work"
    folder.mkdir()
    write_shouting(folder)
    with ThreadPoolExecutor(3) as pool:
        started = {
            (name, option): pool.submit(toolbus, *COMMANDS[name], *OPTIONS[option], folder=folder)
            for name, option in (RUNS if request.config.getoption("--full") else SOME_RUNS)
        }
        return {key: run.result() for key, run in started.items()}


def write_shouting(folder: Path) -> None:
    own = {"command": warm.python(), "args": [SHOUTING], "era": "legacy"}
    gone = {"command": f"/no/{MARKUP}"}
    write_config(folder, {"s": own, ALIAS: own, "gone": gone, f"off{EVIL}": {**own, "enabled": False}})


def obeyed(text: str) -> set[str]:
    """The characters that a terminal would obey or hide, and those that are not text."""
    kinds = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return {letter for letter in text if unicodedata.category(letter) in kinds} - {"\n", "\t"}


@pytest.mark.parametrize("run", sampled(RUNS, *SOME_RUNS), ids="-".join)
def test_a_server_that_talks_to_the_terminal(runs: Runs, run: tuple[str, str]) -> None:
    """Its text is shown, not obeyed; JSON is JSON; nothing is reported as a bug."""
    done, (name, option) = runs[run], run
    assert done.returncode in (0, 1, 2)
    assert "bug in toolbus" not in done.stdout + done.stderr
    assert " raised\n" not in done.stderr  # a callback, as the log has it
    assert obeyed(done.stderr) == set()
    if option == "--json":
        json.loads(done.stdout, parse_constant=refuse)
    # A resource that is read into a pipe comes as it is, as with `cat`.
    if option == "--json" or not name.startswith("read"):
        assert obeyed(done.stdout) == set()


def test_markup_in_the_text_of_a_server(runs: Runs) -> None:
    """It is printed as it is."""
    for name in ("tools", "call", "resources", "prompts", "prompt", "check"):
        assert MARKUP.split(" {")[0] in runs[name, "plain"].stdout, name


@pytest.mark.parametrize(
    "words",
    [["tools"], ["call", "s/look"], ["call", "s/ask"], ["read", "s", "test://one"], ["check"], ["watch"]],
)
def test_a_server_that_talks_to_a_person(words: list[str], tmp_path: Path) -> None:
    """On a terminal, the only sequences are those that move its own cursor and set its own colors."""
    folder = tmp_path / "work"
    folder.mkdir()
    write_shouting(folder)
    with terminal(*words, folder=folder) as screen:
        if words[0] == "watch":
            screen.until("s  ", "ready")
            screen.press("\x03")
        elif words[-1] == "s/ask":
            screen.until("(required): ")
            screen.press("\x04")
        assert screen.ended() in (0, 1, 130)
    assert "bug in toolbus" not in screen.plain
    assert obeyed(screen.plain.replace("\r", "")) == set()
    sequences = set(re.findall(r"\x1b\[[0-9;?]*([A-Za-z])", screen.raw))
    assert sequences <= set("mKAhl")  # colors, erase a line, move up, modes of the cursor
    assert "\x1b[31m\\" not in screen.raw
    assert ESCAPE.sub("", screen.raw).count("\x1b") == 0


# Not even root can create a folder below a file.
NOWHERE = "/dev/null/home"
HOMES: dict[str, dict[str, str | None]] = {
    "no home": {"HOME": None, "XDG_STATE_HOME": None, "XDG_CACHE_HOME": None},
    "a home that cannot exist": {"HOME": NOWHERE, "XDG_STATE_HOME": None, "XDG_CONFIG_HOME": NOWHERE},
    "a relative home": {"HOME": "nowhere", "XDG_STATE_HOME": "nowhere", "XDG_CONFIG_HOME": "nowhere"},
    "a home that is a file": {"HOME": "/dev/null", "XDG_STATE_HOME": "/dev/null"},
}
# As a user of whom the system knows nothing.
UNKNOWN_USER = "import os; os.getuid = lambda: 54321; from toolbus.cli.app import main; main()"
AT_HOME = {
    "tools": ["tools", "--config", "toolbus.yaml"],
    "found": ["tools"],
    "call": ["call", "a/look", "--config", "toolbus.yaml"],
    "check": ["check", "--config", "~/toolbus.yaml"],
    "config": ["config"],
    "trust": ["trust"],
    "trust --yes": ["trust", "--yes"],
    "init": ["init"],
    "add": ["add", "z", "--", "echo"],
    "import": ["import"],
    "chat": ["chat", "hi", "--model", "test"],
    "--version": ["--version"],
}


@pytest.mark.parametrize("home", sampled(list(HOMES), "no home"))
def test_a_system_without_a_usable_home(home: str, tmp_path: Path) -> None:
    """No command reports a bug in toolbus."""
    folder = tmp_path / "work"
    folder.mkdir()
    entry = {"command": sys.executable, "args": [ANSWERS, ""], "era": "legacy"}
    (folder / "toolbus.yaml").write_text(json.dumps({"servers": {"a": entry}}))
    env = {name: value for name, value in (environment(folder) | HOMES[home]).items() if value is not None}

    def run(words: list[str]) -> Done:
        python = sys.executable if words == AT_HOME["tools"] else warm.python()
        return subprocess.run(
            [python, "-c", UNKNOWN_USER, *words],
            cwd=folder,
            env=env,
            input="",
            capture_output=True,
            text=True,
            check=False,
        )

    with ThreadPoolExecutor(3) as pool:
        done = dict(zip(AT_HOME, pool.map(run, AT_HOME.values()), strict=True))
    wrong = {name: run.stderr for name, run in done.items() if re.search("bug in|Traceback", run.stderr)}
    assert wrong == {}
    assert (done["tools"].returncode, done["call"].returncode) == (0, 0), (done["tools"], done["call"])


STREAMS = {
    "stdout is closed": ">&-",
    "stderr is closed": "2>&-",
    "all are closed": ">&- 2>&- <&-",
    "stdin is closed": "<&-",
    "stdout is full": ">/dev/full",
    "stderr is full": "2>/dev/full",
    "both are full": ">/dev/full 2>/dev/full",
    "nobody reads stdout": "| true",
    "nobody reads either": "2>&1 | true",
    "stdout is ASCII": "| cat",
}
SAMPLED = ("all are closed", "both are full", "stdout is ASCII")


@pytest.mark.parametrize("streams", sampled(list(STREAMS), *SAMPLED))
def test_streams_that_cannot_be_used(streams: str, tmp_path: Path) -> None:
    """A result and an error end a command as usual, or with exit code 1."""
    folder = tmp_path / "work"
    folder.mkdir()
    own = {"command": sys.executable, "args": [SHOUTING], "era": "legacy"}
    write_config(folder, {"s": own})
    ascii_only = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    env = environment(tmp_path, **(ascii_only if streams == "stdout is ASCII" else {}))

    is_warm = "full" in streams or "nobody" in streams  # the start of Python is not the point
    program = warm.toolbus() if is_warm else TOOLBUS

    def run(words: list[str]) -> Done:
        shell = f'"$@" {STREAMS[streams]}; exit ${{PIPESTATUS:-$?}}'
        return subprocess.run(
            ["bash", "-c", shell, "sh", program, *words],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    commands = [["call", "s/reject"], ["call", "s/look", "--json", "--debug", "-vv"]]
    with ThreadPoolExecutor(3) as pool:
        for done in pool.map(run, commands):
            assert done.returncode in (0, 1)
            assert not re.search("bug in|Exception ignored", done.stdout + done.stderr)
            assert obeyed(done.stdout + done.stderr) == set()
            if streams == "stdout is ASCII" and "--json" in done.args:
                assert done.stdout.isascii()
                json.loads(done.stdout, parse_constant=refuse)
