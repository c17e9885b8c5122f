"""Servers that are added in the console: by command, by URL and from the registry, with a trial before."""

from collections.abc import Iterator
from pathlib import Path

import keyring
import pytest

from tests.auth.keyrings import FileKeyring
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
from tests.gateway.console.opening import console_over, plain
from tests.inside.config import Serve
from tests.patience import until
from tests.processes import children
from tests.registry.replay import package, published, serving
from tests.servers.recording import recording

pytestmark = pytest.mark.anyio

SECRET = "s3cr3t-value-4711"


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]  # pytest uses it
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


async def test_a_server_is_added_by_command_after_a_review_and_a_trial(tmp_path: Path) -> None:
    async with edited_console(tmp_path) as (opened, path):
        typed = {
            "way": "command",
            "name": "more",
            "command": command_line("stderr_flood"),
            "env": "LEVEL=high",
            "secret-name-1": "THING",
            "secret-value-1": SECRET,
            "place": "env",
        }
        place, page = await gone_to(opened, "add-server/review", typed)
        assert place.startswith("add-server?draft=")
        assert f"command {command_line('stderr_flood')}" in plain(page)
        assert "env LEVEL=high" in plain(page)
        assert "secret env.THING is kept in the file .env beside the config as THING" in plain(page)
        assert "+ more:" in plain(page)
        assert SECRET not in page
        assert path.read_text() == start_text(), "nothing is written before Save"
        shown = await tried(opened, place, page)
        assert "works It started within" in plain(shown)
        assert "echo Say it again." in plain(shown)
        assert "the end of the flood" in plain(shown)
        assert "more" not in opened.bus.servers
        place, page = await gone_to(opened, "add-server/save", hidden(shown, "add-server/save"))
        assert place == "server?name=more"
        assert "Saved more." in plain(page)
        await in_use(opened, "more")
    after = path.read_text()
    assert after.startswith(start_text())
    assert SECRET not in after
    assert "THING: ${THING}" in after
    assert (tmp_path / ".env").read_text() == f"THING='{SECRET}'\n"


async def test_the_process_of_a_trial_ends_with_it_and_with_a_discarded_draft(tmp_path: Path) -> None:
    async with edited_console(tmp_path, "servers: {}\n") as (opened, _):
        before = children()
        place, page = await gone_to(
            opened, "add-server/review", {"way": "command", "name": "x", "command": command_line("stay")}
        )
        assert children() == before, "a review starts nothing"
        shown = await tried(opened, place, page)
        assert children() == before
        typed = {"way": "command", "name": "x", "command": command_line("never_answer")}
        place, page = await gone_to(opened, "add-server/review", typed)
        await opened.post("add-server/try", hidden(page, "add-server/try"))
        goes_to, _ = await gone_to(opened, "add-server/discard", hidden(page, "add-server/discard"))
        assert goes_to == "servers"
    assert "works" in plain(shown)
    await until(lambda: children() == before)


async def test_a_trial_that_fails_shows_the_reason_and_stderr_and_the_server_can_be_changed(
    tmp_path: Path,
) -> None:
    async with edited_console(tmp_path) as (opened, path):
        typed = {"way": "command", "name": "bad", "command": command_line("exit_at_once")}
        place, page = await gone_to(opened, "add-server/review", typed)
        shown = plain(await tried(opened, place, page))
        assert "failed after" in shown
        assert "exit code 3" in shown
        assert "cannot open the database" in shown
        form = await opened.page(f"{place}&change=yes")
        assert f'value="{command_line("exit_at_once")}"' in form
        given = hidden(form, "add-server/review") | typed | {"command": command_line()}
        again, page = await gone_to(opened, "add-server/review", given)
        assert again == place
        assert "works" in plain(await tried(opened, place, page))
    assert path.read_text() == start_text()


@pytest.mark.parametrize(
    ("typed", "problem"),
    [
        ({"way": "command", "command": ""}, "Command: expected a program and its arguments"),
        ({"way": "command", "command": "python 'x"}, "Command: cannot be split into words"),
        ({"way": "command", "command": "x", "name": "../x"}, "invalid server name '../x'"),
        ({"way": "command", "command": "x", "name": "files"}, "already has a server 'files'"),
        ({"way": "command", "command": "x", "env": "A"}, "Variables: expected one NAME=value per line"),
        ({"way": "command", "command": "x", "env": "A=${"}, "a ${ is not closed"),
        ({"way": "url", "url": "example.com/mcp"}, "URL: expected a URL that starts with https://"),
        ({"way": "url", "url": "https://e.test/mcp", "auth": "token"}, "Token: expected a token"),
        ({"way": "url", "url": "https://e.test/mcp", "token": SECRET}, "Token: choose 'a token'"),
        ({"way": "url", "url": "https://e.test", "headers": "Connection: x"}, "toolbus sets it itself"),
    ],
)
async def test_a_form_that_cannot_be_used_says_which_field_and_keeps_the_rest(
    tmp_path: Path, typed: dict[str, str], problem: str
) -> None:
    async with edited_console(tmp_path) as (opened, path):
        place, page = await gone_to(opened, "add-server/review", typed)
        assert "draft=" in place
        assert problem in plain(page)
        assert 'action="add-server/review"' in page
        assert 'action="add-server/save"' not in page
    assert path.read_text() == start_text()


async def test_a_secret_variable_is_not_lost_when_the_form_is_sent_again(tmp_path: Path) -> None:
    async with edited_console(tmp_path) as (opened, path):
        typed = {"way": "command", "name": "not a name", "command": command_line("stay"), "env": ""}
        secret = {"secret-name-1": "THING", "secret-value-1": SECRET}
        _, page = await gone_to(opened, "add-server/review", {**typed, **secret})
        assert "invalid server name" in plain(page)
        assert 'name="secret-name-1"' in page
        assert 'value="THING"' in page
        assert "Type their values again" in plain(page)
        assert SECRET not in page
        again = {**typed, "name": "more", **secret, "secret-value-1": ""}
        _, page = await gone_to(opened, "add-server/review", again | hidden(page, "add-server/review"))
        assert "a secret variable has no value" in plain(page)
        assert 'action="add-server/save"' not in page
    assert path.read_text() == start_text()


async def test_a_server_is_added_by_url_and_its_token_goes_to_env(tmp_path: Path) -> None:
    with recording() as record:
        await _added_by_url(tmp_path, record.url)


async def _added_by_url(folder: Path, url: str) -> None:
    async with edited_console(folder) as (opened, path):
        typed = {"way": "url", "name": "web", "url": url, "auth": "token", "token": SECRET}
        place, page = await gone_to(opened, "add-server/review", typed)
        assert f"url {url}" in plain(page)
        assert SECRET not in page
        shown = await tried(opened, place, page)
        assert "works" in plain(shown)
        await gone_to(opened, "add-server/save", hidden(shown, "add-server/save"))
        await in_use(opened, "web")
    assert "auth: ${WEB_TOKEN}" in path.read_text()
    assert (folder / ".env").read_text() == f"WEB_TOKEN='{SECRET}'\n"


async def test_a_server_of_the_registry_asks_for_its_inputs(tmp_path: Path) -> None:
    variables = [
        {"name": "NOTES_TOKEN", "description": "From <b>the site</b>", "isRequired": True, "isSecret": True},
        {"name": "LEVEL", "choices": ["low", "high"], "default": "low"},
    ]
    npm = package("npm", "notes", "1.2.3", environmentVariables=variables)
    with serving([published("io.test/notes", packages=[npm])]) as registry:
        text = f"registry: {registry.url}\n{start_text()}"
        async with edited_console(tmp_path, text) as (opened, path):
            page = await opened.page("add-server?way=registry&search=notes")
            assert "io.test/notes 1" in plain(page)
            place, page = await gone_to(opened, "add-server/choose", hidden(page, "add-server/choose"))
            page = await opened.page(place)
            assert "NOTES_TOKEN (required, secret)" in plain(page)
            assert "From <b>the site</b>" in plain(page)
            _, page = await gone_to(opened, "add-server/fill", hidden(page, "add-server/fill"))
            assert "needs a value for NOTES_TOKEN" in plain(page)
            given = hidden(page, "add-server/fill") | {"input-NOTES_TOKEN": SECRET, "input-LEVEL": "high"}
            _, page = await gone_to(opened, "add-server/fill", given)
            assert "command npx -y notes@1.2.3" in plain(page)
            assert "secret NOTES_TOKEN is kept in the file .env" in plain(page)
            _, page = await gone_to(opened, "add-server/save", hidden(page, "add-server/save"))
            assert SECRET not in page
    after = path.read_text()
    assert "NOTES_TOKEN: ${NOTES_TOKEN}" in after
    assert "LEVEL: high" in after
    assert "registry: io.test/notes@" in after
    assert SECRET not in after


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[FileKeyring]:
    """A keyring of this test alone."""
    before, made = keyring.get_keyring(), FileKeyring(tmp_path / "passwords.json")
    keyring.set_keyring(made)
    yield made
    keyring.set_keyring(before)


async def test_secrets_are_kept_in_the_keyring_if_the_person_chooses_that(
    tmp_path: Path, ring: FileKeyring
) -> None:
    keyring.set_password("toolbus THING", "toolbus", "of another project")
    async with edited_console(tmp_path) as (opened, path):
        typed = {"way": "command", "name": "more", "command": command_line(), "place": "keyring"}
        typed |= {"secret-name-1": "THING", "secret-value-1": SECRET}
        place, page = await gone_to(opened, "add-server/review", typed)
        assert "is kept in the keyring of this machine" in plain(page)
        shown = await tried(opened, place, page)
        assert "works" in plain(shown), "the trial needs no keyring"
        assert SECRET not in ring.entries.values(), "nothing is kept before Save"
        await gone_to(opened, "add-server/save", hidden(shown, "add-server/save"))
        await in_use(opened, "more")
    assert "THING: ${keyring:toolbus THING_2/toolbus}" in path.read_text()
    assert ring.entries == {"toolbus THING toolbus": "of another project", "toolbus THING_2 toolbus": SECRET}
    assert not (tmp_path / ".env").exists()


async def test_a_console_that_is_open_to_others_adds_nothing_unless_that_is_wanted(tmp_path: Path) -> None:
    async with edited_console(tmp_path, serve=Serve(console=True)) as (opened, path):
        for page in ("add-server", "edit-server?name=files", "edit-server?name=files&switch=disable"):
            shown = await opened.page(page)
            assert "This console is open to other machines" in plain(shown)
            assert 'action="add-server' not in shown
            assert 'action="edit-server' not in shown
        typed = {"way": "command", "name": "x", "command": command_line()}
        _, page = await gone_to(opened, "add-server/review", typed)
        assert "Set serve.console: edit" in plain(page)
        _, page = await gone_to(
            opened, "edit-server/switch", {"server": "files", "switch": "disable", "digest": "x"}
        )
        assert "This console is open to other machines" in plain(page)
    assert path.read_text() == start_text()
    async with edited_console(tmp_path, serve=Serve(console="edit")) as (opened, path):
        assert 'action="add-server/review"' in await opened.page("add-server")


async def test_a_config_without_a_file_cannot_be_edited_and_says_so() -> None:
    async with console_over({"servers": {"files": {"command": "python", "args": [PLAIN]}}}) as opened:
        await opened.enter()
        assert "This bus has no config file." in plain(await opened.page("add-server"))
