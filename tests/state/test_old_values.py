"""Values that an earlier toolbus kept for itself, in private files and in a store, are still valid."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.contract.old_files import restore
from tests.inside.gateway import carried_files
from tests.inside.state import (
    Cipher,
    OneTimeUse,
    PrivateValues,
    Seal,
    Store,
    carried_forms,
    kept_seal,
    parse_store_url,
    state_folder,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home" / "work"
    restore(folder)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home" / ".state"))
    return folder


async def counts(carried: dict[str, Any], seal: Seal, spent: OneTimeUse, *, of: tuple[str, str]) -> Any:
    """The sealed value; a used approval is refused, and a new one is not."""
    assert not await spent.use(carried["used"])
    new = spent.issue(60)
    assert [await spent.use(new), await spent.use(new)] == [True, False]
    assert not await spent.use(carried["used"])
    return seal.opened(*of, carried["sealed"])


async def test_what_clients_of_a_gateway_carry(work: Path) -> None:
    carried = json.loads((work / "carried.json").read_text())["config"]
    files = carried_files(work / "toolbus.yaml")
    found = await counts(carried, await kept_seal(files), OneTimeUse(files), of=("requestState", "key:ann"))
    assert found == {"state": "of the gateway"}


async def test_scripts_that_wait(work: Path) -> None:
    carried = json.loads((work / "carried.json").read_text())["scripts"]
    files = PrivateValues(state_folder, carried_forms("code/key", "code/resumed"))
    found = await counts(carried, await kept_seal(files), OneTimeUse(files), of=("script", "ann"))
    assert found == {"script": "1 + 1"}


async def test_what_clients_of_several_gateways_carry(work: Path) -> None:
    carried = json.loads((work / "carried.json").read_text())["store"]
    key = (work.parent / ".state" / "toolbus" / "store.key").read_bytes()
    async with Store(parse_store_url(f"sqlite:///{work / 'kept.db'}"), Cipher([key])) as store:
        found = await counts(
            carried, await kept_seal(store), OneTimeUse(store), of=("requestState", "key:ann")
        )
    assert found == {"state": "of the store"}
