"""`toolbus call --on-input suspend` and `--resume`: a call begun in one process, ended in another."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.cli.running import Done, together, toolbus, write_config
from tests.cli.terminal import terminal

ASKING = str(Path(__file__).parents[1] / "servers" / "asking.py")
DATE = "Date (required, a date, such as 2026-01-31): "
FIELDS = [
    "  date   required, a date, such as 2026-01-31: Which day?",
    "  seats  optional, a whole number, 1 to 8, default 2: For how many?",
    "  place  optional, inside or terrace, default inside",
    "  quiet  optional, yes or no, default no",
]
WAITS = "server 'inn' waits for an answer: When does Ann come?"
COMMANDS = {
    "values": ["call", "--resume", "call.json", "date=2026-01-31", "place=2"],
    "json": ["call", "--resume", "call-json.json", "date=2026-01-31", "--json"],
    "decline": ["call", "--resume", "call.json", "--decline"],
    "cancel": ["call", "--resume", "call.json", "--cancel"],
    "address": ["call", "--resume", "pay.json", "--accept"],
    "nothing": ["call", "--resume", "call.json"],
    "incomplete": ["call", "--resume", "call.json", "seats=3"],
    "defaults": ["call", "--resume", "call.json", "--accept", "--json"],
    "misspelt": ["call", "--resume", "call.json", "seat=3"],
    "mistyped": ["call", "--resume", "call.json", "date=soon"],
    "twice": ["call", "--resume", "call.json", "seats=3", "seats=4"],
    "both": ["call", "--resume", "call.json", "seats=3", "--cancel"],
    "two actions": ["call", "--resume", "call.json", "--accept", "--cancel"],
    "filled address": ["call", "--resume", "pay.json", "a=b"],
    "two questions": ["call", "--resume", "twice.json", "date=2026-01-31"],
    "odd": ["call", "--resume", "odd.json", "--cancel"],
    "no file": ["call", "--resume", "none.json"],
    "no call": ["call", "--resume", "toolbus.yaml"],
    "odd call": ["call", "--resume", "damaged.json"],
    "other config": ["call", "--resume", "call.json", "--cancel", "--config", "other.json"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with calls that wait, each in its file."""
    folder = tmp_path_factory.mktemp("home") / "work"
    folder.mkdir()
    entry: dict[str, Any] = {"command": warm.python(), "args": [ASKING, "stdio"], "era": "modern"}
    write_config(folder, {"inn": entry, "old": {**entry, "era": "legacy"}})
    (folder / "other.json").write_text(json.dumps({"servers": {"in": entry}}))
    suspend = ["--on-input", "suspend"]
    runs = together(
        {
            "call": ["call", "inn_book", "guest=Ann", *suspend],
            "call-json": ["call", "inn_book", "guest=Ann", "--json", *suspend],
            "pay": ["call", "inn_pay", *suspend],
            "twice": ["call", "inn_twice", "guest=Bo", *suspend],
        },
        folder,
    )
    for name, run in runs.items():
        assert run.returncode == 0
        (folder / f"{name}.json").write_text(run.stdout)
    assert runs["call"].stderr == f"{WAITS}; to answer, run: toolbus call --resume FILE\n"
    assert runs["call-json"].stderr == ""
    odd = json.loads(runs["call"].stdout)
    (request,) = odd["pending"]["requests"].values()
    request["params"]["requestedSchema"]["properties"]["all"] = {"type": "object"}
    (folder / "odd.json").write_text(json.dumps(odd))
    damaged = json.loads(runs["call"].stdout)
    damaged["pending"]["requests"] = {"key": {"method": "elicitation/create"}}  # and no message
    (folder / "damaged.json").write_text(json.dumps(damaged))
    return folder


@pytest.fixture(scope="module")
def runs(folder: Path) -> dict[str, Done]:
    return together(COMMANDS, folder)


def test_a_suspended_call_is_json_alone_or_in_the_document(folder: Path) -> None:
    alone = json.loads((folder / "call.json").read_text())["pending"]
    document = json.loads((folder / "call-json.json").read_text())
    assert (alone["server"], alone["tool"], alone["arguments"]) == ("inn", "book", {"guest": "Ann"})
    assert (document["name"], document["is_error"], document["text"]) == ("inn_book", False, WAITS)
    assert document["pending"] == {**alone, "state": document["pending"]["state"]}


def test_another_process_answers_and_has_the_result(runs: dict[str, Done]) -> None:
    run = runs["values"]
    assert (run.returncode, run.stdout, run.stderr) == (0, "Ann: 2026-01-31, 2, terrace, quiet False\n", "")
    told = json.loads(runs["json"].stdout)
    assert (told["name"], told["text"]) == ("inn_book", "Ann: 2026-01-31, 2, inside, quiet False")
    assert "pending" not in told


def test_no_and_no_answer_are_options(runs: dict[str, Done]) -> None:
    assert runs["decline"].stdout == "not booked: decline\n"
    assert runs["cancel"].stdout == "not booked: cancel\n"
    assert runs["address"].stdout == "payment: accept\n"


@pytest.mark.parametrize(
    ("name", "message", "lines"),
    [
        ("nothing", f"{WAITS}; answer with KEY=VALUE, --accept, --decline or --cancel", FIELDS),
        ("incomplete", "'date' is required", FIELDS),
        ("defaults", "'date' is required", FIELDS),
        ("misspelt", "seat: no such field; did you mean 'seats'?", []),
        ("mistyped", "'date' must be a date, such as 2026-01-31", FIELDS),
        ("twice", "seats is given twice; keep one", []),
        ("both", "KEY=VALUE and --cancel cannot be combined; keep one", []),
        ("two actions", "--accept and --cancel cannot be combined; keep one", []),
        (
            "filled address",
            "the server asks you to visit a URL, not to fill in a form; pass --accept when done",
            [],
        ),
        ("two questions", "the call asks 2 questions; answer them on a terminal", []),
        ("no file", "FILE: cannot read 'none.json': No such file or directory; check the path", []),
        ("other config", "server 'inn': unknown server; did you mean 'in'?", []),
    ],
)
def test_what_cannot_be_answered_so_says_why_and_nothing_is_sent(
    runs: dict[str, Done], name: str, message: str, lines: list[str]
) -> None:
    assert runs[name].stderr.splitlines() == [f"toolbus: {message}", *lines]
    assert runs[name].returncode == 2


def test_what_is_no_call_or_asks_nonsense_is_refused(runs: dict[str, Done]) -> None:
    for name, file in (("no call", "toolbus.yaml"), ("odd call", "damaged.json")):
        told = (
            f"toolbus: {file!r} is not a suspended call; create one with 'toolbus call --on-input suspend'\n"
        )
        assert (runs[name].returncode, runs[name].stderr) == (2, told)
    assert runs["odd"].returncode == 1
    assert runs["odd"].stderr.startswith("toolbus: server 'inn': the form is invalid: 'all'")
    assert runs["odd"].stderr.endswith("; the call cannot be answered\n")


def test_a_call_is_read_from_stdin(folder: Path) -> None:
    call = (folder / "call.json").read_text()
    run = toolbus("call", "--resume", "-", "date=2026-01-31", folder=folder, input=call)
    assert (run.returncode, run.stdout) == (0, "Ann: 2026-01-31, 2, inside, quiet False\n")


def test_a_server_of_the_legacy_era_cannot_be_left_waiting(folder: Path) -> None:
    run = toolbus("call", "old_book", "guest=Ann", "--on-input", "suspend", folder=folder)
    assert (run.returncode, run.stdout) == (1, "")
    assert "run it on a terminal to answer, or answer later with --on-input suspend" in run.stderr


def test_on_a_terminal_every_question_is_asked(folder: Path) -> None:
    with terminal("call", "--resume", "twice.json", folder=folder) as screen:
        screen.until("When does Bo come?", "Ctrl-C to answer later", DATE)
        assert "starting" not in screen.plain, "nobody need wait for the person"
        screen.press("2026-01-31\r")
        for prompt in ("[2]: ", "[inside]: ", "[no]: ", "[Y/n]: "):
            screen.until(prompt)
            screen.press("\r")
        screen.until("Is Bo sure?", "Yes (required, yes or no): ")
        screen.press("yes\r")
        screen.until("Bo: 2026-01-31, sure True")
        assert screen.ended() == 0


def test_ctrl_c_leaves_the_call_for_later(folder: Path) -> None:
    with terminal("call", "--resume", "call.json", folder=folder) as screen:
        screen.until(DATE)
        screen.press("\x03")
        screen.until("nothing was sent; the call is still waiting")
        assert screen.ended() == 130
    assert (
        toolbus("call", "--resume", "call.json", "--cancel", folder=folder).stdout == "not booked: cancel\n"
    )


def test_a_call_that_asks_once_more_is_not_lost_by_ctrl_c(folder: Path) -> None:
    call = json.loads((folder / "pay.json").read_text())
    # An answer to a question that the server did not ask: it asks its own again.
    call["pending"]["requests"] = {"other": call["pending"]["requests"]["pay"]}
    (folder / "again.json").write_text(json.dumps(call))
    with terminal("call", "--resume", "again.json", folder=folder) as screen:
        screen.until("Pay there.", "[y/N]: ")
        screen.press("y\r")
        screen.until("inn_pay", "Pay there.", "[y/N]: ")
        screen.press("\x03")
        screen.until(
            '{"toolbus": 1, "pending": ', '"rounds": 2', "to answer, run: toolbus call --resume FILE"
        )
        assert screen.ended() == 130
