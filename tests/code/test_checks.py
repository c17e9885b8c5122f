"""The check before a script: it refuses certain failures, and no working script."""
# ruff: noqa: E501, ISC004  a script in one line is easier to compare with what it returns

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp.server.mcpserver import MCPServer
from typing_extensions import TypedDict

from toolbus import Toolbus
from toolbus.demo.files import files_server
from toolbus.demo.notes import notes_server, open_notes
from toolbus.demo.worker import worker_server

pytestmark = pytest.mark.anyio
calls: list[str] = []


class Page(TypedDict):
    items: list[str]
    next: str | None


def tracker() -> MCPServer:
    """Issues with pages, a choice and an optional number."""
    server = MCPServer("tracker")

    @server.tool()
    def create_issue(title: str, priority: int = 1) -> str:
        """Create an issue."""
        calls.append(title)
        return f"issue {title}"

    @server.tool()
    def list_issues(cursor: str = "0") -> Page:
        """List issues, page by page."""
        at = int(cursor)
        return Page(items=[f"issue {at}"], next=str(at + 1) if at < 2 else None)

    return server


@asynccontextmanager
async def demo(folder: Path) -> AsyncGenerator[Toolbus]:
    """A bus with the demo servers, three files and three notes."""
    for name, text in {"a.txt": "one two", "b.txt": "three", "log.txt": "ok 1\nerror 42\nok 2"}.items():
        (folder / name).write_text(text)
    servers = {
        "files": {"server": files_server(folder)},
        "notes": {"server": notes_server(open_notes(":memory:"))},
        "worker": {"server": worker_server()},
        "tracker": {"server": tracker()},
    }
    async with Toolbus({"servers": servers}) as bus:
        for text in ("buy tea", "buy milk", "call Ann on 2026-11-18"):
            await bus.call("notes_add", {"text": text, "tags": ["home"]})
        yield bus


WORKING = {
    "re group": ('import re\nre.search(r"error (\\d+)", await files_read(path="log.txt")).group(1)', "42"),
    "re group of a note": (
        'import re\nfound = await notes_search(words="Ann")\nre.search(r"\\d+", found["notes"][0]["text"]).group()',
        "2026",
    ),
    "the largest": (
        'best = None\nfor one in (await files_list())["files"]:\n    if best is None or one["bytes"] > best["bytes"]:\n'
        '        best = one\nbest["path"]',
        "log.txt",
    ),
    "the longest, by a flag": (
        'longest = None\nfor one in (await notes_search(words=""))["notes"]:\n'
        '    if longest is None or len(one["text"]) > len(longest["text"]):\n        longest = one\n'
        'longest["text"].upper()',
        "CALL ANN ON 2026-11-18",
    ),
    "reduce": (
        'from functools import reduce\nreduce(lambda total, one: total + one["bytes"], (await files_list())["files"], 0) > 9',
        True,
    ),
    "functools.reduce": ("import functools\nfunctools.reduce(lambda a, b: a * b, [1, 2, 3])", 6),
    "pages": (
        "cursor = None\nitems = []\nwhile True:\n    page = await tracker_list_issues(cursor=cursor) if cursor else "
        'await tracker_list_issues()\n    items += page["items"]\n    cursor = page["next"]\n'
        "    if not cursor:\n        break\nlen(items)",
        3,
    ),
    "pages, with None first": (
        "cursor, items = None, []\nwhile True:\n    page = await tracker_list_issues(cursor=cursor)\n"
        '    items += page["items"]\n    cursor = page.get("next")\n    if cursor is None:\n        break\nitems[-1]',
        "issue 2",
    ),
    "None for an optional argument": ('(await tracker_list_issues(cursor=None))["items"]', ["issue 0"]),
    "a number for a text, by a name": ("n = 5\nawait tracker_create_issue(title=n)", {"result": "issue 5"}),
    "arguments from a dict": (
        'given = {"title": "x", "priority": 2}\nawait tracker_create_issue(**given)',
        {"result": "issue x"},
    ),
    "gather": (
        'import asyncio\ntexts = await asyncio.gather(*[files_read(path=p) for p in ("a.txt", "b.txt")])\n" ".join(texts)',
        "one two three",
    ),
    "gather of names": (
        'import asyncio\na = files_read(path="a.txt")\nb = files_read(path="b.txt")\n[len(x) for x in await asyncio.gather(a, b)]',
        [7, 5],
    ),
    "gather into a dict": (
        'import asyncio\nnames = ["a.txt", "b.txt"]\nfound = dict(zip(names, await asyncio.gather(*[files_read(path=n) for n in names])))\n'
        'found["b.txt"]',
        "three",
    ),
    "a call in a dict": ('waiting = {"a": files_read(path="a.txt")}\nawait waiting["a"]', "one two"),
    "asyncio.run": ('import asyncio\nasyncio.run(files_read(path="a.txt"))', "one two"),
    "async main": ('async def main():\n    return await files_read(path="a.txt")\nawait main()', "one two"),
    "counter": (
        'from collections import Counter, defaultdict\nwords = defaultdict(list)\nfor w in (await files_read(path="log.txt")).split():\n'
        "    words[w[0]].append(w)\nCounter(w for ws in words.values() for w in ws).most_common(1)[0][0]",
        "ok",
    ),
    "a sort by a key that may be missing": (
        'rows = (await notes_search(words=""))["notes"]\nsorted(rows, key=lambda r: r.get("id"))[0]["text"]',
        "buy tea",
    ),
    "max of a dict": (
        'sizes = {f["path"]: f["bytes"] for f in (await files_list())["files"]}\nmax(sizes, key=lambda path: sizes.get(path))',
        "log.txt",
    ),
    "a default that is None": (
        'def first(rows, word=None):\n    return next(iter([r for r in rows if word is None or word in r["text"]]), None)\n'
        'first((await notes_search(words=""))["notes"], "milk")["text"]',
        "buy milk",
    ),
    "a failing call": (
        "try:\n    await worker_divide(a=1, b=0)\nexcept RuntimeError as error:\n    said = str(error)\n'0' in said",
        True,
    ),
    "dates": (
        'import re\nfrom datetime import date, timedelta\ntext = (await notes_search(words="Ann"))["notes"][0]["text"]\n'
        'day = date.fromisoformat(re.search(r"\\d{4}-\\d\\d-\\d\\d", text).group())\nstr(day + timedelta(days=1))',
        "2026-11-19",
    ),
    "json": (
        'import json\njson.loads(json.dumps(await notes_search(words="tea", limit=1)))["notes"][0]["tags"]',
        ["home"],
    ),
    "another type under a name": (
        'x = await files_list()\nx = len(x["files"])\nx = str(x)\nx.zfill(2)',
        "03",
    ),
    "a mixed dict": (
        'report = {"files": 0}\nreport["names"] = [f["path"] for f in (await files_list())["files"]]\nlen(report["names"])',
        3,
    ),
    "an undeclared key": ('(await notes_search(words="tea")).get("more", "none")', "none"),
    "a wrong annotation": ("def f(x: int) -> int:\n    return x\nf('a')", "a"),
    "an import that may fail": (
        "try:\n    import numpy\nexcept ImportError:\n    numpy = None\nnumpy is None",
        True,
    ),
    "a tool as a value": ('read = files_read\nawait read(path="b.txt")', "three"),
    "a name of a tool for something else": ("notes_add = 1\nnotes_add + 1", 2),
}
REFUSED = {
    "an unknown tool": ('await tracker_create_isue(title="a")', "near it: tracker_create_issue"),
    "an unknown argument": ('await tracker_create_issue(title="a", color="red")', "`color` does not match"),
    "a missing argument": ("await tracker_create_issue(priority=1)", "required parameter `title`"),
    "a literal of the wrong type": (
        'await tracker_create_issue(title="a", priority="high")',
        "Expected `int`",
    ),
    "a list for a text": ('await tracker_create_issue(title=["a"])', "Expected `str`"),
    "None for a required argument": ("await tracker_create_issue(title=None)", "found `None`"),
    "a positional argument": (
        'await tracker_create_issue("a")',
        "line 3: pass it by name: tracker_create_issue(title=...)",
    ),
    "no await": (
        'tracker_create_issue(title="a")',
        "line 3: await is missing: await tracker_create_issue(...)",
    ),
    "no await in print": (
        "print(tracker_list_issues())",
        "line 3: await is missing: await tracker_list_issues(...)",
    ),
    "no await in a loop": ("for one in tracker_list_issues():\n    pass", "line 3: await is missing"),
    "no await for a name": (
        'page = tracker_list_issues()\nx = 1\npage["items"]',
        "line 3: await is missing: await tracker_list_issues(...)",
    ),
    "no await for a function": (
        "async def main():\n    return 1\nx = main()\nx + 1",
        "line 5: await is missing: await main(...)",
    ),
    "an unknown name": ("print(nothing)", "`nothing` used when not defined"),
    "an unknown module": ("import requests", "Cannot resolve imported module `requests`"),
}


async def test_what_works_is_not_refused(tmp_path: Path) -> None:
    async with demo(tmp_path) as bus:
        results = {name: await bus.scripts.run(script) for name, (script, _) in WORKING.items()}
        checks = {name: await bus.scripts.check(script) for name, (script, _) in WORKING.items()}
    wrong = {name: result.text for name, result in results.items() if result.is_error}
    assert wrong == {}
    assert {name: result.value for name, result in results.items()} == {
        name: end for name, (_, end) in WORKING.items()
    }
    assert {name: problem for name, problem in checks.items() if problem is not None} == {}


async def test_what_must_fail_is_refused_before_anything_is_called(tmp_path: Path) -> None:
    before = 'await tracker_create_issue(title="before")\n\n'
    calls.clear()
    async with demo(tmp_path) as bus:
        results = {name: await bus.scripts.run(before + script) for name, (script, _) in REFUSED.items()}
        checks = {name: await bus.scripts.check(before + script) for name, (script, _) in REFUSED.items()}
    texts = {name: result.text for name, result in results.items()}
    assert {name: text for name, text in texts.items() if REFUSED[name][1] not in text} == {}
    assert {name: text for name, text in checks.items() if REFUSED[name][1] not in str(text)} == {}
    assert all(text.startswith("the script was not run, because it would fail:\n") for text in texts.values())
    assert calls == []


async def test_doubts_are_shown_if_the_script_fails_and_only_then(tmp_path: Path) -> None:
    script = 'import re\nre.search("{}", await files_read(path="a.txt")).group()'
    async with demo(tmp_path) as bus:
        failed = await bus.scripts.run(script.format("seven"))
        worked = await bus.scripts.run(script.format("two"))
    assert "The type check noted before:\nscript.py:2:1: " in failed.text
    assert "`Match[str] | None`" in failed.text
    assert (worked.text, worked.is_error) == ("two", False)


async def test_a_call_that_nothing_awaited_is_mentioned(tmp_path: Path) -> None:
    async with demo(tmp_path) as bus:
        result = await bus.scripts.run('import asyncio\nasyncio.gather(files_read(path="a.txt"))\n1')
        late = await bus.scripts.run('given = ["a.txt"]\nawait files_read(*given)')
    assert result.text == "1\n[line 2: files_read was not called, because nothing awaited it]"
    assert "pass it by name: files_read(path=...)" in late.text
