"""A lazy server offers what it listed last, and starts at its first call."""

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.cli.running import write_config
from tests.inside.state import state_folder
from toolbus import Toolbus
from toolbus.config import usable_config
from toolbus.errors import CallDenied, ServerDown, ToolNotFound

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def own_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The state of this test is nobody else's."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


GATED = Path(__file__).parents[1] / "servers" / "gated.py"


class Shop:
    """A config with lazy servers; each start leaves a line in a file."""

    def __init__(self, folder: Path, **entry: Any) -> None:
        self.folder = folder
        self.entry = entry
        self.offer(read={"readOnlyHint": True})

    def offer(self, **tools: dict[str, Any]) -> None:
        """Set the tools that the server offers after its next start."""
        listed = [
            {"name": name, "inputSchema": {"type": "object"}, "annotations": hints}
            for name, hints in tools.items()
        ]
        (self.folder / "offer").write_text(json.dumps(listed))
        (self.folder / "gate").touch()

    @property
    def env(self) -> dict[str, str]:
        return {"GATE": str(self.folder / "gate"), "OFFER": str(self.folder / "offer")}

    def bus(self, settings: dict[str, Any] | None = None, **more: Any) -> Toolbus:
        server = {"command": warm.python(), "args": [str(GATED)], "env": self.env, "era": "legacy"}
        entry = {**server, "lazy": True, **self.entry, **more}
        return Toolbus(str(write_config(self.folder, {"shop": entry}, **(settings or {}))))

    @property
    def calls(self) -> list[str]:
        file = self.folder / "offer.calls"
        return file.read_text().split() if file.exists() else []


def state(bus: Toolbus) -> str:
    return bus.servers["shop"].state


async def known(shop: Shop, **settings: Any) -> None:
    """Start the server once, which nothing is known of."""
    async with shop.bus(settings) as bus:
        await bus.wait_ready()
        assert state(bus) == "ready"


async def test_an_unknown_lazy_server_is_started_once_and_then_at_its_first_call(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    await known(shop)
    async with shop.bus() as bus:
        assert (state(bus), bus.catalog.names) == ("idle", ("shop_read",))
        assert (await bus.call("shop_read")).text == "called read"
        assert state(bus) == "ready"
        assert (await bus.call("shop/read")).text == "called read"


async def test_what_is_kept_is_only_for_the_user(tmp_path: Path) -> None:
    await known(Shop(tmp_path))
    [file] = (state_folder().base / "definitions").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert str(tmp_path) not in file.read_text()


CHANGES: dict[str, Callable[[Shop], Toolbus]] = {
    "args": lambda shop: shop.bus(args=[str(GATED), "--more"]),
    "env": lambda shop: shop.bus(
        env={"GATE": str(shop.folder / "gate"), "OFFER": str(shop.folder / "offer"), "A": "b"}
    ),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_changed_launch_line_means_that_it_is_started_and_listed(change: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    await known(shop)
    shop.offer(fresh={})
    async with CHANGES[change](shop) as bus:
        assert (state(bus), bus.catalog.names) == ("ready", ("shop_fresh",))


async def test_a_newer_file_of_the_server_means_that_it_is_listed_again(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(GATED.read_text())
    shop = Shop(tmp_path, args=[str(program)])
    await known(shop)
    program.write_text(GATED.read_text() + "\n")
    shop.offer(fresh={})
    async with shop.bus() as bus:
        assert bus.catalog.names == ("shop_fresh",)


async def test_a_tool_that_is_gone_gets_the_usual_error_and_the_list_is_replaced(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    await known(shop)
    shop.offer(other={})
    async with shop.bus() as bus:
        events: list[str] = []
        bus.on_event(lambda event: events.append(type(event).__name__))
        with pytest.raises(ToolNotFound):
            await bus.call("shop_read")
        assert bus.catalog.names == ("shop_other",)
        assert "ListChanged" in events
    assert shop.calls == []


async def test_a_tool_that_is_new_is_found_by_its_name(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    await known(shop)
    shop.offer(read={}, fresh={})
    async with shop.bus() as bus:
        assert (await bus.call("shop_fresh")).text == "called fresh"


RULES: list[dict[str, Any]] = [{"hint": "destructive", "do": "deny"}]


async def test_a_policy_decides_by_what_the_server_says_now(tmp_path: Path) -> None:
    shop = Shop(tmp_path, trust=True)
    await known(shop, policy=RULES)
    shop.offer(read={"destructiveHint": True})
    async with shop.bus({"policy": RULES}) as bus:
        assert bus.catalog.names == ("shop_read",)
        with pytest.raises(CallDenied):
            await bus.call("shop_read")
    assert shop.calls == []


async def test_a_view_without_destructive_tools_does_not_call_one_that_became_destructive(
    tmp_path: Path,
) -> None:
    """The patterns of a view also apply to the server's current annotations."""
    shop = Shop(tmp_path, exclude=[{"destructiveHint": True}])
    await known(shop)
    shop.offer(read={"destructiveHint": True})
    async with shop.bus() as bus:
        with pytest.raises(ToolNotFound):
            await bus.call("shop_read")
    assert shop.calls == []


async def test_a_call_that_was_allowed_by_an_old_hint_is_not_sent(tmp_path: Path) -> None:
    """A model's call of a read-only tool needs no approval; the tool is not read-only any more."""
    shop = Shop(tmp_path, trust=True)
    await known(shop)
    shop.offer(read={"readOnlyHint": False})
    async with shop.bus() as bus:
        [tool] = bus.tools()
        assert tool.spec.annotations == {"readOnlyHint": True}
        assert "describes it differently" in (await tool.execute()).text
        assert shop.calls == []
        [tool] = bus.tools()
        assert tool.spec.annotations == {"readOnlyHint": False}
        assert (await tool.execute()).text == "called read"


async def test_a_lazy_server_that_cannot_be_started_any_more_says_so(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    await known(shop)
    (tmp_path / "offer").write_text("not JSON")
    async with shop.bus() as bus:
        with pytest.raises(ServerDown, match="the process ended"):
            await bus.call("shop_read")


async def test_a_user_sees_what_the_bus_remembers_of_a_shared_server(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    await known(shop)
    async with shop.bus() as bus:
        ann = bus.as_user("ann")
        assert ann.catalog.names == ("shop_read",)
        assert (await ann.call("shop_read")).text == "called read"


async def test_a_user_with_other_credentials_does_not_see_what_the_bus_remembers(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.entry["env"] = {**shop.env, "WHO": "${user:-nobody}"}
    await known(shop)
    async with shop.bus() as bus:
        assert bus.catalog.names == ("shop_read",)
        ann = bus.as_user("ann")
        assert ann.catalog.names == ()
        assert (await ann.call("shop_read")).text == "called read"


async def test_a_reload_starts_a_lazy_server_that_is_new_and_remembers_one_that_is_known(
    tmp_path: Path,
) -> None:
    shop = Shop(tmp_path)
    await known(shop)
    async with shop.bus() as bus:
        assert state(bus) == "idle"
        entry = usable_config(str(bus.config.file)).servers["shop"].model_dump(exclude_defaults=True)
        entry.pop("alias")
        entry.pop("transport")
        write_config(tmp_path, {"shop": entry, "next": {**entry, "args": [str(GATED), "next"]}})
        await bus.reload(str(bus.config.file))
        assert {alias: one.state for alias, one in bus.servers.items()} == {"shop": "idle", "next": "ready"}
        assert bus.catalog.names == ("shop_read", "next_read")


async def test_a_damaged_file_counts_as_nothing_known(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    await known(shop)
    [file] = (state_folder().base / "definitions").iterdir()
    file.write_text('{"shop": {"digest": 5')
    async with shop.bus() as bus:
        assert state(bus) == "ready"
