"""A client that goes on with what it had before a profile or the user's own rules became narrower."""

import json
from pathlib import Path
from typing import Any

import pytest

from toolbus import CallDenied, Toolbus, ToolNotFound
from toolbus.config import usable_config

pytestmark = pytest.mark.anyio


def config(folder: Path, profile: dict[str, Any]) -> dict[str, Any]:
    notes = ["-m", "toolbus.demo.notes", "--db", str(folder / "notes.db")]
    return {"servers": {"notes": {"command": "python", "args": notes}}, "profiles": {"small": profile}}


async def test_a_narrower_profile_is_in_force_for_users_sessions_and_views_that_exist(tmp_path: Path) -> None:
    """After a reload, no existing view reaches a tool outside of the profile."""
    async with Toolbus(config(tmp_path, {}), profile="small") as bus:
        session = bus.as_user("ann", session="1")
        views = (bus, bus.as_user("ann"), session, bus.view(), session.view(servers="notes"))
        for view in views:
            assert not (await view.call("notes_add", {"text": "x"})).is_error

        await bus.reload(config(tmp_path, {"exclude": ["*_add"]}))
        for view in views:
            assert "notes_add" not in view.catalog.names
            with pytest.raises(ToolNotFound):
                await view.call("notes_add", {"text": "x"})

        await bus.reload(config(tmp_path, {"policy": [{"tools": "*/search", "do": "deny"}]}))
        for view in views:
            assert "notes_search" not in view.catalog.names
            with pytest.raises(CallDenied):
                await view.call("notes_search", {"query": "x"})


async def test_a_rule_that_the_user_adds_is_in_force_for_users_and_views_that_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a reload, no existing view gets around a new rule."""
    own = tmp_path / "toolbus" / "toolbus.json"
    own.parent.mkdir()
    own.write_text(json.dumps({"servers": {}}))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    project = tmp_path / "toolbus.yaml"
    allowing = {"extends": "user", "policy": [{"tools": "*", "do": "allow"}]}
    project.write_text(json.dumps({**config(tmp_path, {}), **allowing}))

    async with Toolbus(usable_config(project)) as bus:
        views = (bus, bus.as_user("ann"), bus.view())
        own.write_text(json.dumps({"servers": {}, "policy": [{"tools": "*/add", "do": "deny"}]}))
        await bus.reload(usable_config(project))
        for view in views:
            assert "notes_add" not in view.catalog.names
            with pytest.raises(CallDenied):
                await view.call("notes/add", {"text": "x"})
