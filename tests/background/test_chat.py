"""A chat in the background bus: lines with history, questions and Ctrl-C on the terminal of its client."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.background.holding import background, status
from tests.cli.running import scripted, toolbus, write_config
from tests.cli.terminal import Terminal, terminal
from tests.patience import wait_until
from tests.wire import Provider, Say, ToolCall, Turn

MODEL = "openai:gpt-5.1"
READS = {"annotations": {"readOnlyHint": True}}
SCRIPT: dict[str, Any] = {
    "tools": [{"name": "look", **READS}, {"name": "hang", **READS}, {"name": "write"}],
    "hangs": ["hang"],
}
ASKED = "[a]lways in this chat, [n]o: "


@contextmanager
def dialog(home: Path, provider: Provider, **script: Any) -> Generator[Terminal]:
    """A chat in a background bus that waits for its first line."""
    folder = home / "work"
    folder.mkdir()
    write_config(
        folder, {"own": {**scripted(folder, "own", **{**SCRIPT, **script}), "trust_annotations": True}}
    )
    with (
        background(folder, env=provider.environment),
        terminal("chat", "--model", MODEL, folder=folder) as screen,
    ):
        screen.until(f"{MODEL} with ", "tools on 1 server; /help lists the commands", "> ")
        assert status(folder)["commands"] == 1
        yield screen


def test_a_dialog_streams_shows_calls_and_ends_at_ctrl_d(tmp_path: Path) -> None:
    answers: list[Turn] = [Say("Looking.", [ToolCall("own_look", {})]), "Seen.", "Again."]
    with Provider(answers) as provider, dialog(tmp_path, provider) as screen:
        screen.press("Look.\r")
        screen.until("Looking.", "own_look()  done in ", "Seen.", "> ")
        screen.press("\x1b[A")  # the line before, from the history of the client
        screen.until("Look.")
        screen.press("\r")
        screen.until("Again.", "> ")
        screen.press("/tools\r")
        screen.until("own_look", "> ")
        screen.press("/save kept.json\r")
        screen.until("saved as", "> ")
        assert (tmp_path / "work" / "kept.json").is_file()
        screen.press("\x04")
        assert screen.ended() == 0
    assert len(provider.asked) == 3, "the line of the history was sent"


def test_a_call_is_approved_in_the_dialog(tmp_path: Path) -> None:
    answers: list[Turn] = [
        Say("", [ToolCall("own_write", {})]),
        "Written.",
        Say("", [ToolCall("own_write", {})]),
        "No.",
    ]
    with Provider(answers) as provider, dialog(tmp_path, provider) as screen:
        screen.press("Write.\r")
        screen.until("own_write", ASKED)
        screen.press("y\r")
        screen.until("own_write()  done in ", "Written.", "> ")
        screen.press("Write.\r")
        screen.until(ASKED)
        screen.press("n\r")
        screen.until("own_write()  not run", "No.", "> ")
        screen.press("\x04")
        assert screen.ended() == 0


def test_a_server_asks_in_the_dialog(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    asks = {"look": {"message": "Who?", "requestedSchema": schema}}
    answers: list[Turn] = [Say("", [ToolCall("own_look", {})]), "Hello."]
    with Provider(answers) as provider, dialog(tmp_path, provider, asks=asks) as screen:
        screen.press("Look.\r")
        screen.until("server 'own' asks", "Who?", "name (required): ")
        screen.press("Ann\r")
        screen.until("own_look()  done in ", "Hello.", "> ")
        assert "Ann" in provider.asked[-1].given[0].text
        screen.press("\x04")
        assert screen.ended() == 0


def test_ctrl_c_stops_a_turn_and_twice_the_chat(tmp_path: Path) -> None:
    answers: list[Turn] = [Say("", [ToolCall("own_hang", {})]), "Here.", Say("", [ToolCall("own_hang", {})])]
    with Provider(answers) as provider, dialog(tmp_path, provider) as screen:
        screen.press("Hang.\r")
        screen.until("own_hang()")
        screen.interrupt()
        screen.until("stopped; this turn is forgotten", "> ")
        screen.press("Again.\r")
        screen.until("Here.", "> ")
        screen.press("Hang.\r")
        screen.until("own_hang()")
        screen.interrupt()
        screen.until("stopped; this turn is forgotten", "> ")
        screen.interrupt()
        screen.until("Ctrl-C", "> ")
        screen.interrupt()
        assert screen.ended() == 130
        assert screen.shows_cursor


def test_a_chat_whose_terminal_goes_away_ends(tmp_path: Path) -> None:
    answers: list[Turn] = [Say("", [ToolCall("own_hang", {})])]
    with Provider(answers) as provider, dialog(tmp_path, provider) as screen:
        screen.press("Hang.\r")
        screen.until("own_hang()")
        screen.process.kill()
        wait_until(lambda: status(tmp_path / "work")["commands"] == 0, "it goes on")


def test_one_prompt_with_piped_text(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    write_config(folder, {"own": {**scripted(folder, "own", **SCRIPT), "trust_annotations": True}})
    answers: list[Turn] = [Say("", [ToolCall("own_look", {})]), "The answer."]
    with Provider(answers) as provider, background(folder, env=provider.environment):
        run = toolbus("chat", "Sum it up.", folder=folder, input="a text", env={"TOOLBUS_MODEL": MODEL})
        assert (run.returncode, run.stdout) == (0, "The answer.\n"), run.stderr
        assert "own_look()  done in " in run.stderr
