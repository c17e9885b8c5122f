"""Texts of servers and callers in calls, against pages, files and spreadsheets that show them later."""

import csv
import io
import json
import os
import re
import sqlite3
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.console.opening import Markup, Opened, console_over
from tests.gateway.console.wild import HOSTILE, PICTURE
from tests.inside.audit import CallFilter, HistoryCall, HistoryWriter, history_file, read_calls
from tests.inside.config import History
from tests.inside.console import kept_arguments, kept_result
from tests.inside.core import Text, ToolResult
from tests.patience import wait_until
from toolbus import Caller, ToolbusError

pytestmark = pytest.mark.anyio

WILD = str(Path(__file__).parents[1] / "gateway" / "console" / "wild.py")
SECRET = "sk-live-Zq81Xw72Vy63Uu54"
FORMULAS = ("=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1+1", "\uff1d1+1")


def _config(folder: Path, **more: Any) -> str:
    entry = {"command": sys.executable, "args": [WILD], "prefix": "x", "env": {"API_KEY": SECRET}}
    file = folder / "toolbus.json"
    file.write_text(json.dumps({"servers": {"wild": entry}, "history": "everything", **more}))
    return str(file)


async def _hostile_calls(opened: Opened) -> None:
    """Calls with markup and control characters in every field."""
    caller = Caller(face=HOSTILE, user=HOSTILE, session=HOSTILE, run=HOSTILE)
    view = opened.bus.view(caller=caller)
    for name, arguments in (
        ("x_kinds", {"words": HOSTILE[:90], "size": "small"}),
        ("x_fail", {}),
        ("x_refuse", {}),
        (HOSTILE, {HOSTILE: HOSTILE}),
    ):
        with suppress(ToolbusError):
            await view.call(name, arguments)


def _check(markup: str) -> None:
    read = Markup(markup)
    assert not {"img", "iframe", "style"} & {tag for tag, _ in read.elements}
    assert all(str(one.get("src")).startswith("../static/") for one in read.named("script"))
    assert not any(key.startswith("on") for _, given in read.elements for key in given)
    assert not re.search("[\x00-\x08\x1b\u202e\u200b]", read.text)


async def test_markup_in_every_field_of_a_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tool, caller, error, arguments and results are text, in the list, on the page of a call and later."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    config = _config(tmp_path)
    async with console_over(config) as opened:
        await _hostile_calls(opened)
        await opened.enter()
        ids = [one.id for one in opened.console.calls.ended]
        first = [
            await opened.page(path) for path in ("overview", "calls", *(f"call?id={id_}" for id_ in ids))
        ]
        async with opened.stream("calls") as stream:
            first.append(await stream.until(lambda markup: markup.count("<tr id=") == len(ids)))
    async with console_over(config) as opened:
        await opened.enter()
        later = [await opened.page(path) for path in ("calls", *(f"call?id={id_}" for id_ in ids))]
    for markup in (*first, *later):
        _check(markup)
    assert all(Markup(markup).text.count(PICTURE) >= 1 for markup in (first[1], later[0]))


async def test_a_search_for_markup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fields of the URL are text on the page, and no SQL in the history."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    async with console_over(_config(tmp_path)) as opened:
        await opened.bus.call("x_kinds", {"words": "w", "size": "small"})
        await opened.enter()
        for field in ("server", "tool", "caller", "outcome", "range", "from", "to", "before"):
            for value in (HOSTILE, "' OR 1=1 --", "%", "_", "*" * 200, "9" * 400, "nan~x"):
                answered = await opened.http.get(f"{opened.home}/calls", params={field: value})
                assert answered.status_code == 200, (field, value)
                _check(answered.text)
        everything = await opened.page("calls?tool=%25")
    assert '<tr id="c-' not in everything, "a percent sign matches itself alone"


async def test_secrets_in_arguments_results_and_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file of a history contains a secret, even where a long text is cut."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    async with console_over(_config(tmp_path)) as opened:
        for words in (SECRET, f"Bearer {SECRET}", f"{'x' * 50} {SECRET}"):
            await opened.bus.call("x_kinds", {"words": words, "size": "small"})
        with suppress(ToolbusError):
            await opened.bus.call(f"no such tool {SECRET}", {"password": "hunter2hunter2", "deep": [SECRET]})
        near = "y" * (16_000 - 3 * len(SECRET))
        for cut in range(0, 4 * len(SECRET), 7):
            assert SECRET[:12] not in (kept_arguments({"words": near + "z" * cut + SECRET}) or "")
        shown = kept_result(ToolResult(content=(Text(text="w" * 63_900 + SECRET * 9),)), "tools/call")
        assert SECRET[:12] not in (shown or "")
    files = list((tmp_path / "state" / "toolbus" / "history").iterdir())
    content = b"".join(file.read_bytes() for file in files)
    assert b"kinds" in content
    assert SECRET.encode() not in content
    assert b"hunter2" not in content
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


async def test_formulas_in_an_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No cell of the CSV is a formula."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    async with console_over(_config(tmp_path)) as opened:
        for formula in FORMULAS:
            caller = Caller(face=formula, user=formula, run=formula)
            with suppress(ToolbusError):
                await opened.bus.view(caller=caller).call(formula, {})
        await opened.enter()
        text = (await opened.http.get(f"{opened.home}/calls/export?form=csv")).text
    rows = list(csv.reader(io.StringIO(text)))
    assert len(rows) == 1 + len(FORMULAS)
    cells = [cell for row in rows[1:] for cell in row]
    assert [cell for cell in cells if cell.lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\uff1d"))] == []
    assert [formula for formula in FORMULAS if f"'{formula}" not in cells] == []


def test_a_history_that_others_could_read_or_that_is_no_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is written into it, it is said once, and no call fails."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    file = history_file(tmp_path / "toolbus.yaml")
    file.parent.mkdir(parents=True)
    call = HistoryCall(id="a-1", at=1.0, ended=2.0, route="tools/call", server="s", tool="t", name="t")
    for content, mode in ((b"", 0o644), (b"no database" * 100, 0o600)):
        file.write_bytes(content)
        os.chmod(file, mode)
        caplog.clear()
        writer = HistoryWriter(file, History())
        for _ in range(3):
            writer.put_call(lambda: call)
            assert writer.flush()
        writer.close()
        assert file.read_bytes() == content
        assert sum("calls are not kept" in one.message for one in caplog.records) == 1


def test_a_flood_of_calls_and_huge_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files keep to their size and contain the newest calls."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    file, size = history_file(tmp_path / "toolbus.yaml"), 1_000_000
    writer = HistoryWriter(file, History(size=size))
    writers = [writer, HistoryWriter(file, History(size=size))]
    for number in range(400):
        call = HistoryCall(
            id=f"a-{number}", at=1e9 + number, ended=4e9 + number, route="tools/call", server="s",
            tool="t", name="t", result="x" * 64_000,
        )  # fmt: skip
        writers[number % 2].put_call(lambda call=call: call)
    for one in writers:
        wait_until(one.flush)
        assert sum(each.stat().st_size for each in file.parent.iterdir()) <= size * 1.1
        one.close()
    newest = read_calls(file, CallFilter(), limit=2)
    assert newest[0].id in ("a-399", "a-398")
    with sqlite3.connect(file) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
