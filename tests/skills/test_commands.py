"""`toolbus skill`: list skills, and print one."""

import json
from pathlib import Path

from tests.cli.running import toolbus, write_config
from tests.skills.shelf import FILES, FORMS, PDF, Shelf, entry


def test_skills_are_listed_and_printed(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.put()
    write_config(tmp_path, {"shelf": shelf.server})
    size = sum(len(text) for text in FILES.values())
    listed = toolbus("skill", folder=tmp_path).stdout.splitlines()
    assert listed[0].endswith("1 skill")
    assert listed[1].split() == ["shelf/pdf", PDF, "2", "files,", str(size), "B", "Do", "it", "well"]
    told = json.loads(toolbus("skill", "--json", folder=tmp_path).stdout)
    assert [
        (one["server"], one["uri"], [file["path"] for file in one["files"]]) for one in told["skills"]
    ] == [("shelf", PDF, ["SKILL.md", "references/FORMS.md"])]
    assert toolbus("skill", "pdf", folder=tmp_path).stdout == FILES[PDF]
    assert toolbus("skill", "shelf/pdf", "references/FORMS.md", folder=tmp_path).stdout == FILES[FORMS]
    unknown = toolbus("skill", "pfd", folder=tmp_path)
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert "no skill 'pfd' among 1" in unknown.stderr


def test_names_that_repeat_are_not_guessed_and_a_changed_file_is_refused(tmp_path: Path) -> None:
    shelf, other = Shelf(tmp_path), "skill://team/pdf/SKILL.md"
    shelf.put({**FILES, FORMS: "else"}, entry(PDF, FILES), entry(other, {other: FILES[PDF]}))
    write_config(tmp_path, {"shelf": shelf.server})
    both = toolbus("skill", "pdf", folder=tmp_path)
    assert both.returncode == 2
    assert f"2 skills match 'pdf'; use shelf/{PDF} or shelf/{other}" in both.stderr
    refused = toolbus("skill", f"shelf/{PDF}", "references/FORMS.md", folder=tmp_path)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "bytes, but its entry lists" in refused.stderr
