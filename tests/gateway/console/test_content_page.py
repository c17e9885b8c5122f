"""The page of resources, templates, prompts and skills: its list, and what it reads when it is asked to."""

from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.gateway.console.opening import Opened, console_over, plain
from tests.skills.shelf import FORMS, PDF, Shelf

pytestmark = pytest.mark.anyio


async def _read(opened: Opened, **form: str) -> str:
    """Read something, and return what the page shows then."""
    answered = await opened.post("content/read", form)
    assert answered.status_code == 303
    place = answered.headers["location"].removeprefix("../").removesuffix("#reading")
    async with opened.stream(place) as stream:
        return plain(await stream.until(lambda part: 'id="reading"' in part and "running" not in part))


async def test_a_skill_is_read_only_when_somebody_asks_for_it(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, era="modern")
    shelf.put()
    skill = {"kind": "skill", "server": "shelf", "name": PDF}
    async with console_over(shelf.config()) as opened:
        await opened.enter()
        page = plain(await opened.page(f"content?{urlencode(skill)}"))
        assert not [one for one in shelf.asked if one.startswith("resources/read")]
        loaded = await _read(opened, **skill)
        file = await _read(opened, **skill, file="references/FORMS.md")
        gone = await opened.post("content/read", {**skill, "name": "skill://nobody/SKILL.md"})
        callers = {record.caller.face for record in opened.console.calls.ended}
    assert "1 skill" in page
    assert "files 2" in page
    assert "First look, then act." in loaded
    assert "references/FORMS.md" in loaded
    assert [one for one in shelf.asked if one.startswith("resources/read")] == [
        f"resources/read {PDF}",
        f"resources/read {FORMS}",
    ]
    assert "done" in file
    assert gone.headers["location"] == "../content"
    assert callers == {"console"}
