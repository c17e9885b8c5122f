"""The policy's question on the terminal, its possible answers, and the effect without a terminal."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Done, scripted, toolbus, write_config
from tests.cli.terminal import Terminal, terminal
from tests.inside.audit import Query, read_events
from tests.wire import Provider, ToolCall, Turn

EVIL = "x\x1b[2J\x1b]0;owned\x07y"
SHOWN = '"text": "x\\u001b[2J\\u001b]0;owned\\u0007y"'
LONG = "z" * 5000
ONE_CALL = "run it? [y]es once, [a]lways until it changes, [n]o, ne[v]er: "
IN_CHAT = "run it? [y]es once, [s]ession, [a]lways until it changes, [n]o, ne[v]er: "
BY_OPTION = "run it? [y]es once, [a]lways in this chat, [n]o: "
REFUSED = "tool 'own_write' was refused: "
MODEL = "openai:gpt-5.1"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project whose policy asks about one tool, and denies another."""
    folder = tmp_path / "work"
    folder.mkdir()
    tools = [{"name": "write"}, {"name": "drop"}]
    policy = [
        {"tools": "own/drop", "do": "deny", "reason": "use the web page"},
        {"tools": "own/write", "do": "ask", "reason": "look at the text"},
    ]
    write_config(folder, {"own": scripted(folder, "own", tools=tools)}, policy=policy, audit="audit.jsonl")
    return folder


def asked(screen: Terminal, prompt: str = ONE_CALL) -> str:
    """Wait for the question."""
    return screen.until("own_write of server own", "rule policy[1] asks: look at the text", prompt)


def decided(folder: Path) -> list[tuple[str, str]]:
    events = read_events(folder / "audit.jsonl", Query())
    return [(event["decision"], event["by"]) for event in events if event["event"] == "decided"]


def write(folder: Path, *words: str) -> Done:
    return toolbus("call", "own_write", "text=tea", *words, folder=folder)


def test_the_whole_call_is_shown_as_it_will_be_sent(folder: Path) -> None:
    given = json.dumps({"text": EVIL, "more": LONG})
    with terminal("call", "own_write", "--args", given, folder=folder) as screen:
        shown = asked(screen)
        assert SHOWN in shown
        assert LONG in shown.replace("\r", "").replace("\n", "")
        screen.press("perhaps\n")
        screen.until("answer y, a, n or v", ONE_CALL)
        screen.press("y\n")
        assert screen.ended() == 0
        assert "\x1b[2J" not in screen.raw
        assert "\x1b]0;owned" not in screen.raw
    assert decided(folder) == [("allow", "terminal")]


@pytest.mark.parametrize("keys", ["n\n", "\x04"])
def test_no_and_ctrl_d_refuse_one_call(folder: Path, keys: str) -> None:
    with terminal("call", "own_write", "text=tea", folder=folder, width=200) as screen:
        asked(screen)
        screen.press(keys)
        screen.until("tool 'own_write' was not run: you declined it")
        assert "do not repeat" not in screen.raw
        assert screen.ended() == 1
    assert decided(folder) == [("deny", "terminal")]


def test_always_is_stored_until_the_tool_changes(folder: Path) -> None:
    with terminal("call", "own_write", "text=tea", folder=folder) as screen:
        asked(screen)
        screen.press("a\n")
        assert screen.ended() == 0
    assert write(folder).returncode == 0
    assert decided(folder) == [("allow", "terminal"), ("allow", "stored answer")]
    explained = toolbus("policy", "own_write", folder=folder).stdout
    assert explained.startswith("own/write: allowed: you answered always on 20")
    assert "asks" not in toolbus("tools", folder=folder).stdout
    changed = [{"name": "write", "description": "Writes, and deletes."}, {"name": "drop"}]
    scripted(folder, "own", tools=changed)
    done = write(folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"toolbus: {REFUSED}rule policy[1] asks a person")
    assert "expired: its definition has changed" in toolbus("policy", folder=folder).stdout
    explained = toolbus("policy", "own_write", folder=folder).stdout
    assert explained.startswith("own/write: policy[1] asks a person: look at the text")
    assert "asks" in toolbus("tools", folder=folder).stdout


def test_never_is_stored(folder: Path) -> None:
    with terminal("call", "own_write", "text=tea", folder=folder) as screen:
        asked(screen)
        screen.press("v\n")
        assert screen.ended() == 1
    done = write(folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert "answered 'never'" in done.stderr
    assert decided(folder) == [("deny", "terminal"), ("deny", "stored answer")]
    explained = toolbus("policy", "own_write", folder=folder).stdout
    assert explained.startswith("own/write: denied: you answered never on 20")
    listed = toolbus("tools", folder=folder).stdout
    assert ["own_write", "never"] in [line.split() for line in listed.splitlines()]


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_without_a_terminal_the_call_is_refused_in_one_line(folder: Path, words: list[str]) -> None:
    done = write(folder, *words)
    reason = "rule policy[1] asks a person, and nobody can be asked here"
    step = "run it on a terminal to answer, or answer later with --on-input suspend"
    assert done.returncode == 1
    assert done.stderr == f"toolbus: {REFUSED}{reason}; {step}\n"
    if words:
        error: dict[str, Any] = json.loads(done.stdout)["error"]
        assert error == {"type": "CallDenied", "message": f"{REFUSED}{reason}; {step}"}


def test_a_denied_tool_is_refused_with_its_reason(folder: Path) -> None:
    for _ in range(2):  # the second time, the list of tools is cached
        done = toolbus("call", "own_drop", folder=folder)
        reason = "rule policy[0] denies it: use the web page"
        assert (done.returncode, done.stderr) == (1, f"toolbus: tool 'own_drop' was refused: {reason}\n")
    assert decided(folder) == [("deny", "policy")] * 2


def test_a_suspended_call_is_approved_in_another_process(folder: Path) -> None:
    pending = write(folder, "--on-input", "suspend")
    assert pending.returncode == 0
    (folder / "pending.json").write_text(pending.stdout)
    unasked = toolbus("call", "--resume", "pending.json", folder=folder)
    assert (unasked.returncode, unasked.stdout) == (2, "")
    assert "answer with answer=once" in unasked.stderr
    with terminal("call", "--resume", "pending.json", folder=folder) as screen:
        assert '"text": "tea"' in asked(screen)
        screen.press("y\n")
        assert screen.ended() == 0
        assert '{"text": "tea"}' in screen.plain
    refused = toolbus("call", "--resume", "pending.json", "answer=no", folder=folder)
    assert refused.returncode == 1
    assert [decision for decision, _ in decided(folder)] == ["allow", "deny"]


def test_another_call_is_not_approved_by_the_answer_to_a_suspended_one(folder: Path) -> None:
    """The call is refused: it is not the one that was asked about."""
    document = json.loads(write(folder, "--on-input", "suspend").stdout)
    document["pending"]["arguments"] = {"text": "poison"}
    (folder / "pending.json").write_text(json.dumps(document))
    done = toolbus("call", "--resume", "pending.json", "answer=once", folder=folder)
    assert done.returncode == 1
    assert "the call is not the one that was approved" in done.stderr


def test_a_chat_asks_with_the_same_words(folder: Path) -> None:
    call: Turn = [ToolCall("own_write", {"text": EVIL, "more": LONG})]
    script: list[Turn] = [call, "One.", call, "Two.", call, "Three."]
    with (
        Provider(script) as provider,
        terminal(
            "chat", "--model", MODEL, "--approve", "never", folder=folder, env=provider.environment
        ) as screen,
    ):
        screen.until("/help lists the commands", "> ")
        for keys, said in (("n", "One."), ("s", "Two.")):
            screen.press("write\r")
            shown = asked(screen, IN_CHAT)
            assert SHOWN in shown
            assert LONG in shown.replace("\r", "").replace("\n", "")
            screen.press(f"{keys}\r")
            screen.until("not run" if keys == "n" else "done in", said, "> ")
        screen.press("write\r")
        assert IN_CHAT not in screen.until("done in", "Three.", "> ")
        screen.press("/quit\r")
        assert screen.ended() == 0
    told = [given.text for given in provider.asked[-1].given]
    assert "a person did not allow it" in told[0]
    assert decided(folder) == [("deny", "agent"), ("allow", "agent"), ("allow", "session answer")]


def test_a_lasting_answer_in_a_chat_settles_the_other_calls_of_the_turn(folder: Path) -> None:
    calls: Turn = [ToolCall("own_write", {"text": text}) for text in ("tea", "milk", "ink")]
    with (
        Provider([calls, "Done."]) as provider,
        terminal("chat", "--model", MODEL, folder=folder, env=provider.environment) as screen,
    ):
        screen.until("/help lists the commands", "> ")
        screen.press("write\r")
        asked(screen, IN_CHAT)
        screen.press("s\r")
        assert "run it?" not in screen.until("Done.", "> ")
        screen.press("/quit\r")
        assert screen.ended() == 0
    assert [decision for decision, _ in decided(folder)] == ["allow"] * 3


def test_a_chat_asks_once_about_what_both_ask_about(folder: Path) -> None:
    call: Turn = [ToolCall("own_write", {"text": "tea"})]
    with (
        Provider([call, "One.", call, "Two."]) as provider,
        terminal("chat", "--model", MODEL, folder=folder, env=provider.environment) as screen,
    ):
        screen.until("/help lists the commands", "> ")
        screen.press("write\r")
        asked(screen, IN_CHAT)
        screen.press("a\r")
        assert BY_OPTION not in screen.until("done in", "One.", "> ")
        screen.press("write\r")
        shown = screen.until("done in", "Two.", "> ")
        assert "run it?" not in shown
        screen.press("/quit\r")
        assert screen.ended() == 0


def test_a_chat_without_a_terminal_says_that_a_rule_asks(folder: Path) -> None:
    call: Turn = [ToolCall("own_write", {"text": "tea"})]
    with Provider([call, "Done."]) as provider:
        done = toolbus("chat", "--model", MODEL, "Go.", folder=folder, env=provider.environment)
        assert "there is no terminal to ask for approval" in provider.asked[-1].given[-1].text
    assert done.returncode == 0
    assert "own_write was not run: there is no terminal to ask for approval" in done.stderr
    assert "rule policy[1]" in done.stderr
