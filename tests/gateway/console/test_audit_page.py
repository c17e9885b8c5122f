"""The page of the audit trail: newest first, filtered, page by page, and checked on request."""

import csv
import io
import json
from pathlib import Path

import pytest

from tests.gateway.console.opening import Markup, console_over, plain
from tests.gateway.driving import JSON
from tests.gateway.front import Gates, gated
from tests.inside.console import audit
from tests.inside.core import Caller
from toolbus import ToolbusError

pytestmark = pytest.mark.anyio

PICTURE = "<img src=x onerror=alert(1)>"
HOSTILE = f"</td><script>alert('1')</script>{PICTURE}\"&\x1b[31m\u202e"
ADD: JSON = {"a": 1, "b": 2}


def _config(file: Path, **more: object) -> JSON:
    return {"servers": {"gated": {"server": gated(Gates())}}, "audit": str(file), **more}


def _rows(page: str) -> list[str]:
    return [plain(row.split("</tr>")[0]) for row in page.split("<tr>")[1:] if "<td>" in row]


async def test_without_a_trail_the_page_says_how_to_turn_it_on() -> None:
    async with console_over({"servers": {"gated": {"server": gated(Gates())}}}) as opened:
        await opened.enter()
        page = plain(await opened.page("audit"))
        assert "Nothing is recorded: the config has no audit log." in page
        assert "Add audit: audit.jsonl to the config" in page
        await opened.post("audit/check", {})
        assert "add 'audit: audit.jsonl' to the config" in plain(await opened.page("audit"))


async def test_events_are_listed_newest_first_and_filtered(tmp_path: Path) -> None:
    policy = [{"tools": "gated/large", "do": "deny"}]
    async with console_over(_config(tmp_path / "audit.jsonl", policy=policy)) as opened:
        await opened.enter()
        assert "Nothing is recorded yet." in plain(await opened.page("audit"))
        await opened.bus.call("gated_add", ADD)
        await opened.bus.view(caller=Caller(face="agent", user="ann")).call("gated_add", ADD)
        with pytest.raises(ToolbusError):
            await opened.bus.call("gated_large", {"size": 1})
        rows = _rows(await opened.page("audit"))
        of_ann = _rows(await opened.page("audit?caller=ann&decision=allow"))
        denied = _rows(await opened.page("audit?decision=deny&tool=gated/*"))
        failed = _rows(await opened.page("audit?outcome=failed&server=gated"))
        nothing = plain(await opened.page("audit?tool=nowhere"))
        filled = Markup(await opened.page("audit?tool=nowhere&decision=deny"))
    what = [row[24:] for row in rows]
    assert what[0] == "deny policy[0] gated/large rule policy[0] denies it"
    assert what[1].startswith("allow default ok gated/add ann, via agent ")
    assert what[2].startswith("allow default ok gated/add ")
    assert what[3:] == ["started audit.jsonl"]
    assert rows[0][:23].replace(" ", "T") in (tmp_path / "audit.jsonl").read_text()
    assert of_ann == [rows[1]]
    assert denied == [rows[0]]
    assert failed == []
    assert "No such call is recorded." in nothing
    assert [one["value"] for one in filled.named("input") if one.get("name") == "tool"] == ["nowhere"]
    assert [one["value"] for one in filled.named("option") if "selected" in one] == ["", "deny", ""]


async def test_a_trail_is_read_page_by_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "CALLS_SHOWN", 1)
    async with console_over(_config(tmp_path / "audit.jsonl")) as opened:
        await opened.enter()
        for _ in range(2):
            await opened.bus.call("gated_add", ADD)
        every: list[str] = []
        url, links = "audit?tool=gated/*", dict[str, str]()
        while url:
            page = await opened.page(url)
            every += _rows(page)
            shown = [(one.get("rel") or "", one["href"] or "") for one in Markup(page).named("a")]
            links = {rel: href for rel, href in shown if href.startswith("audit?")}
            url = links.get("next", "")
        assert [row[24:].partition(" gated")[0] for row in every] == ["allow default ok"] * 2
        assert links == {"": "audit?tool=gated%2F%2A&page=1"}
        # What is not a page is the first one.
        for page in ("0", "-1", "x", "9" * 30, "%F0%9D%9F%99"):
            assert len(_rows(await opened.page(f"audit?page={page}"))) == 1
        monkeypatch.setattr(audit, "MOST_READ", 3)
        assert "Only the last 3 lines are searched here" in plain(await opened.page("audit?tool=nowhere"))


async def test_the_trail_is_checked_on_request(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    async with console_over(_config(file)) as opened:
        await opened.enter()
        await opened.bus.call("gated_add", ADD)
        assert "This process has not checked the audit log yet." in plain(await opened.page("audit"))
        async with opened.stream("audit") as stream:
            done = await opened.post("audit/check", {})
            assert (done.status_code, done.headers["location"]) == (303, "../audit")
            found = await stream.until(lambda markup: "head" in plain(markup))
        lines = file.read_text().splitlines()
        head = json.loads(lines[-1])
        verdict, _, extent = plain(found).partition(" What was checked ")
        assert verdict.startswith(f"intact 3 lines in 1 file, head 3 {head['hash']}, as of 2")
        assert verdict.endswith(" UTC")
        assert extent == "File Lines Result audit.jsonl 1 to 3 unchanged"
        await opened.bus.call("gated_add", ADD)
        async with opened.stream("audit") as stream:
            later = await stream.until(lambda markup: "head" in plain(markup))
        assert plain(later).startswith(f"{verdict}; more was written since, which is not checked")
        file.write_text("\n".join([lines[0], lines[1].replace("gated", "other"), *lines[2:]]) + "\n")
        async with opened.stream("audit") as stream:
            await opened.post("audit/check", {})
            found = await stream.until(lambda markup: "problem" in plain(markup))
        assert plain(found).startswith(
            "not intact 1 problem in 2 lines in 1 file; the first at audit.jsonl:2"
        )


async def test_markup_in_the_trail_is_text(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    async with console_over(_config(file)) as opened:
        await opened.enter()
        strange = opened.bus.view(caller=Caller(face=HOSTILE, user=HOSTILE))
        with pytest.raises(ToolbusError):
            await strange.call(HOSTILE, {})
        with file.open("a") as trail:  # by somebody else
            trail.write(json.dumps({"time": HOSTILE, "event": HOSTILE, "decision": HOSTILE, "by": HOSTILE}))
            trail.write("\n")
        markup = await opened.page("audit")
        filtered = await opened.http.get(f"{opened.home}/audit", params={"tool": HOSTILE, "caller": HOSTILE})
        table = (await opened.http.get(f"{opened.home}/audit/export?form=csv")).text
    assert PICTURE in table  # it is no markup there
    for text in (markup, filtered.text):
        read = Markup(text)
        assert "img" not in {tag for tag, _ in read.elements}
        assert [one.get("src") for one in read.named("script")] == ["../static/console.js"]
        assert not any(key.startswith("on") for _, given in read.elements for key in given)
        shown = [text or "" for _, given in read.elements for key, text in given.items() if key != "value"]
        assert not any(hidden in text for text in (*shown, read.text) for hidden in "\x1b\u202e")
    assert Markup(markup).text.count(PICTURE) >= 4


async def test_what_is_filtered_is_exported_as_csv_and_json(tmp_path: Path) -> None:
    async with console_over(_config(tmp_path / "audit.jsonl")) as opened:
        await opened.enter()
        await opened.bus.call("gated_add", ADD)
        formula = "=HYPERLINK(1)"
        await opened.bus.view(caller=Caller(face="agent", user=formula)).call("gated_add", ADD)
        page = Markup(await opened.page("audit?tool=gated/*"))
        links = [one["href"] or "" for one in page.named("a") if "export" in (one.get("href") or "")]
        files = [await opened.http.get(f"{opened.home}/{link}") for link in links]
        nothing = await opened.http.get(f"{opened.home}/audit/nothing")
    table, document = files
    assert [file.headers["content-disposition"] for file in files] == [
        'attachment; filename="audit.csv"',
        'attachment; filename="audit.json"',
    ]
    rows = list(csv.DictReader(io.StringIO(table.text)))
    assert [row["outcome"] for row in rows] == ["ok", "ok"]
    # A spreadsheet shows it, and does not run it; for a program it is as it was recorded.
    assert [row["user"] for row in rows] == [f"'{formula}", ""]
    assert [row["user"] for row in document.json()] == [formula, None]
    assert {row["decision"] for row in document.json()} == {"allow"}
    assert nothing.status_code == 404
