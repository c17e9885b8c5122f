"""`toolbus chat` in a real terminal: a dialog, a person who is asked, and Ctrl-C."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import warm
from tests.cli.running import Fifo, living_at, scripted, write_config
from tests.cli.terminal import Terminal, terminal
from tests.patience import PATIENCE
from tests.wire import Asked, Fault, Provider, Say, ToolCall, Turn

MODEL = "openai:gpt-5.1"
READS = {"annotations": {"readOnlyHint": True}}
EVIL = "x\x1b[2J\x1b]0;owned\x07y"
SCRIPT: dict[str, Any] = {
    "tools": [{"name": "look", **READS}, {"name": "hang", **READS}, {"name": "write"}],
    "hangs": ["hang"],
}
EVERYDAY = Path(__file__).parents[1] / "servers" / "everyday.py"
ASKED = "[a]lways in this chat, [n]o: "


@contextmanager
def dialog(home: Path, provider: Provider, *words: str, **script: Any) -> Generator[Terminal]:
    """A chat that waits for its first line."""
    folder = home / "work"
    folder.mkdir()
    write_config(
        folder, {"own": {**scripted(folder, "own", **{**SCRIPT, **script}), "trust_annotations": True}}
    )
    with terminal("chat", "--model", MODEL, *words, folder=folder, env=provider.environment) as screen:
        screen.until(f"{MODEL} with ", "tools on 1 server; /help lists the commands", "> ")
        yield screen


def given(provider: Provider) -> list[str]:
    """The model's results of its calls, at its last turn."""
    return [result.text for result in provider.asked[-1].given]


def test_a_dialog_streams_shows_calls_remembers_and_ends_at_ctrl_d(tmp_path: Path) -> None:
    answers: list[Turn] = [Say("Looking.", [ToolCall("own_look", {"at": EVIL})]), f"Seen {EVIL}.", "Again."]
    with Provider(answers) as provider, dialog(tmp_path, provider) as screen:
        screen.press("Look.\r")
        shown = screen.until(
            "Looking.", 'own_look(at="x\\u001b[2J\\u001b]0;owned\\u0007y")  done in ', "Seen xy.", "> "
        )
        assert shown.index("Looking.") < shown.index("done in") < shown.index("Seen xy.")
        screen.press("And?\r")
        screen.until("Again.", "> ")
        screen.press("\x04")
        assert screen.ended() == 0
        assert "\x1b[2J" not in screen.raw
        assert "\x1b]0;owned" not in screen.raw
        assert screen.shows_cursor
    assert [
        message["content"] for message in provider.asked[2].body["input"] if message.get("role") == "user"
    ] == [
        "Look.",
        "And?",
    ]
    assert living_at(tmp_path) == set()


def test_a_person_says_no_yes_and_always_to_what_writes(tmp_path: Path) -> None:
    call = [ToolCall("own_write", {"text": EVIL, "more": "z" * 200})]
    script: list[Turn] = [call, "1.", call, "2.", call, "3.", call, "4."]
    with Provider(script) as provider, dialog(tmp_path, provider) as screen:
        screen.press("write\r")
        asked = screen.until("own_write of server own", '"text": "x\\u001b[2J\\u001b]0;owned\\u0007y"', ASKED)
        assert "z" * 200 in asked
        screen.press("perhaps\r")
        screen.until(ASKED)
        screen.press("n\r")
        screen.until("not run", "1.", "> ")
        assert "The user did not allow this call" in given(provider)[0]
        for answer, said in (("y", "2."), ("a", "3.")):
            screen.press("write\r")
            screen.until(ASKED)
            screen.press(f"{answer}\r")
            screen.until("done in", said, "> ")
        screen.press("write\r")
        assert ASKED not in screen.until("done in", "4.", "> ")
        screen.press("/quit\r")
        assert screen.ended() == 0
    assert [text.startswith('{"text"') for text in given(provider)] == [False, True, True, True]


def test_ctrl_c_at_a_question_is_no_and_stops_the_turn(tmp_path: Path) -> None:
    with (
        Fifo(tmp_path / "marker") as marker,
        Provider([[ToolCall("own_hang")], "Fine."]) as provider,
        dialog(tmp_path, provider, "--approve", "ask", marker=marker.path) as screen,
    ):
        assert marker.line() == "started"
        screen.press("hang\r")
        screen.until(ASKED)
        screen.interrupt()
        screen.until("own_hang()  stopped", "> ")
        screen.press("go on\r")
        screen.until("Fine.", "> ")
        screen.press("/quit\r")
        assert screen.ended() == 0
        marker.say("no call came")
        assert marker.line() == "no call came"


def test_ctrl_c_stops_a_turn_and_its_call_and_twice_at_the_prompt_ends_it(tmp_path: Path) -> None:
    with (
        Fifo(tmp_path / "marker") as marker,
        Provider([[ToolCall("own_hang")], "Fine."]) as provider,
        dialog(tmp_path, provider, marker=marker.path) as screen,
    ):
        screen.press("hang\r")
        assert [marker.line(), marker.line()] == ["started", "called"]
        screen.until("own_hang()")
        screen.interrupt()
        screen.until("own_hang()  stopped", "> ")
        screen.press("go on\r")
        screen.until("Fine.", "> ")
        screen.press("half a line")
        screen.until("half a line")
        screen.interrupt()
        screen.until("press Ctrl-C again, or type /quit, to quit", "> ")
        screen.interrupt()
        assert screen.ended() == 130
        assert "Traceback" not in screen.plain
        assert screen.shows_cursor
    assert [asked.prompt for asked in provider.asked] == ["hang", "go on"]
    assert living_at(tmp_path) == set()


def test_ctrl_c_cancels_the_call_on_the_server(tmp_path: Path) -> None:
    def answer(asked: Asked) -> Turn:
        if asked.prompt == "hang":
            return [ToolCall("own_hang"), ToolCall("own_hangs")]
        return "It was." if asked.given and asked.given[-1].text == "1 1" else [ToolCall("own_hangs")]

    write_config(tmp_path, {"own": {"command": warm.python(), "args": [str(EVERYDAY), "stdio"]}})
    words = ("chat", "--approve", "never", "--model", MODEL)
    with Provider(answer) as provider, terminal(*words, folder=tmp_path, env=provider.environment) as screen:
        screen.until("> ")
        screen.press("hang\r")
        screen.until("own_hangs()  done in")
        screen.interrupt()
        screen.until("own_hang()  stopped", "> ")
        screen.press("Was it cancelled?\r")
        screen.until("It was.", "> ")


def test_ctrl_c_while_the_model_thinks_hangs_up(tmp_path: Path) -> None:
    came = threading.Event()

    def silent(asked: Asked) -> Turn:
        came.set()
        return Fault(hangs=True) if asked.prompt == "hang" else "Fine."

    with Provider(silent) as provider, dialog(tmp_path, provider) as screen:
        screen.press("hang\r")
        screen.until("thinking")
        assert came.wait(PATIENCE)
        screen.interrupt()
        screen.until("stopped", "> ")
        screen.press("go on\r")
        screen.until("Fine.", "> ")


def test_a_model_that_fails_does_not_end_the_dialog(tmp_path: Path) -> None:
    with Provider([Fault(401, "who are you?"), "Fine."]) as provider, dialog(tmp_path, provider) as screen:
        screen.press("hello\r")
        screen.until("toolbus: model 'gpt-5.1': ", "who are you?", "> ")
        screen.press("hello\r")
        screen.until("Fine.", "> ")
        screen.press("/quit\r")
        assert screen.ended() == 0


def test_the_progress_of_a_call_moves(tmp_path: Path) -> None:
    with (
        Fifo(tmp_path / "fifo") as fifo,
        Provider([[ToolCall("own_look")], "Seen."]) as provider,
        dialog(tmp_path, provider, steps={"look": 2}, control=fifo.path) as screen,
    ):
        screen.press("look\r")
        for step in (1, 2):
            screen.until(f"step number {step}")
            fifo.say("go")
        screen.until("own_look()  done in", "Seen.", "> ")


def test_commands_show_tools_and_servers_save_and_help(tmp_path: Path) -> None:
    with Provider(["Hello to you."]) as provider, dialog(tmp_path, provider) as screen:
        screen.press("hello\r")
        screen.until("Hello to you.", "> ")
        for line, *shown in (
            ("/tools", "own  ready", "own_look", "own_write"),
            ("/servers", "own  ready"),
            ("/help", "/tools", "/servers", "/save", "FILE: save the conversation", "/quit"),
            ("/tolls", "unknown command '/tolls'; did you mean /tools? /help lists the commands"),
            ("/qqqq", "unknown command '/qqqq'; /help lists the commands"),
            ("/save", "/save FILE: pass one file name"),
            ("/save toolbus.yaml", "'toolbus.yaml' already exists"),
            ("/save no/such/folder", "not saved: No such file or directory"),
            ("/save 'my chat.json'", "saved as my chat.json"),
            ("/save 'my chat.json'", "saved as my chat.json"),
        ):
            screen.press(f"{line}\r")
            screen.until(*shown, "> ")
        screen.press("/quit\r")
        assert screen.ended() == 0
    saved = json.loads((tmp_path / "work" / "my chat.json").read_text())
    assert [message["kind"] for message in saved] == ["request", "response"]
    assert len(provider.asked) == 1


def test_one_answer_on_a_terminal_streams_and_asks(tmp_path: Path) -> None:
    write_config(tmp_path, {"own": {**scripted(tmp_path, "own", **SCRIPT), "trust_annotations": True}})
    with Provider([Say("Writing.", [ToolCall("own_write", {"text": "x"})]), "Done."]) as provider:
        words = ("chat", "Write x.", "--model", MODEL)
        with terminal(*words, folder=tmp_path, env=provider.environment) as screen:
            screen.until("Writing.", ASKED)
            screen.press("y\r")
            screen.until('own_write(text="x")  done in', "Done.")
            assert screen.ended() == 0


def test_json_without_a_prompt_on_a_terminal_is_wrong_usage(tmp_path: Path) -> None:
    write_config(tmp_path, {"post": {"command": "python"}})
    with terminal("chat", "--json", folder=tmp_path) as screen:
        screen.until("--json needs a prompt; pass one, or pipe it in")
        assert screen.ended() == 2


def said(asked: Asked) -> list[Any]:
    """The user's words, as the model got them at that turn."""
    messages = [message["content"] for message in asked.body["input"] if message.get("role") == "user"]
    return [text if isinstance(text, str) else text[0]["text"] for text in messages]


def test_a_conversation_is_forgotten_and_taken_up_again(tmp_path: Path) -> None:
    with Provider(["A.", "B.", "C."]) as provider, dialog(tmp_path, provider) as screen:
        for line, shown in (
            ("One.", "A."),
            ("/save talk.json", "saved as talk.json"),
            ("/clear", "conversation cleared"),
            ("Two.", "B."),
            ("/load", "/load FILE: pass one file name"),
            ("/load none.json", "not loaded: No such file or directory: 'none.json'"),
            ("/load toolbus.yaml", "not loaded: 'toolbus.yaml' is not a saved conversation"),
            ("/load talk.json", "loaded 2 messages from talk.json"),
            ("Three.", "C."),
        ):
            screen.press(f"{line}\r")
            screen.until(shown, "> ")
        screen.press("/quit\r")
        assert screen.ended() == 0
    assert [said(asked) for asked in provider.asked] == [["One."], ["Two."], ["One.", "Three."]]


def test_another_model_is_told_what_was_said(tmp_path: Path) -> None:
    with Provider(["A.", "B."]) as provider, dialog(tmp_path, provider) as screen:
        for line, shown in (
            ("One.", "A."),
            ("/model nobody:knows", "model 'nobody:knows': unknown; name it as provider:model"),
            ("/model", f"{MODEL}; switch with /model NAME"),
            ("/model openai:gpt-5", "switched to openai:gpt-5"),
            ("Two.", "B."),
        ):
            screen.press(f"{line}\r")
            screen.until(shown, "> ")
        screen.press("/quit\r")
        assert screen.ended() == 0
    assert [asked.model for asked in provider.asked] == ["gpt-5.1", "gpt-5"]
    assert said(provider.asked[1]) == ["One.", "Two."]


def test_a_prompt_of_a_server_is_a_command(tmp_path: Path) -> None:
    tone = {"name": "tone", "required": True, "description": "How."}
    reply = {"name": "reply", "description": "Write a reply.", "arguments": [tone, {"name": "to"}]}
    with Provider(["A.", "B."]) as provider, dialog(tmp_path, provider, prompts=[reply]) as screen:
        for line, shown in (
            ("/help", "/reply tone= [to=]  Write a reply."),
            ("/repyl", "unknown command '/repyl'; did you mean /reply?"),
            ("/reply tne=kind", "tne: no such argument; did you mean 'tone'?"),
            ("/reply kind", "'kind' is not KEY=VALUE"),
            ("/reply tone='very kind' to=Ann", "A."),
        ):
            screen.press(f"{line}\r")
            screen.until(shown, "> ")
        screen.press("/own/reply\r")
        screen.until("tone (How.): ")
        screen.press("rude\r")
        screen.until("B.", "> ")
        screen.press("/quit\r")
        assert screen.ended() == 0
    kind, rude = '{"tone": "very kind", "to": "Ann"}', '{"tone": "rude"}'
    assert said(provider.asked[1]) == [kind, rude]
