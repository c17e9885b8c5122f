"""On a terminal: movement while one waits, colours unless one minds, lines that fit, and a clean Ctrl-C."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import SCRIPTED, Fifo, scripted, write_config
from tests.cli.terminal import COLOUR, terminal

LONG = {"name": "long", "description": "\u6f22\u5b57 wide words " * 20}

BAR, REST = "\u2501", "\u257a"


def fake_npx(folder: Path) -> str:
    """A PATH on which `npx SCRIPT` starts a scripted server."""
    (folder / "bin").mkdir()
    npx = folder / "bin" / "npx"
    npx.write_text(f'#!/bin/sh\nexec python {SCRIPTED} "$@"\n')
    npx.chmod(0o755)
    return os.pathsep.join([str(npx.parent), os.environ["PATH"]])


def test_while_servers_start_a_spinner_names_those_that_are_waited_for(tmp_path: Path) -> None:
    path = fake_npx(tmp_path)
    with Fifo(tmp_path / "slow.fifo") as slow, Fifo(tmp_path / "fetched.fifo") as fetched:
        own = scripted(tmp_path, "slow", waits=True, control=slow.path)
        script = scripted(tmp_path, "fetched", waits=True, control=fetched.path)["args"][1]
        write_config(tmp_path, {"slow": own, "fetched": {"command": "npx", "args": [script]}})
        # The interpreter of the tests stays on the PATH, for the fake npx.
        env = {"PATH": os.pathsep.join([path, str(Path(sys.executable).parent)])}
        with terminal("tools", folder=tmp_path, env=env) as screen:
            screen.until("starting slow, fetched (npx may be downloading)")
            assert not screen.shows_cursor
            slow.say("go")
            screen.until("starting fetched (npx may be downloading)")
            fetched.say("go")
            screen.until("slow  ready", "fetched  ready")
            assert screen.ended() == 0
            assert screen.shows_cursor
            # The line of the spinner was erased before the result came.
            assert "\x1b[2K" in screen.raw.partition("ready")[0]


def test_the_progress_of_a_call_moves(tmp_path: Path) -> None:
    with Fifo(tmp_path / "fifo") as fifo:
        script = scripted(tmp_path, "own", tools=[{"name": "count"}], steps={"count": 3}, control=fifo.path)
        write_config(tmp_path, {"own": script})
        with terminal("call", "own_count", folder=tmp_path) as screen:
            for step, bar in enumerate((BAR * 10 + REST, BAR * 20 + REST, BAR * 30), 1):
                screen.until(f"step number {step} {bar}")
                fifo.say("go")
            screen.until("{}")
            assert screen.ended() == 0
            assert screen.shows_cursor


@pytest.mark.parametrize("way", ["plain", "option", "variable"])
def test_there_is_colour_unless_one_minds(tmp_path: Path, way: str) -> None:
    write_config(tmp_path, {"own": scripted(tmp_path, "own", tools=[LONG])})
    words = ["tools", "--no-color"] if way == "option" else ["tools"]
    env = {"NO_COLOR": "1"} if way == "variable" else {}
    with terminal(*words, folder=tmp_path, width=40, env=env) as screen:
        assert screen.ended() == 0
        assert bool(COLOUR.search(screen.raw)) is (way == "plain")
        # Wide characters count twice: 14 cells of indent, name and gaps, 25 of these, and the ellipsis.
        kanji = "\u6f22\u5b57"
        assert screen.plain.splitlines()[-3:] == [
            f"  own_long    {kanji} wide words {kanji} wide",
            f"              words {kanji} wide words {kanji}",
            f"              wide words {kanji} wide word\u2026",
        ]


ABOUT = "Look for a phrase in all the letters that came in, newest first, and count what was found."
SEARCH: dict[str, Any] = {
    "type": "object",
    "properties": {"phrase": {}, "folder": {}},
    "required": ["phrase"],
}
HEAD = "  post_search_letters  phrase [folder]"
NARROW = {
    ("tools", 40): f"{HEAD}\n    Look for a phrase in all the letters\n",
    ("tools", 60): f"{HEAD}\n    Look for a phrase in all the letters that came in,\n",
    ("tools", 80): f"{HEAD}  Look for a phrase in all the letters\n{'':40}that came in",
    ("read", 40): "  box://letters/inbox  text/plain\n    inbox: Look for a phrase in all the\n",
    ("prompt", 40): "  post/reply  Look for a phrase in all\n              the letters that came in,\n",
    (
        "check",
        40,
    ): "  next step  report it to the server's\n             author; its other tools\n             work\n",
}


@pytest.mark.parametrize(("command", "width"), NARROW)
def test_what_does_not_fit_into_a_line_goes_on_in_the_next(tmp_path: Path, command: str, width: int) -> None:
    own = scripted(
        tmp_path,
        "post",
        tools=[{"name": "search_letters", "description": ABOUT, "inputSchema": SEARCH}, {"name": ""}],
        resources=[
            {"uri": "box://letters/inbox", "name": "inbox", "mimeType": "text/plain", "description": ABOUT}
        ],
        prompts=[{"name": "reply", "description": ABOUT}],
    )
    write_config(tmp_path, {"post": own})
    with terminal(command, folder=tmp_path, width=width) as screen:
        assert screen.ended() == 0
    shown = screen.plain.replace("\r\n", "\n")
    assert NARROW[command, width] in shown
    listed = [line for line in shown[shown.index("post  ") :].splitlines() if line.startswith(" ")]
    assert max(map(len, listed)) <= width
    assert "found." in " ".join(shown.split()) or command == "check"


WRAPPED: dict[tuple[str, ...], list[str]] = {
    ("call", "post_send", "x=1"): [
        "toolbus: no tool named 'post_send' among",
        "0; run 'toolbus tools' to list them",
    ],
    ("tools", "--search", "letters of the last month"): [
        "0 of 0 tools match 'letters of the last",
        "month'",
    ],
    ("check",): ["1 server in toolbus.yaml: 1 ready;", "nothing to fix; 1 warning above"],
}


@pytest.mark.parametrize("words", WRAPPED, ids=" ".join)
def test_errors_and_summaries_break_between_words_on_a_narrow_terminal(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    write_config(tmp_path, {"post": scripted(tmp_path, "post", tools=[])})
    with terminal(*words, folder=tmp_path, width=40) as screen:
        screen.ended()
    assert [line.rstrip() for line in screen.plain.splitlines()][-2:] == WRAPPED[words]


def test_ctrl_c_while_a_server_starts_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    with Fifo(tmp_path / "fifo") as marker:
        own = scripted(tmp_path, "own", waits=True, marker=marker.path, control=marker.path + ".none")
        write_config(tmp_path, {"own": own})
        with terminal("tools", folder=tmp_path) as screen:
            screen.until("starting own")
            assert marker.line() == "started"
            screen.press("\x03")
            assert screen.ended() == 130
            assert screen.shows_cursor
            assert "Traceback" not in screen.plain
            assert "ready" not in screen.plain


def test_watch_shows_what_happens_to_the_servers(tmp_path: Path) -> None:
    with Fifo(tmp_path / "fifo") as fifo:
        own = scripted(tmp_path, "own", tools=[{"name": "x"}], control=fifo.path)
        write_config(tmp_path, {"own": own})
        with terminal("watch", folder=tmp_path, width=250) as screen:
            drawn = screen.until("own", "ready", "2025-06-18 (legacy)", "Ctrl-C to quit")
            for title in ("server", "state", "protocol", "tools", "restarts", "latency", "error"):
                assert title in drawn
            fifo.say("grow extra")
            screen.until("catalog", "+own_extra")
            fifo.say("die")
            screen.until("ready -> retrying", "exit code 5")
            screen.until("-> ready")
            write_config(tmp_path, {"own": own, "new": scripted(tmp_path, "new", tools=[{"name": "y"}])})
            screen.until("+new_y")
            (tmp_path / "toolbus.yaml").write_text("servers: [")
            screen.until("toolbus.yaml", "line")
            write_config(tmp_path, {"own": own})
            screen.until("-new_y")
            screen.press("\x03")
            assert screen.ended() == 130
            assert screen.shows_cursor
            assert "Traceback" not in screen.plain


def test_watch_shows_each_server_as_it_settles_and_takes_an_edit_while_another_still_starts(
    tmp_path: Path,
) -> None:
    with Fifo(tmp_path / "fifo") as fifo:
        slow = scripted(tmp_path, "slow", waits=True, control=fifo.path)
        quick = scripted(tmp_path, "quick", tools=[{"name": "x"}])
        write_config(tmp_path, {"slow": slow, "quick": quick})
        with terminal("watch", folder=tmp_path, width=250) as screen:
            screen.until("connecting -> ready", "+quick_x", "Ctrl-C to quit")
            new = scripted(tmp_path, "new", tools=[{"name": "y"}])
            write_config(tmp_path, {"slow": slow, "quick": quick, "new": new})
            screen.until("reloaded toolbus.yaml", "+new_y")
            assert "slow          connecting -> ready" not in screen.plain
            fifo.say("go")
            screen.until("slow          connecting -> ready")
            screen.press("\x03")
            assert screen.ended() == 130


def test_watch_notices_an_edit_that_is_saved_while_it_asks_about_the_config(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    own = scripted(folder, "own", tools=[{"name": "x"}])
    file = folder / "toolbus.yaml"
    file.write_text(json.dumps({"servers": {"own": own}}))
    with terminal("watch", folder=folder, width=250) as screen:
        screen.until("[y/N]")
        file.write_text(json.dumps({"servers": {"own": own, "new": own}}))
        screen.press("y\n")
        screen.until("not reloaded", "has changed since you trusted it")
        screen.press("\x03")
        assert screen.ended() == 130


def test_a_terminal_gets_no_blob_and_obeys_no_text_that_is_read(tmp_path: Path) -> None:
    own = scripted(
        tmp_path,
        "own",
        resources=[],
        contents={
            "x://blob": [{"uri": "x://blob", "blob": "AAECAw==", "mimeType": "image/png"}],
            "x://text": [{"uri": "x://a", "text": "\x1b[31mred\n"}, {"uri": "x://b", "text": "blue"}],
        },
    )
    write_config(tmp_path, {"own": own})
    with terminal("read", "own", "x://blob", folder=tmp_path) as screen:
        told = "x://blob is binary (image/png, 4 B); save it with --out FILE"
        screen.until("reading x://blob", told)
        assert screen.ended() == 2
    with terminal("read", "x://text", folder=tmp_path) as screen:
        assert screen.ended() == 0
        assert screen.plain.endswith("x://a\r\n\\x1b[31mred\r\nx://b\r\nblue\r\n")
        assert screen.shows_cursor
