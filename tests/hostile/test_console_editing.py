"""The forms of the console that write the config, under attack: by other pages, publishers and the file."""

import asyncio
import shlex
from pathlib import Path

import httpx2
import pytest

from tests.gateway.console.editing import command_line, edited_console, gone_to, hidden, start_text, tried
from tests.gateway.console.opening import Markup, plain
from tests.inside.config import candidate, distrust, servers_in
from tests.patience import PATIENCE
from tests.processes import children
from tests.registry.replay import package, published, serving
from tests.servers.raw_http import Request, raw_server, response

pytestmark = pytest.mark.anyio

EVIL = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\x1b[2K\u202e"
STOLEN = "${AWS_SECRET_ACCESS_KEY} ${cmd:touch stolen} ${file:/etc/passwd}"
ACTIONS = (
    *("add-server/review", "add-server/choose", "add-server/fill", "add-server/try", "add-server/save"),
    *("edit-server/review", "edit-server/save", "edit-server/switch"),
)


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]  # pytest uses it
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


async def test_another_page_that_adds_starts_or_saves_a_server(tmp_path: Path) -> None:
    """A form of another origin, or without the cookie, starts nothing, writes nothing and learns no draft."""
    async with edited_console(tmp_path) as (opened, path):
        typed = {"way": "command", "name": "evil", "command": command_line("stay")}
        _, page = await gone_to(opened, "add-server/review", typed)
        form = typed | hidden(page, "add-server/save") | {"server": "files", "switch": "remove"}
        before = children()
        for action in ACTIONS:
            for origin in ("https://evil.test", "null", "", "http://127.0.0.1:1"):
                answered = await opened.post(action, form, origin=origin)
                assert answered.status_code == 403
            async with httpx2.AsyncClient(timeout=PATIENCE) as stranger:
                headers = {"origin": opened.origin}
                answered = await stranger.post(f"{opened.home}/{action}", data=form, headers=headers)
                assert answered.status_code == 401
        assert children() == before
        assert path.read_text() == start_text()


async def test_another_session_that_uses_the_draft_of_one(tmp_path: Path) -> None:
    """A draft, with the secrets that were typed, belongs to the session that made it."""
    async with edited_console(tmp_path) as (opened, path):
        typed = {"way": "command", "name": "mine", "command": command_line("stay")}
        place, page = await gone_to(opened, "add-server/review", typed)
        form = hidden(page, "add-server/save")
        opened.http.cookies.clear()
        await opened.enter()
        assert "mine" not in plain(await opened.page(place))
        for action in ("add-server/try", "add-server/save", "add-server/discard"):
            _, said = await gone_to(opened, action, form)
            assert "that form is too old" in plain(said)
        assert path.read_text() == start_text()


async def test_a_file_that_is_swapped_between_the_difference_and_the_press_of_save(tmp_path: Path) -> None:
    """Only the shown text is written, and nobody's change is lost."""
    async with edited_console(tmp_path) as (opened, path):
        typed = {"way": "command", "name": "more", "command": command_line()}
        place, page = await gone_to(opened, "add-server/review", typed)
        form = hidden(page, "add-server/save")
        for other in (f"{start_text()}  # x\n", start_text().replace("stay", "modern"), "servers: {}\n"):
            path.write_text(other)
            where, said = await gone_to(opened, "add-server/save", form)
            assert where == place
            assert "The file has changed since it was shown" in plain(said)
            assert path.read_text() == other
        path.unlink()
        path.symlink_to(tmp_path.parent / "elsewhere.yaml")
        (tmp_path.parent / "elsewhere.yaml").write_text(start_text())
        await gone_to(opened, "add-server/save", form)
        assert (tmp_path.parent / "elsewhere.yaml").read_text() == start_text(), "a link out of the folder"


async def test_a_publisher_who_writes_markup_and_references_into_an_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text from a registry is data: it runs nothing, reads no secret, and is shown as it is."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "stolen-key-4711")
    variables = [
        {
            "name": "A",
            "description": EVIL + STOLEN,
            "isRequired": True,
            "placeholder": EVIL,
            "default": STOLEN,
        },
        {"name": "B", "description": STOLEN, "choices": [EVIL, STOLEN]},
    ]
    npm = package("npm", "notes", environmentVariables=variables)
    entry = published("io.test/notes", packages=[npm], description=EVIL + STOLEN, title=EVIL)
    with serving([entry]) as registry:
        async with edited_console(tmp_path, f"registry: {registry.url}\n{start_text()}") as (opened, path):
            pages = [await opened.page("add-server?way=registry&search=notes")]
            place, _ = await gone_to(opened, "add-server/choose", hidden(pages[0], "add-server/choose"))
            pages.append(await opened.page(place))
            _, page = await gone_to(opened, "add-server/fill", hidden(pages[1], "add-server/fill"))
            pages.append(page)
            await gone_to(opened, "add-server/save", hidden(page, "add-server/save"))
            written = servers_in(path.read_text(), path)["notes"]
    for page in pages:
        read = Markup(page)
        assert "img" not in {tag for tag, _ in read.elements}
        assert not any(key.startswith("on") for _, given in read.elements for key in given)
        # A form sends back what it was given; everything else hides nothing.
        shown = [text or "" for _, given in read.elements for key, text in given.items() if key != "value"]
        assert not any(hidden in text for text in (*shown, read.text) for hidden in "\x1b\u202e")
        assert "stolen-key-4711" not in page
    assert written["env"]["A"] == STOLEN.replace("${", "$${")
    assert not (tmp_path / "stolen").exists()


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/b", ".", "a\nb", "x: {command: evil}", "-x"])
async def test_a_name_that_is_a_path_or_yaml(tmp_path: Path, name: str) -> None:
    """A name is letters, digits, '_', '-' and '.'; anything else is refused before it is used."""
    async with edited_console(tmp_path) as (opened, path):
        _, page = await gone_to(opened, "add-server/review", {"way": "command", "name": name, "command": "x"})
        assert "invalid server name" in plain(page)
        assert path.read_text() == start_text()


async def test_a_command_with_line_feeds_and_yaml_in_it(tmp_path: Path) -> None:
    """An argument stays one argument in the file, and is shown on one line with nothing hidden."""
    evil = "a\n  evil:\n    command: touch stolen\u202e\x1b[2K"
    async with edited_console(tmp_path) as (opened, path):
        typed = {"way": "command", "name": "x", "command": f"python {shlex.quote(evil)}", "cwd": "a\nb: c"}
        _, page = await gone_to(opened, "add-server/review", typed)
        assert "a\\n evil:" in plain(page)
        assert "\u202e" not in page
        await gone_to(opened, "add-server/save", hidden(page, "add-server/save"))
        written = servers_in(path.read_text(), path)
    assert list(written) == ["files", "x"]
    assert written["x"] == {"command": "python", "args": [evil], "cwd": "a\nb: c"}


async def test_a_url_that_redirects_the_trial_elsewhere(tmp_path: Path) -> None:
    """A trial reaches what the person typed; a redirect to another origin is not followed."""
    async with raw_server() as other, raw_server() as first:
        target = f"http://127.0.0.1:{other.port}/mcp"

        async def redirect(writer: asyncio.StreamWriter, request: Request) -> None:
            writer.write(response(b"", f"location: {target}", status="307 Temporary Redirect"))

        first.send_other = redirect
        async with edited_console(tmp_path) as (opened, _):
            url = f"http://127.0.0.1:{first.port}/mcp"
            typed = {"way": "url", "name": "web", "url": url, "auth": "token", "token": "tok-123456"}
            place, page = await gone_to(opened, "add-server/review", typed)
            shown = await tried(opened, place, page)
        assert "failed" in plain(shown)
        assert other.requests == []


async def test_a_form_with_a_secret_that_is_read_in_every_page_and_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A typed secret is on no page, in no log and not in the config; only in .env."""
    caplog.set_level("DEBUG")
    secret = "very-secret-value-4711"
    async with edited_console(tmp_path) as (opened, path):
        typed = {
            "way": "command",
            "name": "x",
            "command": command_line("exit_at_once"),
            "env": f"API_TOKEN={secret}",
            "secret-name-1": "PLAIN",
            "secret-value-1": secret[::-1],
        }
        place, page = await gone_to(opened, "add-server/review", typed)
        pages = [page, await tried(opened, place, page), await opened.page(f"{place}&change=yes")]
        _, saved = await gone_to(opened, "add-server/save", hidden(page, "add-server/save"))
        pages += [saved, await opened.page("edit-server?name=x"), repr(opened.console.server_drafts)]
    for text in (*pages[:2], *pages[3:], caplog.text, path.read_text()):
        assert secret not in text
        assert secret[::-1] not in text
    assert secret in (tmp_path / ".env").read_text()
    assert (tmp_path / ".env").stat().st_mode & 0o077 == 0


async def test_a_file_that_somebody_else_changed_is_not_trusted_by_saving(tmp_path: Path) -> None:
    """Saving a server does not accept what somebody else has put into a config that was found."""
    async with edited_console(tmp_path, is_found=True) as (opened, path):
        typed = {"way": "command", "name": "mine", "command": command_line()}
        _, page = await gone_to(opened, "add-server/review", typed)
        await gone_to(opened, "add-server/save", hidden(page, "add-server/save"))
        assert distrust(candidate(path)) is None, "it was trusted, and stays so"
        path.write_text(path.read_text() + "  evil: {command: touch, args: [stolen]}\n")
        _, page = await gone_to(opened, "add-server/review", typed | {"name": "more"})
        assert "The file is not trusted as it is now" in plain(page)
        await gone_to(opened, "add-server/save", hidden(page, "add-server/save"))
        assert "more:" in path.read_text()
        assert distrust(candidate(path)) == "has changed since you trusted it"
        assert "evil" not in opened.bus.servers
