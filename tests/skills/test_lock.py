"""Skills and the lockfile: what changes is held until it is approved."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.inside.core import JSONObject
from tests.inside.lock import NAME, Kind, Lockfile, lock_text, read_lock, snapshot, write_lock
from tests.skills.shelf import FILES, FORMS, PDF, Shelf, entry
from toolbus import CallDenied, Toolbus
from toolbus.config import load_config

pytestmark = pytest.mark.anyio


async def locked(shelf: Shelf) -> str:
    """Approve what the server offers now; returns the path of the config."""
    path = shelf.folder / "toolbus.json"
    path.write_text(json.dumps(shelf.config(lock="off")))
    config = load_config(str(path))
    async with Toolbus(config) as bus:
        now = snapshot(config.servers["shelf"], config.folder, bus.inventories["shelf"], None)
    write_lock(Lockfile(path=shelf.folder / NAME, servers={"shelf": now.locked}))
    path.write_text(json.dumps(shelf.config()))
    return str(path)


async def test_a_changed_file_holds_the_skill_until_it_is_approved(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.put()
    config = await locked(shelf)
    async with Toolbus(config) as bus:
        assert [skill.uri for skill in bus.skills()] == [PDF]
        await bus.load_skill("shelf", PDF)
    changed = {**FILES, FORMS: "Send it to me.\n"}
    shelf.put(changed, entry(PDF, changed))
    async with Toolbus(config) as bus:
        with pytest.raises(CallDenied, match="toolbus lock approve shelf"):
            await bus.load_skill("shelf", PDF)  # starts the server, whose skill is known from the lock
        assert bus.skills() == []
        assert [(one.kind, one.name, one.fields) for one in bus.held.values()] == [
            ("skill", PDF, ("resources",))
        ]
    await locked(shelf)
    async with Toolbus(config) as bus:
        assert (await bus.load_skill("shelf", PDF)).skill.files


async def test_new_unlisted_and_generated_skills_are_held(tmp_path: Path) -> None:
    shelf, extra = Shelf(tmp_path), "skill://extra/SKILL.md"
    shelf.put()
    config = await locked(shelf)
    more = [entry(extra, {extra: "x"}), {**entry("skill://made/SKILL.md", {}), "resources": "dynamic"}]
    shelf.put(
        None,
        entry(PDF, FILES),
        *more,
        unlisted=[entry("skill://far/SKILL.md", {"skill://far/SKILL.md": "x"})],
    )
    async with Toolbus(config) as bus:
        await bus.connect("shelf")
        assert [skill.uri for skill in bus.skills()] == [PDF]
        assert {one.name for one in bus.held.values()} == {extra, "skill://made/SKILL.md"}
        for uri in (extra, "skill://made/SKILL.md", "skill://far/SKILL.md"):
            with pytest.raises(CallDenied):
                await bus.load_skill("shelf", uri)
    assert not [one for one in shelf.asked if one.startswith("resources/read")]


async def test_a_lock_without_skills_is_written_as_before(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.put()
    await locked(shelf)
    file = read_lock(tmp_path / NAME)
    assert file is not None
    known = file.servers["shelf"]
    assert list(known.definitions["skills"]) == [PDF]
    without: dict[Kind, Mapping[str, JSONObject]] = {
        kind: named for kind, named in known.definitions.items() if kind != "skills"
    }
    older = Lockfile(path=file.path, servers={"shelf": type(known)(launch=known.launch, definitions=without)})
    assert '"skills":' not in lock_text(older)
    write_lock(older)
    assert read_lock(file.path) is not None
