"""The parts of `make release` that need no network; tests/release.py builds and tries the distributions."""

import tomllib

import yaml

from tests.pages import TARGET
from tests.release import ROOT, UNWANTED, for_the_index, left_to_do, project

README = """\
# toolbus

[Documentation](docs/README.md) · [Try](#try) · [SDK](https://example.com/sdk)

```mermaid
flowchart LR
    a --> b
```

![a server dies](docs/recovery.svg) [![badge](docs/badge.svg)](docs/ci.md)
"""


def test_links_of_readme_work_on_another_page() -> None:
    assert (
        for_the_index(README, "https://example.com/toolbus/", "0.2.0")
        == """\
# toolbus

[Documentation](https://example.com/toolbus/blob/v0.2.0/docs/README.md) · [Try](#try) · [SDK](https://example.com/sdk)

![a server dies](https://example.com/toolbus/raw/v0.2.0/docs/recovery.svg) \
[![badge](https://example.com/toolbus/raw/v0.2.0/docs/badge.svg)](https://example.com/toolbus/blob/v0.2.0/docs/ci.md)
"""
    )


def test_no_link_of_our_readme_stays_relative() -> None:
    text = for_the_index((ROOT / "README.md").read_text(), "https://example.com/toolbus", "0.1.0")
    assert "](docs/" not in text
    assert "](examples/" not in text
    assert "```mermaid" not in text
    assert text.count("https://example.com/toolbus/raw/") >= 1


def test_the_steps_that_only_a_person_can_do_are_listed() -> None:
    urls = {"Repository": "https://example.com/toolbus"}
    ready = {"version": "0.2.0", "urls": urls}
    assert left_to_do(ready, "## 0.2.0 (2026-12-01)\n") == []
    assert left_to_do(ready, "## 0.2.0 (unreleased)\n") == ["CHANGELOG.md still calls 0.2.0 unreleased"]
    assert left_to_do(ready, "## 0.1.0\n") == ["CHANGELOG.md has no section 0.2.0"]
    [urls_are_missing] = left_to_do({"version": "0.2.0"}, "## 0.2.0\n")
    assert urls_are_missing.startswith("pyproject.toml has no [project.urls]")


def test_files_of_a_machine_are_kept_out() -> None:
    kept_out = [".venv/bin/python", "x/.env", "a/b/token.key", ".interop/x", "runs.db", "a/__pycache__/x.pyc"]
    assert [name for name in kept_out if not UNWANTED.search(name)] == []
    assert UNWANTED.search("src/toolbus/state/keys.py") is None


def test_the_changes_of_the_version_are_listed_in_about_25_lines() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text()
    section = changes.partition(f"## {project()['version']}")[2].partition("\n## ")[0]
    assert 20 <= section.count("\n- ") <= 30


def test_the_workflow_runs_what_the_makefile_has_on_three_systems_and_says_that_it_has_not_run() -> None:
    text = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    assert text.startswith("# UNTESTED: this workflow has never run.")
    workflow = yaml.safe_load(text)
    jobs = workflow["jobs"]
    assert {"ubuntu-latest", *jobs["others"]["strategy"]["matrix"]["system"]} == {
        "ubuntu-latest",
        "macos-latest",
        "windows-latest",
    }
    assert jobs["others"]["continue-on-error"] is True
    assert workflow["permissions"] == {"contents": "read"}
    targets = set(TARGET.findall((ROOT / "Makefile").read_text()))
    ran = {step["run"] for job in jobs.values() for step in job["steps"] if "run" in step}
    made = {line.removeprefix("make ") for line in ran if line.startswith("make ")}
    assert {"test", "check", "release"} == made
    assert made <= targets
    lowest = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert jobs["linux"]["strategy"]["matrix"]["python"][0] == lowest.removeprefix(">=")
