"""A command in the background bus is on the terminal of its client, as if it ran there."""

import json
import os
import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests import warm
from tests.background.holding import asking_entry, background, called, everyday_entry, status
from tests.cli.running import Done, environment, toolbus, write_config
from tests.cli.terminal import COLOUR, terminal
from tests.patience import PATIENCE, wait_until

DATE, SEATS, PLACE, QUIET = "Date (required", "Seats (", "Place (", "Quiet ("


@pytest.fixture
def asking(tmp_path: Path) -> Path:
    """A folder with a server that asks."""
    folder = tmp_path / "work"
    folder.mkdir()
    write_config(folder, {"inn": asking_entry()})
    return folder


def test_what_a_command_prints_is_the_same_as_without(folder: Path) -> None:
    lines: list[list[str]] = [
        ["tools"],
        ["tools", "--json"],
        ["tools", "--search", "add numbers", "--full"],
        ["tools", "--cost"],
        ["call", "every_echo", "text=hello"],
        ["call", "every_many"],
        ["call", "every_fail", "reason=because"],
        ["call", "every_add", "a=1", "b=x"],
        ["call", "every_add", "--args", '{"a": 1, "b": 2}'],
        ["call", "every_echo", "--nonsense"],
        ["read"],
        ["read", "memo://greeting"],
        ["read", "memo://of/{who}", "who=Ann", "--json"],
        ["read", "memo://greting"],
        ["prompt", "--json"],
        ["prompt", "summarise", "text=long"],
        ["prompt", "every/summarise"],
        ["tools", "nobody"],
        ["script", "sum.py", "3"],
        ["script", "sum.py", "--stubs"],
    ]
    (folder / "sum.py").write_text("(await every_add(a=1, b=int(args[0])))")

    def outcome(run: Done) -> tuple[int, str, str]:
        return run.returncode, run.stdout, run.stderr

    by_itself = [outcome(toolbus(*words, "--no-up", folder=folder)) for words in lines]
    with background(folder):
        for words, expected in zip(lines, by_itself, strict=True):
            assert outcome(toolbus(*words, folder=folder)) == expected, words


def test_a_command_reads_its_pipe_its_files_and_writes_to_its_folder(folder: Path) -> None:
    below = folder / "below"
    below.mkdir()
    (below / "text").write_text("from a file")
    (below / "args.json").write_text('{"a": 20, "b": 3}')
    with background(folder):
        # In a folder below, as the bus is in another one.
        run_there = partial(toolbus, folder=below, env={"HOME": str(folder.parent), **_state(folder)})
        assert run_there("call", "every_add", "-", input='{"a": 1, "b": 2}').stdout == "3\n"
        assert run_there("call", "every_echo", "text=@text").stdout == "from a file\n"
        assert run_there("call", "every_echo", "text=@-", input="typed").stdout == "typed\n"
        assert run_there("call", "every_add", "--args-file", "args.json").stdout == "23\n"
        run = run_there("call", "every_many", "--out", "blobs", "--json")
        paths = [block["path"] for block in json.loads(run.stdout)["content"] if "path" in block]
        assert paths == ["blobs/every_many.png", "blobs/every_many.wav", "blobs/blob.bin"]
        assert all((below / path).is_file() for path in paths)
        assert run_there("read", "memo://greeting", "--out", "note.txt").returncode == 0
        assert (below / "note.txt").read_text() == "hello"


def _state(folder: Path) -> dict[str, str]:
    kept = environment(folder.parent)
    return {name: kept[name] for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME")}


def test_colours_and_width_are_those_of_the_client(folder: Path) -> None:
    with background(folder):
        with terminal("tools", folder=folder, width=60) as narrow:
            assert narrow.ended() == 0
        with terminal("tools", folder=folder, width=160) as wide:
            assert wide.ended() == 0
        assert COLOUR.search(wide.raw)
        assert max(map(len, narrow.plain.splitlines())) <= 60
        assert max(map(len, wide.plain.splitlines())) > 60
        for words, env in [(["--no-color"], {}), ([], {"NO_COLOR": "1"})]:
            with terminal("tools", *words, folder=folder, env=env) as plain:
                assert plain.ended() == 0
            assert not COLOUR.search(plain.raw)


def test_the_log_is_shown_to_the_client_that_asks_for_it(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    write_config(folder, {"inn": asking_entry()})
    with background(folder):
        run = toolbus("-v", "call", "inn_tell", "text=news", folder=folder)
        assert run.returncode == 0, run.stderr
        assert "toolbus.server WARNING server 'inn': news 0" in run.stderr
        quiet = toolbus("call", "inn_tell", "text=news", folder=folder)
        assert quiet.stderr == ""


def test_a_question_reaches_the_terminal_that_calls(asking: Path) -> None:
    with background(asking), terminal("call", "inn_book", "guest=Ann", folder=asking) as screen:
        screen.until("server 'inn' asks", "When does Ann come?", DATE)
        with terminal("call", "inn_book", "guest=Bob", folder=asking) as other:
            other.until("When does Bob come?", DATE)
            for typed, prompt in [("2026-12-24", SEATS), ("3", PLACE), ("", QUIET), ("", "send this?")]:
                other.press(f"{typed}\r")
                other.until(prompt)
            other.press("\r")
            other.until("Bob: 2026-12-24, 3, inside")
            assert other.ended() == 0
        screen.press("\x04")
        screen.until("not booked: decline")
        assert screen.ended() == 0


def test_ctrl_c_cancels_a_question_and_ctrl_d_declines_it(asking: Path) -> None:
    with background(asking):
        with terminal("call", "inn_book", "guest=Ann", folder=asking) as screen:
            screen.until(DATE)
            screen.press("\x03")
            screen.until("not booked: cancel")
            assert screen.ended() == 0
        with terminal("call", "inn_book", "guest=Ann", folder=asking) as screen:
            screen.until(DATE)
            screen.press("/decline\r")
            screen.until("not booked: decline")
            assert screen.ended() == 0


def test_a_suspended_client_leaves_its_terminal_alone(asking: Path) -> None:
    with background(asking), terminal("--norc", "-i", folder=asking, program="/bin/bash") as shell:
        shell.press("PS1='$ '; toolbus call inn_book guest=Ann\r")
        shell.until("When does Ann come?", DATE)
        shell.press("\x1a")
        shell.until("Stopped", "$ ")
        for number in range(3):
            shell.press(f"echo typed-$(({number} + 1))\r")
            shell.until(f"typed-{number + 1}\r\n")
        shell.press("fg\r")
        shell.until("toolbus call inn_book guest=Ann\r\n")
        shell.press("2026-12-24\r")
        shell.until(SEATS)
        shell.press("\x03")
        shell.until("not booked: cancel", "$ ")
        shell.press("exit\r")
        assert shell.ended() == 0


def test_without_a_terminal_a_question_ends_the_call_as_it_does_without(asking: Path) -> None:
    words = ("call", "inn_book", "guest=Ann")
    by_itself = toolbus(*words, "--no-up", folder=asking)
    assert (by_itself.returncode, "run it on a terminal to answer" in by_itself.stderr) == (1, True)
    suspended = toolbus(*words, "--on-input", "suspend", "--no-up", folder=asking)
    with background(asking):
        run = toolbus(*words, folder=asking)
        assert (run.returncode, run.stdout, run.stderr) == (1, by_itself.stdout, by_itself.stderr)
        run = toolbus(*words, "--on-input", "suspend", folder=asking)
        assert (run.returncode, run.stderr) == (suspended.returncode, suspended.stderr)
        (asking / "call.json").write_text(run.stdout)
        answered = toolbus("call", "--resume", "call.json", "date=2026-12-24", "seats=4", folder=asking)
        assert answered.stdout == "Ann: 2026-12-24, 4, inside, quiet False\n"


def test_a_call_is_approved_on_the_terminal_that_makes_it(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    write_config(folder, {"every": everyday_entry()}, policy=[{"tools": "every/echo", "do": "ask"}])
    refused = toolbus("call", "every_echo", "text=a", "--no-up", folder=folder)
    with background(folder):
        with terminal("call", "every_echo", "text=approved", folder=folder) as screen:
            screen.until("every_echo of server every", "rule policy[0] asks", "run it?")
            screen.press("y\r")
            screen.until("approved")
            assert screen.ended() == 0
        with terminal("call", "every_echo", "text=denied", folder=folder) as screen:
            screen.until("run it?")
            screen.press("n\r")
            screen.until("was not run: you declined it")
            assert screen.ended() == 1
        run = toolbus("call", "every_echo", "text=a", folder=folder)
        assert (run.returncode, run.stderr) == (1, refused.stderr)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_cancels_the_call_and_nothing_else(folder: Path, number: int, code: int) -> None:
    with background(folder):
        output, writer = os.pipe()
        call = warm.Running(
            "toolbus", ["call", "every_hang"], folder, environment(folder.parent), (writer, writer, writer)
        )
        os.close(writer)
        wait_until(lambda: called(folder, "every_hangs") == "1 0", "the call did not begin")
        os.kill(call.pid, number)
        assert call.wait(PATIENCE) == code
        wait_until(lambda: called(folder, "every_hangs") == "1 1", "the server was not told")
        os.close(output)


def test_a_client_that_is_killed_takes_its_call_with_it(folder: Path) -> None:
    with background(folder):
        nothing = os.open(os.devnull, os.O_RDWR)
        call = warm.Running(
            "toolbus", ["call", "every_hang"], folder, environment(folder.parent), (nothing, nothing, nothing)
        )
        os.close(nothing)
        wait_until(lambda: called(folder, "every_hangs") == "1 0", "the call did not begin")
        call.kill()
        assert call.wait(PATIENCE) == -signal.SIGKILL
        wait_until(lambda: called(folder, "every_hangs") == "1 1", "the call goes on")


def test_ctrl_c_ends_a_command_that_waits_for_its_input(folder: Path) -> None:
    with background(folder), terminal("call", "every_echo", "-", folder=folder) as screen:
        wait_until(lambda: status(folder)["commands"] == 1, "it did not begin")
        screen.press("\x03")
        assert screen.ended() == 130
        wait_until(lambda: status(folder)["commands"] == 0, "it still reads the keyboard")


def test_ctrl_c_in_a_terminal_cancels_the_call(folder: Path) -> None:
    with background(folder), terminal("call", "every_hang", folder=folder) as screen:
        wait_until(lambda: called(folder, "every_hangs") == "1 0", "the call did not begin")
        screen.press("\x03")
        assert screen.ended() == 130
        assert screen.shows_cursor
        wait_until(lambda: called(folder, "every_hangs") == "1 1", "the server was not told")


def test_a_reader_that_stands_still_holds_up_nobody(folder: Path) -> None:
    """As a pager does: its command waits in the middle of a write, and others go on."""
    with background(folder):
        output, writer = os.pipe()
        nothing = os.open(os.devnull, os.O_RDWR)
        paused = warm.Running(
            "toolbus",
            ["call", "every_big", "size=3000000"],
            folder,
            environment(folder.parent),
            (nothing, writer, nothing),
        )
        os.close(writer)
        begun = os.read(output, 1000)
        assert begun
        for text in ("a", "b"):
            assert called(folder, "every_echo", f"text={text}") == text
        with open(output, "rb") as rest:
            assert len(begun) + len(rest.read()) == 3_000_001
        assert paused.wait(PATIENCE) == 0
        os.close(nothing)


def test_a_reader_that_has_enough_ends_the_command(folder: Path) -> None:
    with background(folder):
        output, writer = os.pipe()
        nothing = os.open(os.devnull, os.O_RDWR)
        call = warm.Running(
            "toolbus",
            ["call", "every_big", "size=3000000"],
            folder,
            environment(folder.parent),
            (nothing, writer, nothing),
        )
        os.close(writer)
        assert os.read(output, 10)
        os.close(output)
        assert call.wait(PATIENCE) == 1
        assert called(folder, "every_echo", "text=on") == "on"
        os.close(nothing)


def test_check_finds_the_trail_that_the_bus_writes(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    write_config(folder, {"every": everyday_entry()}, audit={"file": "audit.jsonl"})
    by_itself = toolbus("check", "--no-up", folder=folder)
    with background(folder):
        assert called(folder, "every_echo", "text=a") == "a"
        run = toolbus("check", folder=folder)
        trail = [line for line in run.stdout.splitlines() if line.startswith("audit")]
        assert trail == [line for line in by_itself.stdout.splitlines() if line.startswith("audit")]
        assert trail
        assert '"face":"cli"' in (folder / "audit.jsonl").read_text().replace(" ", "")


@pytest.mark.parametrize(
    ("closed", "expected"),
    [("<&-", (2, "", "toolbus: -: not JSON")), (">&-", (0, "", "")), ("2>&-", (0, "typed\n", ""))],
)
def test_a_closed_stream_is_like_an_empty_one(
    folder: Path, closed: str, expected: tuple[int, str, str]
) -> None:
    """The connection to the bus must not get its number."""
    line = f"exec toolbus call every_echo - {closed}"
    with background(folder):
        run = subprocess.run(
            ["sh", "-c", line],
            cwd=folder,
            env=environment(folder.parent),
            input='{"text": "typed"}',
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert (run.returncode, run.stdout, run.stderr[: len(expected[2])]) == expected


def test_nothing_is_said_to_start_that_runs(folder: Path) -> None:
    with background(folder), terminal("call", "every_echo", "text=on", folder=folder) as screen:
        assert screen.ended() == 0
        assert "starting" not in screen.plain
