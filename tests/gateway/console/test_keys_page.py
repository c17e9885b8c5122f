"""The page of the keys: facts about each, a new one that is shown once, and revoking."""

from pathlib import Path

import pytest

from tests.gateway.console.opening import Markup, console_over, plain
from tests.gateway.driving import JSON, ModernClient
from tests.gateway.front import Gates, gated
from tests.inside.config import Serve, ServeAuth, ServeView
from tests.inside.console import ConsoleKeys
from tests.inside.gateway import (
    ConnectedClients,
    Gateway,
    Principal,
    StoredKeys,
    digest_of_key,
    file_keys,
)
from tests.lock.place import Place

pytestmark = pytest.mark.anyio
ADD: JSON = {"a": 1, "b": 2}

PICTURE = "<img src=x onerror=alert(1)>"
HOSTILE = f"</td><script>alert('1')</script>{PICTURE}\"&\x1b[31m\u202e"


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoredKeys:
    """The keys of a config, in a state folder of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return file_keys(Place(tmp_path / "place").config)


def _keys(stored: StoredKeys, *views: str) -> ConsoleKeys:
    named = {name: ServeView() for name in ("default", *views)}
    return ConsoleKeys(stored=stored, serve=Serve(auth=ServeAuth(keys=True), views=named))


async def test_a_key_is_added_shown_once_and_revoked(stored: StoredKeys, tmp_path: Path) -> None:
    async with console_over(tmp_path / "place" / "toolbus.json") as opened:
        await opened.enter()
        assert "Keys" not in plain(await opened.page("servers"))
        assert (await opened.http.get(f"{opened.home}/keys")).status_code == 404
        assert (await opened.post("keys/add", {"name": "ann", "view": "default"})).status_code == 404
        opened.console.keys = _keys(stored, "research")
        assert "There are no keys." in plain(await opened.page("keys"))
        form = {"name": "ann", "view": "research", "user": "ann@x", "days": "30"}
        done = await opened.post("keys/add", form)
        first, again = plain(await opened.page("keys")), plain(await opened.page("keys"))
        key = first.partition("which is not shown again: ")[2].split()[0]
        [made] = stored.all()
        assert (done.status_code, done.headers["location"]) == (303, "../keys")
        assert made.digest == digest_of_key(key)
        assert (made.views, made.user) == (("research",), "ann@x")
        assert made.expires is not None
        assert round((made.expires - made.created) / 86_400) == 30
        assert key not in again
        assert "ann research ann@x 20" in again
        revoked = await opened.post("keys/revoke", {"name": "ann"})
        said = plain(await opened.page("keys"))
    assert revoked.status_code == 303
    assert "Revoked ann. Keys There are no keys." in said
    assert stored.all() == []


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"name": "a b"}, "a name has letters"),
        ({"view": "nowhere"}, "the config has no view named 'nowhere'"),
        ({"days": "0"}, "a key is valid for 1 to 3650 days"),
        ({"days": "1e3"}, "a key is valid for 1 to 3650 days"),
        ({"name": "taken"}, "there is a key named 'taken'"),
    ],
)
async def test_what_does_not_make_a_key_is_a_notice(
    stored: StoredKeys, tmp_path: Path, wrong: dict[str, str], reason: str
) -> None:
    stored.add("taken")
    async with console_over(tmp_path / "place" / "toolbus.json") as opened:
        await opened.enter()
        opened.console.keys = _keys(stored)
        await opened.post("keys/add", {"name": "ann", "view": "default", **wrong})
        assert reason in plain(await opened.page("keys"))
    assert [key.name for key in stored.all()] == ["taken"]


async def test_a_file_that_cannot_be_used_is_reported(stored: StoredKeys, tmp_path: Path) -> None:
    stored.add("ann")
    [file] = (tmp_path / "state").rglob("*.keys.json")
    file.write_text("{")
    async with console_over(tmp_path / "place" / "toolbus.json") as opened:
        await opened.enter()
        opened.console.keys = _keys(stored)
        page = plain(await opened.page("keys"))
        await opened.post("keys/add", {"name": "bob", "view": "default"})
        said = plain(await opened.page("keys"))
    assert "keys cannot be used: " in page
    assert said.count("is damaged; delete it, and add keys again") == 2


async def test_markup_is_text_in_every_field(stored: StoredKeys, tmp_path: Path) -> None:
    stored.add(HOSTILE, views=(HOSTILE,), user=HOSTILE)
    async with console_over(tmp_path / "place" / "toolbus.json") as opened:
        await opened.enter()
        opened.console.keys = _keys(stored)
        page = await opened.page("keys")
        await opened.post("keys/revoke", {"name": HOSTILE})
        said = await opened.page("keys")
    assert stored.all() == []
    assert "Revoked " in said
    for markup in (page, said):
        read = Markup(markup)
        assert "img" not in {tag for tag, _ in read.elements}
        assert [one.get("src") for one in read.named("script")] == ["../static/console.js"]
        assert not any(key.startswith("on") for _, given in read.elements for key in given)
        shown = [text or "" for _, given in read.elements for key, text in given.items() if key != "value"]
        assert not any(hidden in text for text in (*shown, read.text) for hidden in "\x1b\u202e")
    assert Markup(page).text.count(PICTURE) >= 3


async def test_connected_clients_are_listed_with_their_keys(stored: StoredKeys, tmp_path: Path) -> None:
    """A legacy client as long as its session, a modern one by its name; a key is revoked where it is used."""
    stored.add("ann", views=("research",), user="")
    ann = Principal(kind="key", name="ann", view="default", key="0" * 64)
    info = {"name": HOSTILE, "version": "1.2"}
    async with console_over({"servers": {"gated": {"server": gated(Gates())}}}) as opened:
        await opened.enter()
        async with Gateway(opened.bus) as gateway:
            opened.console.keys = _keys(stored)
            opened.console.clients = gateway.clients = ConnectedClients()
            params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
            session, _ = await gateway.initialize(ann, params)
            modern = ModernClient(gateway)
            meta = {"io.modelcontextprotocol/clientInfo": {"name": "agent", "version": 7}}
            for _ in range(2):
                await modern.request("tools/call", {"name": "gated_add", "arguments": ADD}, meta)
            page = await opened.page("keys")
            shown = plain(page.partition('id="clients"')[2])
            gateway.sessions.close(session.id)
            later = plain((await opened.page("keys")).partition('id="clients"')[2])
            revoked = await opened.post("keys/revoke", {"name": "ann"})
    assert "Connected clients: 2" in shown
    assert "agent modern, 2026-07-28 none default this machine" in shown
    assert "(2 calls)" in shown
    assert f"1.2 legacy, 2025-06-18 {session.id[:8]} default ann" in shown
    assert "never Revoke Clients with the key ann are refused" in shown
    assert session.id not in page
    assert "img" not in {tag for tag, _ in Markup(page).elements}
    assert "Connected clients: 1" in later
    assert revoked.status_code == 303
    assert stored.all() == []
