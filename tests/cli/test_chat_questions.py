"""A server asks in the middle of a turn of `toolbus chat`: the person answers, says no, or stops the turn."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.cli.running import Fifo, living_at, scripted, toolbus, write_config
from tests.cli.terminal import Terminal, terminal
from tests.conftest import sampled
from tests.wire import Provider, Say, ToolCall, Turn

MODEL = "openai:gpt-5.1"
ASKING = str(Path(__file__).parents[1] / "servers" / "asking.py")
DATE = "Date (required, a date, such as 2026-01-31): "
UNASKED = ("--approve", "never")
BOOK = ToolCall("inn_book", {"guest": "Ann"})


either_era = pytest.mark.parametrize("entry", ["modern", "legacy"], indirect=True)


@pytest.fixture(params=sampled(["modern", "legacy"], "modern"))
def entry(request: pytest.FixtureRequest) -> dict[str, Any]:
    """A server that asks, of either era."""
    return {"command": warm.python(), "args": [ASKING, "stdio"], "era": request.param}


@contextmanager
def dialog(home: Path, provider: Provider, entry: dict[str, Any], *words: str) -> Generator[Terminal]:
    """A chat in which "book" was said."""
    folder = home / "work"
    folder.mkdir()
    write_config(folder, {"inn": entry})
    with terminal("chat", "--model", MODEL, *words, folder=folder, env=provider.environment) as screen:
        screen.until("/help lists the commands", "> ")
        screen.press("book\r")
        yield screen


def given(provider: Provider) -> list[str]:
    """The model's results of its calls, at its last turn."""
    return [result.text for result in provider.asked[-1].given]


@either_era
def test_a_form_is_filled_in_after_the_call_was_allowed(tmp_path: Path, entry: dict[str, Any]) -> None:
    turns: list[Turn] = [Say("Let me see.", [BOOK]), "Booked."]
    with Provider(turns) as provider, dialog(tmp_path, provider, entry) as screen:
        screen.until("Let me see.", "[a]lways in this chat, [n]o: ")
        screen.press("y\r")
        shown = screen.until("server 'inn' asks, for its tool 'book':", "When does Ann come?", DATE)
        assert "Ctrl-D or /decline to decline, Ctrl-C to stop the turn" in shown
        assert screen.shows_cursor
        screen.press("soon\r")
        screen.until("'date' must be a date", DATE)
        screen.press("2026-01-31\r")
        for prompt in ("[2]: ", "[inside]: ", "[no]: ", "[Y/n]: "):
            screen.until(prompt)
            screen.press("\r")
        screen.until('inn_book(guest="Ann")  done in', "Booked.", "> ")
        screen.press("/quit\r")
        assert screen.ended() == 0
        assert screen.shows_cursor
    assert given(provider) == ["Ann: 2026-01-31, 2, inside, quiet False"]
    assert living_at(tmp_path) == set()


def test_ctrl_d_declines_and_the_turn_goes_on(tmp_path: Path, entry: dict[str, Any]) -> None:
    with Provider([[BOOK], "A pity."]) as provider, dialog(tmp_path, provider, entry, *UNASKED) as screen:
        screen.until(DATE)
        screen.press("\x04")
        screen.until("A pity.", "> ")
    assert given(provider) == ["not booked: decline"]


@either_era
def test_ctrl_c_stops_the_turn_and_the_server_is_asked_again_later(
    tmp_path: Path, entry: dict[str, Any]
) -> None:
    answers: list[Turn] = [[BOOK], [BOOK], "A pity."]
    with Provider(answers) as provider, dialog(tmp_path, provider, entry, *UNASKED) as screen:
        screen.until(DATE)
        screen.press("\x03")
        screen.until('inn_book(guest="Ann")  stopped', "stopped; this turn is forgotten", "> ")
        screen.press("again\r")
        screen.until(DATE)
        screen.press("/decline\r")
        screen.until("A pity.", "> ")
        screen.press("\x04")
        assert screen.ended() == 0
        assert "Traceback" not in screen.plain
    assert given(provider)[-1] == "not booked: decline"
    assert living_at(tmp_path) == set()


def test_two_questions_at_a_time_are_asked_one_after_the_other(tmp_path: Path, entry: dict[str, Any]) -> None:
    pay = [ToolCall("inn_pay", {"url": f"https://pay.example/{number}"}) for number in (1, 2)]
    with Provider([pay, "Paid."]) as provider, dialog(tmp_path, provider, entry, *UNASKED) as screen:
        for answer in ("y\r", "n\r"):
            screen.until("Did you open it and finish there? [y/N]: ")
            screen.press(answer)
        screen.until("Paid.", "> ")
    assert sorted(given(provider)) == ["payment: accept", "payment: decline"]


def test_a_question_whose_server_is_gone_is_taken_back(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    asks = {"ask": {"message": "Who?", "requestedSchema": schema}}
    with Fifo(tmp_path / "fifo") as fifo, Provider([[ToolCall("inn_ask")], "Gone."]) as provider:
        entry = scripted(tmp_path, "inn", tools=[{"name": "ask"}], asks=asks, control=fifo.path)
        with dialog(tmp_path, provider, entry, *UNASKED) as screen:
            screen.until("name: ")
            fifo.say("die")
            screen.until("the server no longer waits for an answer", "Gone.", "> ")
    assert "the connection was lost" in given(provider)[0]


def test_without_a_terminal_the_model_is_told_that_nobody_can_be_asked(
    tmp_path: Path, entry: dict[str, Any]
) -> None:
    write_config(tmp_path, {"inn": entry})
    with Provider([[BOOK], "I cannot."]) as provider:
        words = ("chat", "book", "--model", MODEL, "--approve", "never")
        run = toolbus(*words, folder=tmp_path, env=provider.environment)
    assert (run.returncode, run.stdout) == (0, "I cannot.\n")
    (told,) = given(provider)
    assert "tool 'book' asks the user: When does Ann come?" in told
