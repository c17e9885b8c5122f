"""The page of the quotas: what each allows, what it counted, and who has used how much."""

import pytest

from tests.gateway.console.opening import console_over, plain
from tests.gateway.driving import JSON
from tests.gateway.front import Gates, gated
from tests.inside.core import OverQuota

pytestmark = pytest.mark.anyio
ADD: JSON = {"a": 1, "b": 2}
PICTURE = "<img src=x onerror=alert(1)>"


def _config(*quotas: JSON) -> JSON:
    return {"servers": {"gated": {"server": gated(Gates())}}, "quotas": list(quotas)}


def _rows(page: str) -> list[str]:
    return [plain(row.split("</tr>")[0]) for row in page.split("<tr>")[1:] if "<td" in row]


async def test_quotas_are_shown_with_their_counts_and_with_who_used_them() -> None:
    quotas = [{"per": "user", "per_day": 2}, {"per": "server", "names": PICTURE, "concurrent": 3}]
    async with console_over(_config(*quotas)) as opened:
        await opened.enter()
        assert "Nothing yet." in await opened.page("quotas")
        ann = opened.bus.as_user(PICTURE)
        for _ in range(2):
            await ann.call("gated_add", ADD)
        with pytest.raises(OverQuota):
            await ann.call("gated_add", ADD)
        page = await opened.page("quotas")
    first, second, used = _rows(page)
    assert first == "quotas[0] each user: at most 2 per day 2 1"
    assert second.startswith("quotas[1] each server <img src=x")
    assert used.startswith("quotas[0] user <img src=x")
    assert " 2 2 per day " in used
    assert PICTURE not in page


async def test_without_quotas_there_is_no_page() -> None:
    async with console_over(_config()) as opened:
        await opened.enter()
        assert 'href="quotas"' not in await opened.page("policy")
