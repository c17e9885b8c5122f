"""Skills of servers through the gateway."""

from hashlib import sha256
from pathlib import Path

import pytest

from tests.conformance.outcomes import table
from tests.conformance.server_suite import SKILLS, judged_server
from tests.conformance.suite import EXTENSION
from tests.gateway.driving import ModernClient, gateway_over
from tests.gateway.serving import gateway, written_config
from tests.inside.gateway import ProtocolError
from tests.interop.servers import require_installed
from tests.skills.shelf import FILES, FORMS, PDF, Shelf, entry, manifest

OTHER = {PDF: manifest("pdf", body="Look away."), "skill://pdf/more.md": "More.\n"}


@pytest.mark.anyio
async def test_the_skills_of_all_servers_are_listed_and_their_files_read(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.put()
    async with gateway_over(shelf.config()) as front:
        client = ModernClient(front)
        [listed] = (await client.once("skills/list"))["skills"]
        assert (await client.once("skills/get", {"uri": PDF}))["skill"] == listed == entry(PDF, FILES)
        for file in listed["resources"]:
            [content] = (await client.once("resources/read", {"uri": file["uri"]}))["contents"]
            assert f"sha256:{sha256(content['text'].encode()).hexdigest()}" == file["digest"]
        with pytest.raises(ProtocolError, match=r"no skill has the URI 'skill://none/SKILL\.md'"):
            await client.once("skills/get", {"uri": "skill://none/SKILL.md"})


@pytest.mark.anyio
async def test_a_skill_that_two_servers_have_keeps_its_files_together(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, two = Shelf(tmp_path / "a"), Shelf(tmp_path / "b")
    one.put()
    two.put(OTHER, entry(PDF, OTHER))
    async with gateway_over({"servers": {"one": one.server, "two": two.server}}) as front:
        client = ModernClient(front)
        listed = (await client.once("skills/list"))["skills"]
        assert [skill["uri"] for skill in listed] == [
            "skill://one/pdf/SKILL.md",
            "skill://two/pdf/SKILL.md",
        ]
        read: dict[str, str] = {}
        for skill in listed:
            for file in skill["resources"]:
                [content] = (await client.once("resources/read", {"uri": file["uri"]}))["contents"]
                read[file["uri"]] = content["text"]
    assert read == {
        "skill://one/pdf/SKILL.md": FILES[PDF],
        "skill://one/pdf/references/FORMS.md": FILES[FORMS],
        "skill://two/pdf/SKILL.md": OTHER[PDF],
        "skill://two/pdf/more.md": "More.\n",
    }


def test_the_gateway_passes_the_scenarios_for_skills(tmp_path: Path) -> None:
    require_installed("conformance")
    shelf = Shelf(tmp_path)
    shelf.put()
    with gateway(written_config(tmp_path, {"shelf": shelf.server})) as url:
        outcomes = judged_server(url, EXTENSION, tmp_path, SKILLS)
    assert outcomes["sep-2640-skills-enumeration"].passed, table(outcomes)
    # The server behind lists no resources, so these cannot be tried.
    unlisted = {f"sep-2640-skillmd-{what}" for what in ("mimetype", "metadata-name", "metadata-description")}
    assert outcomes["sep-2640-skills-manifest"].objected == unlisted, table(outcomes)
    # Listing the folders of a skill is an option, which the gateway does not declare.
    assert outcomes["sep-2640-skills-directory"].counts.keys() == {"SKIPPED"}, table(outcomes)
