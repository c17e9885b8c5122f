"""Modes, matching and places of a tape, and what happens if it cannot be written."""

import gc
import json
import os
import shutil
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.budget import pieces_in
from tests.cli.running import toolbus, write_config
from tests.inside.tape import Places, Privacy, RecordedCall, Tape, TapeFile, TapePlayer
from toolbus import Toolbus
from toolbus.errors import TapeError, TapeMismatch
from toolbus.records import Matching
from toolbus.testing import FakeServer

pytestmark = pytest.mark.anyio


def echo(text: str, when: str = "", file: str = "") -> str:
    return f"{text}!"


def config(fake: FakeServer) -> dict[str, Any]:
    return {"servers": {"fake": {"server": fake}}}


async def call(bus: Toolbus, text: str, **more: Any) -> str:
    return (await bus.call("fake/echo", {"text": text, **more})).text


async def recorded(tape: Path, *texts: str) -> FakeServer:
    fake = FakeServer([echo])
    async with Toolbus(config(fake), record=tape) as bus:
        for text in texts:
            await call(bus, text)
    return fake


async def test_once_records_a_tape_and_then_only_replays_it(tmp_path: Path) -> None:
    fake, tape = FakeServer([echo]), tmp_path / "tape.jsonl"
    for _ in range(2):
        async with Toolbus(config(fake), record=tape, mode="once") as bus:
            assert await call(bus, "tea") == "tea!"
    assert len(fake.calls) == 1
    async with Toolbus(config(fake), replay=tape, mode="once") as bus:
        with pytest.raises(TapeMismatch):
            await call(bus, "milk")


async def test_new_episodes_are_added_to_the_tape(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    await recorded(tape, "tea")
    fake = FakeServer([echo])
    async with Toolbus(config(fake), record=tape, mode="new_episodes") as bus:
        assert [await call(bus, "tea"), await call(bus, "milk")] == ["tea!", "milk!"]
    assert [one.arguments for one in fake.calls] == [{"text": "milk"}]
    assert [one.arguments["text"] for one in Tape(tape).calls()] == ["tea", "milk"]
    assert [line for line in map(json.loads, tape.read_text().splitlines()) if "end" in line] == [
        {"end": True}
    ]
    async with Toolbus(replay=tape) as bus:
        assert [await call(bus, "milk"), await call(bus, "tea")] == ["milk!", "tea!"]


async def test_a_server_that_the_tape_lacks_is_connected_and_recorded(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    await recorded(tape, "tea")
    other = FakeServer({"ping": lambda: "pong"})
    servers = {"fake": {"server": FakeServer([echo])}, "other": {"server": other}}
    async with Toolbus({"servers": servers}, record=tape, mode="new_episodes") as bus:
        assert (await bus.call("other/ping")).text == "pong"
        assert await call(bus, "tea") == "tea!"
    async with Toolbus(replay=tape) as bus:
        assert (await bus.call("other/ping")).text == "pong"


async def test_recording_again_replaces_the_tape(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    await recorded(tape, "tea" * 30_000)
    assert tmp_path.joinpath("tape.files").exists()
    await recorded(tape, "milk")
    assert [one.arguments["text"] for one in Tape(tape).calls()] == ["milk"]
    assert not tmp_path.joinpath("tape.files").exists()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"mode": "once"}, "name it with record or replay"),
        ({"record": "a.jsonl", "replay": "a.jsonl"}, "cannot be recorded while it is replayed"),
        ({"record": "a.jsonl", "replay": "b.jsonl", "mode": "all"}, "mode is for one tape"),
        ({"record": "a.jsonl", "mode": "always"}, "mode must be one of"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises((TypeError, ValueError), match=problem):
        Toolbus(config(FakeServer([echo])), **options)


async def test_ignored_arguments_patterns_and_the_order_decide_what_matches(tmp_path: Path) -> None:
    fake, tape = FakeServer([echo]), tmp_path / "tape.jsonl"
    async with Toolbus(config(fake), record=tape) as bus:
        await call(bus, "tea", when="now", file="a.txt")
        await call(bus, "milk")
    loose = Matching(ignore=("when",), patterns={"file": "*.txt"})
    async with Toolbus(replay=tape, matching=loose) as bus:
        assert await call(bus, "tea", when="later", file="b.txt") == "tea!"
        assert await call(bus, "tea", file="b.txt") == "tea!"
        with pytest.raises(TapeMismatch):
            await call(bus, "tea", file="b.csv")
    async with Toolbus(replay=tape, matching=Matching(in_order=True)) as bus:
        with pytest.raises(TapeMismatch, match="recorded order"):
            await call(bus, "milk")
        await call(bus, "tea", when="now", file="a.txt")
        await call(bus, "milk")


async def test_a_tape_replays_with_another_home_and_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = {name: tmp_path / name for name in ("ann", "bob")}
    tape = tmp_path / "tape.jsonl"

    def open_(path: str) -> str:
        return f"opened {path} of file://{path}, or $" + "{HOME}"

    for name, home in places.items():
        (home / "project").mkdir(parents=True)
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.chdir(home / "project")
        path = str(home / "project" / "a.txt")
        options: dict[str, Any] = {"record": tape} if name == "ann" else {"replay": tape}
        source = {"servers": {"fake": {"server": FakeServer({"open": open_})}}} if name == "ann" else None
        async with Toolbus(source, **options) as bus:
            assert (await bus.call("fake/open", {"path": path})).text == open_(path)
            assert (await bus.call("fake/open", {"path": str(home)})).text == open_(str(home))
    assert str(tmp_path / "ann" / "project") not in tape.read_text()


def test_a_folder_is_not_replaced_in_longer_names(tmp_path: Path) -> None:
    places = Places(folder=tmp_path / "project", home=tmp_path)
    for text in (f"{tmp_path}s", f"x{tmp_path}", f"{tmp_path}-old", "$${HOME} ${FOLDER} ${OTHER}"):
        assert places.show(places.hide(text)) == text
    assert places.hide(f"{tmp_path}s") == f"{tmp_path}s"
    assert places.hide(f"{tmp_path}/project/x") == "${FOLDER}/x"


async def test_a_bus_works_on_while_its_tape_cannot_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fake, tape = FakeServer([echo]), tmp_path / "tape.jsonl"
    async with Toolbus(config(fake), record=tape) as bus:
        await call(bus, "tea")
        (tmp_path / "tape.files").write_text("in the way")
        assert await call(bus, "x" * 70_000) == "x" * 70_000 + "!"
        assert await call(bus, "milk") == "milk!"
    (message,) = [one.message for one in caplog.records if "is incomplete" in one.message]
    assert message.startswith(f"tape {tape} is incomplete: ")
    assert not Tape(tape).is_complete
    assert [one.arguments for one in Tape(tape).calls()] == [{"text": "tea"}]


async def test_a_file_that_cannot_be_written_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "tape.jsonl").mkdir()
    bus = Toolbus(config(FakeServer([echo])), record=tmp_path / "tape.jsonl")
    with pytest.raises(TapeError, match="is a directory; choose another file"):
        await bus.start()


async def test_a_tape_of_a_killed_program_has_everything_up_to_its_last_line(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    await recorded(tape, "tea", "milk")
    whole = tape.read_bytes()
    for size in range(whole.index(b'{"id"'), len(whole), 7):
        tape.write_bytes(whole[:size])
        complete = whole[:size].rpartition(b"\n")[0].split(b"\n")
        assert len(Tape(tape)) == sum(line.startswith(b'{"id"') for line in complete)


def test_lines_that_end_in_another_order_are_sorted(tmp_path: Path) -> None:
    file = TapeFile(tmp_path / "tape.jsonl")
    for id_ in (2, 3, 1):
        file.add(
            RecordedCall(id=id_, server="a", method="tools/call", name="x", arguments={"n": id_}, result={})
        )
    file.close()
    lines = [json.loads(line) for line in (tmp_path / "tape.jsonl").read_text().splitlines()]
    assert [line.get("id") for line in lines] == [None, 1, 2, 3, None]


async def test_a_replay_makes_5000_calls_in_the_cpu_time_of_650_pieces_of_work(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    await recorded(tape, *map(str, range(500)))
    spent: list[float] = []
    async with Toolbus(replay=tape) as bus:
        for _ in range(3):
            began = time.thread_time()
            for number in range(500):
                await bus.call("fake/echo", {"text": str(number)})
            spent.append(time.thread_time() - began)
    # 650 pieces take about a second on a machine of this class.
    assert pieces_in(min(spent)) < 65


@pytest.mark.parametrize("repeated", [1, 2, 5_000])
def test_a_replay_takes_at_most_200_bytes_for_each_recorded_call(repeated: int, tmp_path: Path) -> None:
    count, path = 5_000, tmp_path / "tape.jsonl"
    file = TapeFile(path)
    result: dict[str, Any] = {"content": [{"type": "text", "text": "y" * 500}]}
    for id_ in range(1, count + 1):
        given = {"text": f"call {id_ // repeated}"}
        file.add(
            RecordedCall(id=id_, server="a", method="tools/call", name="x", arguments=given, result=result)
        )
    file.close()
    del file
    gc.collect()
    tracemalloc.start()
    try:
        player = TapePlayer(Tape(path), privacy=Privacy())
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(player.tape) == count
    assert taken / count < 200


def test_the_command_line_records_and_replays_without_the_config(tmp_path: Path) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    project.mkdir()
    elsewhere.mkdir()
    server = Path(__file__).parents[1] / "servers" / "everyday.py"
    write_config(project, {"shop": {"command": warm.python(), "args": [str(server), "stdio"]}})
    env = {"TOOLBUS_TRUST": "1"}
    words = ["call", "shop/add", "a=1", "b=2"]
    first = toolbus("--config", "toolbus.yaml", *words, "--record", "tape.jsonl", folder=project, env=env)
    assert first.returncode == 0, first.stderr
    shutil.copy(project / "tape.jsonl", elsewhere)
    again = toolbus(*words, "--replay", "tape.jsonl", folder=elsewhere)
    assert (again.returncode, again.stdout) == (0, first.stdout)
    other = toolbus("call", "shop/add", "a=1", "b=3", "--replay", "tape.jsonl", folder=elsewhere)
    assert (other.returncode, other.stdout) == (1, "")
    assert "b: 2 was recorded, not 3" in other.stderr
    shown = json.loads(toolbus("tape", "show", "tape.jsonl", "--json", folder=elsewhere).stdout)
    assert (shown["complete"], len(shown["calls"])) == (True, 1)
    refused = toolbus("serve", "--replay", "tape.jsonl", "--workers", "2", folder=elsewhere)
    assert "one process" in refused.stderr


def test_a_missing_tape_is_named_with_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(TapeError, match=r"nothing\.jsonl: no such file or directory; record one"):
        Toolbus(replay=tmp_path / "nothing.jsonl")
    assert os.listdir(tmp_path) == []
