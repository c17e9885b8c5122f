"""A server asks in the middle of a call: a form or an address, on a terminal, and where there is none."""

import json
import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.cli.running import Fifo, living_at, scripted, together, toolbus, write_config
from tests.cli.terminal import Terminal, terminal
from tests.conftest import sampled

ASKING = str(Path(__file__).parents[1] / "servers" / "asking.py")
DATE = "Date (required, a date, such as 2026-01-31): "
SEATS = "Seats (a whole number, 1 to 8) [2]: "
PLACE = "Place (one of these) [inside]: "
QUIET = "Quiet (yes or no) [no]: "
SEND = "send this? [Y/n]: "
VISITED = "Did you open it and finish there? [y/N]: "
EVIL = "x\x1b[2J\x1b]0;owned\x07y"


either_era = pytest.mark.parametrize("folder", ["modern", "legacy"], indirect=True)


@pytest.fixture(params=sampled(["modern", "legacy"], "modern"))
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with a server that asks, of either era."""
    folder = tmp_path / "work"
    folder.mkdir()
    server = {"command": warm.python(), "args": [ASKING, "stdio"], "era": request.param}
    write_config(folder, {"inn": server})
    return folder


@contextmanager
def asked(home: Path, *words: str, **script: Any) -> Generator[Terminal]:
    """A call on a terminal of a server whose tool `ask` asks what the script says."""
    folder = home / "work"
    folder.mkdir()
    write_config(folder, {"own": scripted(folder, "own", tools=[{"name": "ask"}], **script)})
    with terminal("call", "own_ask", *words, folder=folder) as screen:
        yield screen


def form(**properties: Any) -> dict[str, Any]:
    required = [name for name, spec in properties.items() if spec.pop("required", False)]
    schema = {"type": "object", "properties": properties, "required": required}
    return {"asks": {"ask": {"message": "Tell me.", "requestedSchema": schema}}}


def said(screen: Terminal) -> dict[str, Any]:
    """The answer that the server got; it returns that."""
    assert screen.ended() == 0
    return json.loads(screen.plain[screen.plain.rindex('{"action"') :])


@either_era
def test_a_form_is_filled_in_field_by_field_and_seen_before_it_is_sent(folder: Path) -> None:
    with terminal("call", "inn_book", "guest=Ann", folder=folder) as screen:
        shown = screen.until(
            "inn_book  0:00:0", "server 'inn' asks, for its tool 'book':", "When does Ann come?", DATE
        )
        assert "Ctrl-D or /decline to decline, Ctrl-C to cancel" in shown
        assert screen.shows_cursor
        for typed, *then in (
            ("soon", "'date' must be a date", DATE),
            ("", "'date' is required", DATE),
            ("2026-01-31", "For how many?", SEATS),
            ("many", "'seats' must be a number", SEATS),
            ("9", "'seats' must be at most 8", SEATS),
            ("3", "1  inside", "2  terrace", PLACE),
            ("2", QUIET),
            ("y", "Date   2026-01-31", "Seats  3", "Place  terrace", "Quiet  yes", SEND),
        ):
            screen.press(f"{typed}\r")
            screen.until(*then)
        assert screen.shows_cursor
        screen.press("\r")
        # What moved before moves again, until the result is there.
        screen.until("inn_book", "Ann: 2026-01-31, 3, terrace, quiet True")
        assert screen.ended() == 0
        assert screen.shows_cursor


def test_enter_takes_what_is_in_brackets(folder: Path) -> None:
    with terminal("call", "inn_book", "guest=Ann", folder=folder) as screen:
        for prompt, typed in ((DATE, "2026-01-31"), (SEATS, ""), (PLACE, ""), (QUIET, ""), (SEND, "")):
            screen.until(prompt)
            screen.press(f"{typed}\r")
        screen.until("Ann: 2026-01-31, 2, inside, quiet False")
        assert screen.ended() == 0


@either_era
@pytest.mark.parametrize(
    ("keys", "action"), [("\x04", "decline"), ("/decline\r", "decline"), ("\x03", "cancel")]
)
def test_a_person_may_say_no_or_walk_away(folder: Path, keys: str, action: str) -> None:
    with terminal("call", "inn_book", "guest=Ann", folder=folder) as screen:
        screen.until(DATE)
        screen.press(keys)
        screen.until(f"not booked: {action}")
        assert screen.ended() == 0
        assert "Traceback" not in screen.plain
    assert living_at(folder.parent) == set()


def test_no_to_what_was_filled_in_declines(folder: Path) -> None:
    with terminal("call", "inn_book", "guest=Ann", folder=folder) as screen:
        for prompt, typed in ((DATE, "2026-01-31"), (SEATS, ""), (PLACE, ""), (QUIET, ""), (SEND, "n")):
            screen.until(prompt)
            screen.press(f"{typed}\r")
        screen.until("not booked: decline")
        assert screen.ended() == 0


@pytest.mark.parametrize(("typed", "action"), [("y", "accept"), ("", "decline")])
def test_an_address_is_shown_whole_and_never_opened(folder: Path, typed: str, action: str) -> None:
    address = "https://pay.example:8443/1?a=b"
    with terminal("call", "inn_pay", f"url={address}", folder=folder) as screen:
        screen.until("server 'inn' asks, for its tool 'pay':", "Pay there.", address, VISITED)
        assert "https://\x1b[1;7mpay.example:8443\x1b[0m/1?a=b" in screen.raw
        screen.press("perhaps\r")
        screen.until(VISITED)
        screen.press(f"{typed}\r")
        screen.until(f"payment: {action}")
        assert screen.ended() == 0


@either_era
def test_without_a_terminal_the_question_is_an_error_that_says_what_to_do(folder: Path) -> None:
    run = toolbus("call", "inn_book", "guest=Ann", folder=folder)
    assert (run.returncode, run.stdout) == (1, "")
    message = (
        "server 'inn': tool 'book' asks the user: When does Ann come?; run it on a terminal to answer, "
        "or answer later with --on-input suspend (modern servers only)"
    )
    assert run.stderr == f"toolbus: {message}\n"
    with terminal("call", "inn_book", "guest=Ann", "--json", folder=folder) as screen:
        screen.until('"type": "InputNeeded"')
        assert screen.ended() == 1
        assert "Date" not in screen.plain


def test_every_command_declares_the_same_and_so_sees_the_same_tools(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    write_config(folder, {"own": scripted(folder, "own", lists_declared=True)})
    commands = {
        "tools": ("tools", "--json"),
        "call": ("call", "own_for_elicitation_extensions"),
        "suspending": ("call", "own_for_elicitation_extensions", "--on-input", "suspend"),
        "check": ("check", "--json"),
    }
    runs = together(commands, folder)
    assert {name: run.returncode for name, run in runs.items()} == dict.fromkeys(commands, 0)
    assert "own_for_elicitation_extensions" in runs["tools"].stdout
    with terminal("call", "own_for_elicitation_extensions", folder=folder) as screen:
        assert screen.ended() == 0


def test_every_kind_of_field_is_read_as_what_it_is(tmp_path: Path) -> None:
    titled = [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]
    asks = form(
        mail={"type": "string", "format": "email", "title": "E-mail", "required": True},
        ratio={"type": "number", "minimum": 0.5},
        size={"type": "string", "oneOf": titled, "description": "How\nlarge?"},
        tags={"type": "array", "items": {"enum": ["a", "b", "c"]}, "default": ["a"], "maxItems": 2},
        note={"type": "string", "maxLength": 5},
    )
    with asked(tmp_path, **asks) as screen:
        for typed, *shown in (
            ("ann@example.org", "E-mail (required, an e-mail address): "),
            ("0.75", "ratio (a number, at least 0.5): "),
            ("large", "size: How large?", "1  Small (s)", "2  Large (l)", "size (one of these): "),
            ("a,b,c", "1  a", "tags (some of these, comma-separated, at most 2 of them) [a]: "),
            ("1, c", "must have at most 2 of them", ") [a]: "),
            ("", "note (at most 5 characters): "),
            ("yes", "E-mail  ann@example.org", "size    Large", "tags    a, c", "send this? [Y/n]: "),
        ):
            screen.until(*shown)
            screen.press(f"{typed}\r")
        content = {"mail": "ann@example.org", "ratio": 0.75, "size": "l", "tags": ["a", "c"]}
        assert said(screen) == {"action": "accept", "content": content}


def test_one_field_is_sent_at_once_and_none_wants_a_word(tmp_path: Path) -> None:
    with asked(tmp_path, **form(name={"type": "string", "required": True})) as screen:
        screen.until("server 'own' asks, for its tool 'ask':", "Tell me.", "name (required): ")
        screen.press("Ann Lee \r")
        assert said(screen) == {"action": "accept", "content": {"name": "Ann Lee "}}
    (tmp_path / "none").mkdir()
    with asked(tmp_path / "none", **form()) as screen:
        screen.until("accept? [y/n]: ")
        screen.press("\r")
        screen.until("accept? [y/n]: ")
        screen.press("n\r")
        assert said(screen) == {"action": "decline"}


def test_what_a_server_writes_is_shown_as_its_words_and_not_obeyed(tmp_path: Path) -> None:
    asks = form(name={"type": "string", "title": f"Na{EVIL}\nme", "default": EVIL, "description": EVIL})
    asks["asks"]["ask"]["message"] = f"{EVIL}\nsend this? [Y/n]: "
    with asked(tmp_path, **asks) as screen:
        shown = screen.until("Na", "\\x07y]: ")
        assert "\r\n  send this? [Y/n]: \r\n" in shown, "it looks like a question of ours"
        assert "[x\\x1b[2J\\x1b]0;owned\\x07y]: " in shown
        screen.press("\x04")
        assert said(screen) == {"action": "decline"}
        assert "\x1b[2J" not in screen.raw
        assert "\x1b]0;owned" not in screen.raw


def test_words_typed_ahead_do_not_answer(tmp_path: Path) -> None:
    with Fifo(tmp_path / "fifo") as fifo:
        folder = tmp_path / "work"
        folder.mkdir()
        asks = form(name={"type": "string", "required": True})
        script = scripted(folder, "own", tools=[{"name": "ask"}], steps={"ask": 1}, control=fifo.path, **asks)
        write_config(folder, {"own": script})
        with terminal("call", "own_ask", folder=folder) as screen:
            screen.until("step number 1")
            screen.press("too early\r")
            screen.until("too early")
            fifo.say("go")
            screen.until("name (required): ")
            screen.press("in time\r")
            assert said(screen)["content"] == {"name": "in time"}


def test_a_question_whose_server_is_gone_is_taken_back(tmp_path: Path) -> None:
    with (
        Fifo(tmp_path / "fifo") as fifo,
        asked(tmp_path, control=fifo.path, **form(name={"type": "string"})) as screen,
    ):
        screen.until("name: ")
        fifo.say("die")
        screen.until("the server no longer waits for an answer", "the connection was lost")
        assert screen.ended() == 1
        assert screen.shows_cursor


def test_a_closed_terminal_or_sigterm_at_a_question_ends_all(tmp_path: Path) -> None:
    with asked(tmp_path, **form(name={"type": "string"})) as screen:
        screen.until("name: ")
        os.kill(screen.process.pid, signal.SIGTERM)
        assert screen.ended() == 143
        assert "Traceback" not in screen.plain
    assert living_at(tmp_path) == set()


def test_a_question_that_a_rule_denies_is_declined_without_a_terminal(folder: Path) -> None:
    rule = {"requests": "inn/elicitation", "do": "deny", "reason": "no forms"}
    server = json.loads((folder / "toolbus.yaml").read_text())["servers"]["inn"]
    write_config(folder, {"inn": server}, policy=[rule])
    done = toolbus("call", "inn_book", "guest=Ann", folder=folder)
    assert (done.returncode, done.stdout.strip()) == (0, "not booked: decline")
    reason = "its elicitation request was refused: rule policy[0] denies it: no forms"
    assert done.stderr.strip() == f"warning: server 'inn': {reason}"
