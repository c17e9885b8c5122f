"""The pages of safety with 50 servers, 2,000 tools, 2,000 held changes and 10,000 lines in the trail."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.budget import measured
from tests.gateway.console.opening import Opened, console_over, plain
from tests.inside.audit import AuditTrail
from tests.inside.config import Audit
from tests.inside.core import Decision, Operation, request_spec
from tests.lock.place import OFFER, Place
from tests.patience import until

pytestmark = pytest.mark.anyio
HEAVIEST = 300_000
LONGEST = 50
TOOLS: list[dict[str, Any]] = [
    {
        "name": f"tool_{number}",
        "description": f"Do the thing number {number}, and nothing else. " * 3,
        "inputSchema": {
            "type": "object",
            "properties": {name: {"type": "string", "description": "A text."} for name in ("a", "b", "c")},
            "required": ["a"],
        },
    }
    for number in range(2_000)
]


def _trail(file: Path, calls: int) -> None:
    trail = AuditTrail(Audit(file=str(file)))
    for number in range(calls):
        spec = request_spec("tools/call", f"server_{number % 50}", f"tool_{number}")
        operation = Operation(spec=spec, arguments={"a": number})
        observed = trail.start(operation)
        trail.decided(operation, Decision(action="allow", by="default"))
        observed.end(None, None)
    trail.close()


async def _weighed(opened: Opened, *paths: str) -> dict[str, tuple[int, float, str]]:
    """The bytes of each page, and the longest step of the loop while it was made and followed."""
    found: dict[str, tuple[int, float, str]] = {}
    for path in paths:
        with measured() as steps:
            page = await opened.page(path)
            async with opened.stream(path) as stream:
                await stream.next()
        found[path] = len(page.encode()), steps.longest, steps.callback
    return found


def _check(found: dict[str, tuple[int, float, str]]) -> None:
    assert {path: one[0] for path, one in found.items() if one[0] > HEAVIEST} == {}
    assert {path: one[1:] for path, one in found.items() if one[1] > LONGEST} == {}


async def test_two_thousand_held_changes_are_light_and_quick(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.approve({**OFFER, "tools": TOOLS})
    changed = [{**one, "description": f"{one['description']} Now with more."} for one in TOOLS]
    place.offer({**OFFER, "tools": changed})
    async with console_over(place.config) as opened:
        await opened.enter()
        await until(lambda: len(opened.bus.held) == len(TOOLS))
        found = await _weighed(opened, "held", "held?page=3", "lock", "inbox")
        assert "2000 differences from the lock" in plain(await opened.page("held"))
    _check(found)


async def test_fifty_servers_and_a_long_trail_are_light_and_quick(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    _trail(file, 5_000)
    assert len(file.read_text().splitlines()) > 10_000
    servers = {
        f"server_{number}": {"command": "nothing", "disabled": False, "lazy": True} for number in range(50)
    }
    place = Place(tmp_path / "place", {"audit": str(file), "policy": [{"tools": "*/tool_7*", "do": "ask"}]})
    place.more.update(servers)
    place.configure()
    place.approve({**OFFER, "tools": TOOLS})
    place.offer({**OFFER, "tools": TOOLS})
    async with console_over(place.config) as opened:
        await opened.enter()
        # Its list is compared with the lock when it arrives, which is no work of a page.
        await until(lambda: opened.bus.servers["files"].state == "ready")
        assert len(opened.bus.catalog) >= len(TOOLS)
        found = await _weighed(
            opened,
            "policy",
            "policy?name=files/tool_7&arguments=%7B%7D",
            "lock",
            "held",
            "audit",
            "audit?tool=nowhere",
            "audit?tool=*/tool_1*&outcome=ok&page=20",
        )
        with measured() as steps:
            exported = await opened.http.get(f"{opened.home}/audit/export?form=json")
            await opened.post("audit/check", {})
            await until(lambda: not opened.console.trail_check.is_running)
    _check(found)
    assert len(json.loads(exported.text)) == 5_001
    assert steps.longest <= LONGEST
