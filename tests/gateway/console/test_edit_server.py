"""Servers that are changed, switched and removed in the console: the review shows exactly the new text."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.console.editing import (
    PLAIN,
    command_line,
    edited_console,
    gone_to,
    hidden,
    in_use,
    start_text,
    tried,
)
from tests.gateway.console.opening import plain
from tests.inside.config import servers_in, with_changed_entry
from tests.inside.console import MaskedEntry
from tests.patience import until
from toolbus import ConfigError

pytestmark = pytest.mark.anyio

LITERAL = "sk-abcdefghijklmnop1234567890"


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]  # pytest uses it
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def _usual(page: str) -> dict[str, str]:
    return hidden(page, "edit-server/review") | {"command": command_line("stay"), "env": "LEVEL=low"}


async def test_a_field_is_changed_and_the_rest_of_the_file_stays(tmp_path: Path) -> None:
    async with edited_console(tmp_path) as (opened, path):
        page = await opened.page("edit-server?name=files")
        assert "LEVEL=low" in page
        given = _usual(page) | {"env": "LEVEL=high", "timeout-call": "9", "exclude": "delete_*"}
        place, page = await gone_to(opened, "edit-server/review", given)
        assert place.startswith("edit-server?name=files&draft=")
        assert "env LEVEL=high" in plain(page), "the launch has changed, so it is reviewed"
        assert "works It started within" in plain(await tried(opened, place, page))
        assert opened.bus.servers["files"].restarts == 0, "the trial is another process"
        _, page = await gone_to(opened, "edit-server/save", hidden(page, "edit-server/save"))
        assert "Saved files." in plain(page)
        await until(lambda: opened.bus.config.servers["files"].timeouts.call == 9)
    after = path.read_text()
    assert "# the first one\n" in after
    assert "env: {LEVEL: high}  # quiet" in after
    assert after.startswith("# my servers\n")


async def test_a_change_that_starts_nothing_else_needs_no_review(tmp_path: Path) -> None:
    async with edited_console(tmp_path) as (opened, _):
        page = await opened.page("edit-server?name=files")
        _, page = await gone_to(opened, "edit-server/review", _usual(page) | {"timeout-call": "9"})
    assert "Review" not in plain(page)
    assert "timeouts:" in plain(page)


async def test_the_entry_is_changed_as_text_with_the_messages_of_the_config(tmp_path: Path) -> None:
    async with edited_console(tmp_path) as (opened, path):
        page = await opened.page("edit-server?name=files")
        given = hidden(page, "edit-server/review") | {"as": "text"}
        for text, problem in (
            ("command: [", "line"),
            ("command: python\nargz: []", "unknown key; did you mean 'args'?"),
            ("url: ftp://x", "expected a URL that starts with http:// or https://"),
        ):
            _, page = await gone_to(opened, "edit-server/review", given | {"text": text})
            assert problem in plain(page)
            assert "Save" not in plain(page)
            assert text.splitlines()[0] in page
        entry = json.dumps({"command": "python", "args": [PLAIN], "lazy": True})
        _, page = await gone_to(opened, "edit-server/review", given | {"text": entry})
        await gone_to(opened, "edit-server/save", hidden(page, "edit-server/save"))
        await until(lambda: opened.bus.config.servers["files"].lazy)
    assert "lazy: true" in path.read_text()


@pytest.mark.parametrize("switch", ["disable", "enable", "remove"])
async def test_a_server_is_switched_in_the_file_as_the_command_line_does(tmp_path: Path, switch: str) -> None:
    text = (
        start_text()
        + ("    enabled: false\n" if switch == "enable" else "")
        + "  more: {command: x, lazy: true}\n"
    )
    async with edited_console(tmp_path, text) as (opened, path):
        page = await opened.page(f"edit-server?name=files&switch={switch}")
        assert str(path) in plain(page)
        assert ("Review command" in plain(page)) is (switch == "enable"), "it starts a program"
        assert path.read_text() == text
        _, page = await gone_to(opened, "edit-server/switch", hidden(page, "edit-server/switch"))
        assert f"{switch.capitalize().rstrip('e')}ed files." in plain(page)
        if switch == "enable":
            await in_use(opened, "files")
            assert "enabled: true" in path.read_text()
        else:
            await until(lambda: "files" not in opened.bus.servers)
            assert ("enabled: false" in path.read_text()) is (switch == "disable")
            assert ("files:" in path.read_text()) is (switch == "disable")
    assert "more: {command: x, lazy: true}" in path.read_text()


async def test_a_file_that_changed_since_it_was_shown_is_not_written(tmp_path: Path) -> None:
    async with edited_console(tmp_path) as (opened, path):
        page = await opened.page("edit-server?name=files")
        _, page = await gone_to(opened, "edit-server/review", _usual(page) | {"timeout-call": "9"})
        other = start_text() + "# another hand\n"
        path.write_text(other)
        place, page = await gone_to(opened, "edit-server/save", hidden(page, "edit-server/save"))
        assert "The file has changed since it was shown. Nothing was written." in plain(page)
        assert path.read_text() == other
        assert "# another hand" in plain(page), "the new difference"
        await gone_to(opened, "edit-server/save", hidden(page, "edit-server/save"))
        assert place.startswith("edit-server?")
    assert path.read_text().endswith("# another hand\n")
    assert "timeouts" in path.read_text()


async def test_the_overview_says_that_a_changed_config_is_not_in_use(tmp_path: Path) -> None:
    async with edited_console(tmp_path) as (opened, path):
        text = path.read_text()
        path.write_text(f"{text}history: bogus\n")
        await until(lambda: bool(opened.console.config_problem()))
        page = plain(await opened.page("overview"))
        assert "The config has changed, but is not in use history.keep: expected calls or everything" in page
        path.write_text(text)
        await until(lambda: opened.console.config_problem() is None)
        assert "is not in use" not in plain(await opened.page("overview"))


async def test_a_secret_in_the_file_is_shown_nowhere_and_stays(tmp_path: Path) -> None:
    text = start_text().replace("LEVEL: low", f"LEVEL: low, API_KEY: {LITERAL}")
    async with edited_console(tmp_path, text) as (opened, path):
        page = await opened.page("edit-server?name=files")
        shown = [page, await opened.page("server?name=files")]
        assert "API_KEY=***" in page
        typed = _usual(page) | {"env": "LEVEL=low\nAPI_KEY=***\nOTHER_TOKEN=fresh-token-1234", "place": "env"}
        _, page = await gone_to(opened, "edit-server/review", typed)
        shown.append(page)
        await gone_to(opened, "edit-server/save", hidden(page, "edit-server/save"))
        text = "command: x\nenv: {API_KEY: a***}"
        given = hidden(shown[0], "edit-server/review") | {"as": "text", "text": text}
        _, page = await gone_to(opened, "edit-server/review", given)
    assert not any(LITERAL in page or "fresh-token-1234" in page for page in shown)
    assert f"API_KEY: {LITERAL}" in path.read_text(), "it was there before, and nobody asked to move it"
    assert 'OTHER_TOKEN: "${OTHER_TOKEN}"' in path.read_text()
    assert (tmp_path / ".env").read_text() == "OTHER_TOKEN='fresh-token-1234'\n"


async def test_a_server_of_the_users_own_config_is_changed_in_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own"))
    own = tmp_path / "own" / "toolbus" / "toolbus.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("servers:\n  notes: {command: python, args: [x.py], lazy: true}\n")
    async with edited_console(tmp_path, f"extends: user\n{start_text()}") as (opened, path):
        page = await opened.page("edit-server?name=notes&switch=disable")
        assert f"The entry is in {own}" in plain(page)
        await gone_to(opened, "edit-server/switch", hidden(page, "edit-server/switch"))
    assert "enabled: false" in own.read_text()
    assert "notes" not in path.read_text()


LAYOUTS = {
    "toolbus.yaml": "servers:\n  a:\n    command: x\n    # kept\n    args:\n      - one\n      - two\n"
    "    env:\n      A: '1'\n",
    "toolbus.json": '{"servers": {"a": {"command": "x", "args": ["one", "two"], "env": {"A": "1"}}}}\n',
    "toolbus.toml": '[servers.a]\ncommand = "x"  # kept\nargs = ["one", "two"]\n\n[servers.a.env]\nA = "1"\n',
}
CHANGES: list[dict[str, Any]] = [
    {"command": "y", "args": ["one", "two"], "env": {"A": "1"}},
    {"command": "x", "args": ["one", "2", "three"], "env": {"A": "1", "B": "2"}},
    {"command": "x", "args": ["two"], "env": {}},
    {"command": "x", "timeouts": {"call": 5}},
    {"url": "https://example.com/mcp"},
]


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_an_entry_is_changed_in_every_format_and_nothing_else(name: str, number: int) -> None:
    path = Path(name)
    after = with_changed_entry(LAYOUTS[name], path, "a", CHANGES[number])
    assert servers_in(after, path) == {"a": CHANGES[number]}
    if number == 0:
        assert ("# kept" in after) is ("# kept" in LAYOUTS[name])


def test_a_masked_entry_gives_its_secrets_back_and_no_others() -> None:
    entry = {"command": "x", "args": ["--token", "abcdef123456"], "env": {"API_KEY": LITERAL, "PATH": "/bin"}}
    masked = MaskedEntry.of(entry)
    assert masked.shown == {
        "command": "x",
        "args": ["--token", "***"],
        "env": {"API_KEY": "***", "PATH": "/bin"},
    }
    again, kept = masked.kept(masked.shown)
    assert sorted(kept.values()) == ["abcdef123456", LITERAL]
    assert LITERAL not in str(again)
    with pytest.raises(ConfigError, match=r"type it again at env\.NEW"):
        masked.kept({"command": "x", "env": {"NEW": "***"}})
