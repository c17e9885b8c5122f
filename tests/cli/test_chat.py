"""`toolbus chat` for one answer: its input, its output on each stream, and its end."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.cli.running import Done, Fifo, environment, living_at, scripted, toolbus, write_config
from tests.conftest import sampled
from tests.patience import PATIENCE
from tests.wire import Fault, Provider, Say, ToolCall

MODEL = "openai:gpt-5.1"
EVIL = "a\x1b[2J\x1b]0;owned\x07b\rc\u202ed\u200be\x9bf"
READS = {"annotations": {"readOnlyHint": True}}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
SCRIPT: dict[str, Any] = {
    "tools": [
        {"name": "look", **READS},
        {"name": "draw", **READS},
        {"name": "fails", **READS},
        {"name": "write"},
    ],
    "results": {
        "look": {"content": [{"type": "text", "text": "two notes"}]},
        "draw": {"content": [{"type": "image", "data": PIXEL, "mimeType": "image/png"}]},
        "fails": {"content": [{"type": "text", "text": f"no such {EVIL}\nsecond line"}], "isError": True},
    },
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder whose config has one server."""
    work = tmp_path / "work"
    work.mkdir()
    write_config(work, {"own": {**scripted(work, "own", **SCRIPT), "trust_annotations": True}})
    return work


def chat(provider: Provider, *words: str, folder: Path, piped: str = "", **env: str) -> Done:
    return toolbus(
        "chat", *words, "--model", MODEL, folder=folder, input=piped, env={**provider.environment, **env}
    )


def obeyed(text: str) -> set[str]:
    """The characters that a terminal would obey."""
    return {character for character in text if not character.isprintable()} - {"\n"}


def test_only_the_final_answer_is_on_stdout_and_the_calls_are_on_stderr(folder: Path) -> None:
    with Provider(
        [Say("Let me see.", [ToolCall("own_look", {"where": "x" * 200})]), "There are two."]
    ) as provider:
        done = chat(provider, "Which notes are there?", folder=folder)
    assert (done.returncode, done.stdout) == (0, "There are two.\n")
    (line,) = done.stderr.splitlines()
    assert line.startswith('  own_look(where="xxx')
    assert "...)  done in " in line
    assert len(line) < 120
    assert [asked.prompt for asked in provider.asked] == ["Which notes are there?"] * 2
    assert [given.text for given in provider.asked[1].given] == ["two notes"]


@pytest.mark.parametrize(
    ("words", "prompt"), [(["Summarise this:"], "Summarise this:\n\nred\ngreen"), ([], "red\ngreen")]
)
def test_what_is_piped_in_comes_after_the_prompt_or_is_the_prompt(
    folder: Path, words: list[str], prompt: str
) -> None:
    with Provider(["Colours."]) as provider:
        done = chat(provider, *words, folder=folder, piped="red\ngreen\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Colours.\n", "")
    assert provider.asked[0].prompt == prompt


def test_json_is_a_document_per_event_and_the_result_is_the_last(folder: Path) -> None:
    calls = [ToolCall("own_draw"), ToolCall("own_fails", {"id": 1})]
    with Provider([calls, f"Two {EVIL}."]) as provider:
        done = chat(provider, "Draw.", "--json", "--out", "made", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert obeyed(done.stdout) == set()
    events = [json.loads(line) for line in done.stdout.splitlines()]
    called = [event for event in events if event["event"] == "tool_called"]
    assert [(event["name"], event["server"], event["arguments"]) for event in called] == [
        ("own_draw", "own", {}),
        ("own_fails", "own", {"id": 1}),
    ]
    returned = {event["name"]: event for event in events if event["event"] == "tool_returned"}
    assert (returned["own_draw"]["is_error"], returned["own_fails"]["is_error"]) == (False, True)
    (image,) = returned["own_draw"]["images"]
    assert image["path"] == str(Path("made") / "own_draw.png")
    assert (folder / image["path"]).read_bytes()[:4] == b"\x89PNG"
    said = "".join(event["text"] for event in events if event["event"] == "text")
    assert events[-1]["event"] == "result"
    assert events[-1]["text"] == said == f"Two {EVIL}."
    assert events[-1]["usage"]["requests"] == 2
    assert {call["name"] for call in events[-1]["calls"]} == {"own_draw", "own_fails"}


def test_without_a_terminal_what_writes_is_not_run_and_everybody_is_told(folder: Path) -> None:
    with Provider([[ToolCall("own_write", {"text": "x"})], "I could not."]) as provider:
        done = chat(provider, "Write it.", folder=folder)
    assert (done.returncode, done.stdout) == (0, "I could not.\n")
    reason = "there is no terminal to ask for approval"
    assert done.stderr.splitlines() == [
        f"own_write was not run: {reason}; allow it with --approve never",
        '  own_write(text="x")  not run',
    ]
    assert reason in provider.asked[1].given[0].text


def test_approve_ask_holds_back_also_what_reads_and_never_holds_back_nothing(folder: Path) -> None:
    with Provider([[ToolCall("own_look")], "No."]) as provider:
        asked = chat(provider, "Look.", "--approve", "ask", folder=folder)
    assert "own_look()  not run" in asked.stderr
    with Provider([[ToolCall("own_write", {"text": "x"})], "Done."]) as provider:
        never = chat(provider, "Write.", "--approve", "never", folder=folder)
    assert 'own_write(text="x")  done in ' in never.stderr
    assert provider.asked[1].given[0].text == '{"text": "x"}'


def test_a_tool_that_fails_shows_its_first_line_and_the_model_goes_on(folder: Path) -> None:
    with Provider([[ToolCall("own_fails", {EVIL: EVIL})], f"So {EVIL} be it.\r\nDone."]) as provider:
        done = chat(provider, "Try.", folder=folder)
    assert done.returncode == 0
    assert obeyed(done.stdout) | obeyed(done.stderr) == set()
    assert done.stdout.startswith("So ab")
    assert done.stdout.endswith(" be it.\nDone.\n")
    (line,) = done.stderr.splitlines()
    assert ": no such a" in line
    assert "second line" not in line


def test_an_image_is_saved_and_its_path_named(folder: Path) -> None:
    with Provider([[ToolCall("own_draw")], "There."]) as provider:
        done = chat(provider, "Draw.", folder=folder)
    path = Path(done.stderr.splitlines()[-1].partition("saved as ")[2])
    assert path.name == "own_draw.png"
    assert path.read_bytes()[:4] == b"\x89PNG"
    path.unlink()
    path.parent.rmdir()


@pytest.mark.parametrize("status", [401, 500])
def test_a_model_that_fails_is_one_line_and_exit_1_and_shows_no_key(folder: Path, status: int) -> None:
    key = "sk-very-secret-key"
    with Provider(lambda _: Fault(status, f"Incorrect API key provided: {key}")) as provider:
        done = chat(provider, "Hello.", "--json", "--debug", folder=folder, OPENAI_API_KEY=key)
    assert done.returncode == 1
    assert key not in done.stdout + done.stderr
    line = done.stderr.splitlines()[-1]
    assert line.startswith("toolbus: model 'gpt-5.1': ")
    assert "Incorrect API key provided: ***" in line
    error = json.loads(done.stdout)["error"]
    assert (error["type"], line) == ("ModelFailed", f"toolbus: {error['message']}")


def test_a_server_that_is_down_is_told_and_one_that_is_required_ends_it(folder: Path) -> None:
    own = scripted(folder, "own", **SCRIPT)
    for required, code, out in ((False, 0, "Fine.\n"), (True, 1, "")):
        write_config(folder, {"own": own, "gone": {"command": "no-such-program", "required": required}})
        with Provider(["Fine."]) as provider:
            done = chat(provider, "Hello.", folder=folder)
        assert (done.returncode, done.stdout) == (code, out)
        (line,) = done.stderr.splitlines()
        assert (
            "server 'gone': not connected (failed): spawn failed: command 'no-such-program' not found" in line
        )


@pytest.mark.parametrize(
    ("words", "piped", "message"),
    [
        ([], "", "no prompt; pass one, pipe text in, or run it on a terminal"),
        (["", "--json"], "  \n", "no prompt; pass one, pipe text in, or run it on a terminal"),
        (["x", "--approve", "sometimes"], "", "'sometimes' is not one of 'never', 'writes', 'ask'"),
        (["x", "--out", "toolbus.yaml"], "", "--out 'toolbus.yaml' is a file; name a folder"),
    ],
)
def test_wrong_usage_is_exit_2(folder: Path, words: list[str], piped: str, message: str) -> None:
    done = toolbus("chat", *words, "--model", MODEL, folder=folder, input=piped)
    assert done.returncode == 2
    assert message in done.stderr


def test_without_the_extra_it_says_what_to_install(folder: Path) -> None:
    (folder / "pydantic_ai.py").write_text("raise ModuleNotFoundError(\"No module named 'pydantic_ai'\")")
    done = toolbus(
        "chat", "Hello.", "--model", MODEL, folder=folder, env={"PYTHONPATH": str(folder)}, cold=True
    )
    assert done.returncode == 1
    assert done.stderr.endswith("No module named 'pydantic_ai'; pip install \"toolbus[agent]\"\n")


@pytest.mark.parametrize("sign", sampled([signal.SIGINT, signal.SIGTERM], signal.SIGINT))
def test_a_signal_ends_it_and_all_it_started(folder: Path, sign: signal.Signals) -> None:
    with Fifo(folder / "marker") as marker, Provider([[ToolCall("own_hang")]]) as provider:
        script: dict[str, Any] = {"tools": [{"name": "hang", **READS}], "hangs": ["hang"], "stays": True}
        write_config(
            folder,
            {"own": {**scripted(folder, "own", **script, marker=marker.path), "trust_annotations": True}},
        )
        with subprocess.Popen(
            [warm.toolbus(), "chat", "Hang.", "--model", MODEL],
            cwd=folder,
            env=environment(folder.parent, **provider.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                assert [marker.line(), marker.line()] == ["started", "called"]
                process.send_signal(sign)
                out, err = process.communicate(timeout=PATIENCE)
            finally:
                process.kill()
    assert (process.returncode, out) == (128 + sign, "")
    # The signal may come before the line of the call was begun.
    assert err in ("  own_hang()  stopped\n", "")
    assert living_at(folder.parent) == set()


def test_no_other_command_imports_pydantic_ai(folder: Path) -> None:
    program = (
        "import sys\nfrom toolbus.cli.app import exit_code\nexit_code(sys.argv[1:])\n"
        "print('pydantic_ai' in sys.modules)"
    )
    for words in (["tools"], ["chat", "--help"], ["chat", "--out", "toolbus.yaml"]):
        run = subprocess.run(
            [sys.executable, "-c", program, *words],
            cwd=folder,
            env=environment(folder.parent),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
        assert run.stdout.splitlines()[-1] == "False"
