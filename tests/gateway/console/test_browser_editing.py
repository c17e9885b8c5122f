"""Servers that are added and changed in a real browser: by mouse, by keyboard, and without script."""

from pathlib import Path

import pytest

from tests.gateway.console.chromium import SMALL, Chromium, Tab
from tests.gateway.console.editing import command_line, edited_console, in_use, start_text
from tests.patience import until
from tests.registry.replay import package, published, serving
from tests.servers.recording import recording

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]  # pytest uses it
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


async def _tab_to(tab: Tab, text: str) -> None:
    """Press Tab until an element with this text, label or name has the focus."""
    script = """(() => { const one = document.activeElement;
      return [one.textContent, one.getAttribute('aria-label'), one.name].includes(%r); })()"""
    for _ in range(80):
        await tab.press("Tab")
        if await tab.run(script % text):
            return
    raise AssertionError(f"Tab never reaches {text!r}")


async def test_a_server_is_added_by_command_by_mouse(browser: Chromium, tmp_path: Path) -> None:
    async with edited_console(tmp_path) as (opened, path), browser.tab() as tab:
        await tab.enter(opened)
        await tab.goto(f"{tab.home}/servers")
        await tab.click("text=Add a server")
        await tab.click(".ways >> text=Command")
        await tab.fill("[name=command]", command_line("exit_at_once"))
        await tab.fill("[name=name]", "more")
        await tab.fill("[name=secret-name-1]", "API_KEY")
        await tab.fill("[name=secret-value-1]", "typed-once-4711")
        await tab.click("button:text-is('Review')")
        await tab.see("h2", "Add more")
        await tab.see(".difference .added", "API_KEY: ${API_KEY}")
        await tab.click("button:text-is('Try it')")
        await tab.see("#trial .badge", "failed")
        await tab.see("#trial pre", "cannot open the database")
        await tab.click("text=Change")
        assert await tab.do("inputValue", "[name=command]") == command_line("exit_at_once")
        assert await tab.do("inputValue", "[name=secret-name-1]") == "API_KEY"
        assert await tab.do("inputValue", "[name=secret-value-1]") == ""
        await tab.fill("[name=secret-value-1]", "typed-once-4711")
        await tab.fill("[name=command]", command_line("twelve_tools"))
        await tab.click("button:text-is('Review')")
        await tab.click("button:text-is('Try it')")
        await tab.see("#trial .badge", "works")
        await tab.see("#trial", "offers 12 tools")
        assert path.read_text() == start_text()
        await tab.click("button:text-is('Save')")
        await tab.see(".notice", "Saved more.")
        await tab.see("#server-state .badge", "ready")
        await tab.see("#server-tools", "12 tools")
    assert "more:" in path.read_text()


async def test_a_server_is_added_by_url_by_keyboard_alone(browser: Chromium, tmp_path: Path) -> None:
    with recording() as record:
        async with edited_console(tmp_path) as (opened, path), browser.tab() as tab:
            await tab.enter(opened)
            await tab.goto(f"{tab.home}/servers")
            await _tab_to(tab, "Add a server")
            await tab.press("Enter")
            await tab.see("[name=url]")
            await _tab_to(tab, "url")
            await tab.do("keyboard.type", record.url)
            await _tab_to(tab, "name")
            await tab.do("keyboard.type", "web")
            await tab.press("Enter")
            await tab.see("h2", "Add web")
            await _tab_to(tab, "Try it: web")
            await tab.press("Enter")
            await tab.see("#trial .badge", "works")
            await _tab_to(tab, "Save web")
            await tab.press("Enter")
            await tab.see("#server-state .badge", "ready")
            assert await tab.text("#launch") == record.url
    assert "web:" in path.read_text()


async def test_a_server_of_the_registry_is_added_on_a_phone(browser: Chromium, tmp_path: Path) -> None:
    variables = [{"name": "NOTES_TOKEN", "isRequired": True, "isSecret": True, "description": "Your token"}]
    npm = package("npm", "notes", environmentVariables=variables)
    with serving([published("io.test/notes", packages=[npm])]) as registry:
        text = f"registry: {registry.url}\n{start_text()}"
        async with edited_console(tmp_path, text) as (opened, path), browser.tab(viewport=SMALL) as tab:
            await tab.enter(opened)
            await tab.goto(f"{tab.home}/add-server?way=registry")
            await tab.fill("[name=search]", "notes")
            await tab.click("button:text-is('Search')")
            await tab.click("button:text-is('Choose')")
            # The page goes on by itself once the server was looked up.
            await tab.see("label", "NOTES_TOKEN")
            await tab.fill("[name='input-NOTES_TOKEN']", "typed-once-4711")
            await tab.click("button:text-is('Review')")
            await tab.see(".review", "NOTES_TOKEN is kept in the file .env")
            await tab.click("button:text-is('Save')")
            await tab.see(".notice", "Saved notes.")
    assert "typed-once-4711" not in path.read_text()
    assert "typed-once-4711" in (tmp_path / ".env").read_text()


@pytest.mark.parametrize("script", [True, False])
async def test_a_server_is_restarted_edited_disabled_and_enabled(
    browser: Chromium, tmp_path: Path, script: bool
) -> None:
    async with (
        edited_console(tmp_path) as (opened, path),
        browser.tab(javaScriptEnabled=script) as tab,
    ):
        await tab.enter(opened)
        await tab.goto(f"{tab.home}/server?name=files")
        await tab.click("[aria-label='Restart files']")
        await tab.see(".notice", "Restarting files.")
        await until(lambda: opened.bus.servers["files"].restarts == 1)
        await tab.click("[aria-label='Edit files']")
        await tab.fill("[name=env]", "LEVEL=high")
        await tab.click("button:text-is('Review')")
        await tab.see(".difference .added", "LEVEL: high")
        await tab.click("button:text-is('Save')")
        await tab.see(".notice", "Saved files.")
        await tab.see(".facts", "LEVEL")
        await tab.click("[aria-label='Disable files']")
        await tab.see(".difference .added", "enabled: false")
        await tab.click("button:text-is('Disable files')")
        await tab.see("#server-state .badge", "disabled")
        await tab.click("[aria-label='Enable files']")
        await tab.see(".review", "command")
        await tab.click("button:text-is('Enable files')")
        await tab.see(".notice", "Enabled files.")
        await in_use(opened, "files")
        await tab.goto(f"{tab.home}/server?name=files")
        await tab.see("#server-state .badge", "ready")
        await tab.click("[aria-label='Remove files']")
        await tab.click("button:text-is('Remove files')")
        await tab.see(".notice", "Removed files.")
        await tab.see("main", "The config has no servers.")
    assert "files" not in path.read_text()
    assert path.read_text().startswith("# my servers\n")


async def test_a_launch_line_is_copied_and_stderr_is_followed_and_searched(
    browser: Chromium, tmp_path: Path
) -> None:
    text = start_text().replace("stay", "stderr_flood")
    async with (
        edited_console(tmp_path, text) as (opened, _),
        browser.tab(permissions=["clipboard-read", "clipboard-write"]) as tab,
    ):
        await tab.enter(opened)
        await tab.goto(f"{tab.home}/server?name=files")
        await tab.click("button:text-is('Copy')")
        await tab.see("button", "Copied")
        assert await tab.run("navigator.clipboard.readText()") == command_line("stderr_flood")
        await tab.see("pre[data-follow]", "the end of the flood")
        at_end = (
            "(log => log.scrollTop + log.clientHeight >= log.scrollHeight - 2)(document.querySelector('pre'))"
        )
        assert await tab.run(at_end)
        await opened.bus.restart("files")
        await tab.see("#server-stderr", "lines")
        await tab.fill("#stderr-search", "END of the flood")
        await tab.press("Enter")
        await tab.see("#server-stderr", "2 lines")
        assert "search=END" in await tab.do("url")
