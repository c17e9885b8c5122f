"""The lockfile applies to every user: a server's offer to one user is compared for that user."""

from pathlib import Path

import pytest

from tests.lock.place import OFFER, OFFERING, Place
from tests.lock.test_mutations import MUTATIONS, mutated
from tests.users.personal_bus import heard
from toolbus import CallDenied, Toolbus
from toolbus.events import ToolHeld

pytestmark = pytest.mark.anyio
ALL = ["files_read", "files_stat", "files_write"]


async def test_what_a_server_offers_to_one_user_alone_is_held_for_that_user(tmp_path: Path) -> None:
    offers = tmp_path / "offers"
    offers.mkdir()
    place = Place(tmp_path, entry={"args": [OFFERING, f"{offers}/${{user:-nobody}}.json"]})
    place.approve()
    (tmp_path / "offer.json").rename(offers / "nobody.json")
    (offers / "bob.json").write_text((offers / "nobody.json").read_text())
    place.offer(mutated(MUTATIONS["description"]))
    (tmp_path / "offer.json").rename(offers / "ann.json")
    assert OFFER["tools"][0]["name"] == "read"
    async with Toolbus(place.config) as bus:
        ann, bob = bus.as_user("ann"), bus.as_user("bob")
        views = {"ann": ann, "bob": bob, "bus": bus}
        held = {name: heard(view, ToolHeld) for name, view in views.items()}
        for view in views.values():
            assert sorted(view.catalog.names) == ALL, "the lockfile knows them before anything is connected"
        for view in (ann, bob):
            await view.wait_ready()
        await bus.connect("files")
        assert sorted(ann.catalog.names) == ALL[1:]
        assert sorted(bob.catalog.names) == sorted(bus.catalog.names) == ALL
        assert [list(view.held) for view in views.values()] == [["files/read"], [], []]
        assert [event.tool for event in held["ann"]] == ["read"]
        assert held["bob"] == held["bus"] == []
        with pytest.raises(CallDenied):
            await ann.call("files_read", {"path": "x", "mode": "text"})
        assert (await bob.call("files_read", {"path": "x", "mode": "text"})).text == "ran read"
