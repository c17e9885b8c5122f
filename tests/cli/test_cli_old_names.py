"""Old spellings of commands do the same as the new ones, and name them on stderr."""

from pathlib import Path

import pytest

from tests.cli.running import Done, scripted, together, toolbus, write_config
from tests.inside.cli import HIDDEN

RENAMED = {
    "run": ("run none.py", "script none.py"),
    "worker": ("worker odd:agent", "runs worker odd:agent"),
    "diff": ("diff post", "lock diff post"),
    "approve": ("approve post/read", "lock approve post/read"),
    "resume": ("resume --accept call.json", "call --resume call.json --accept"),
    "resources": ("resources post", "read post"),
    "prompts": ("prompts", "prompt"),
    "skills": ("skills post", "skill post"),
    "logins": ("logins", "login"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home") / "work"
    folder.mkdir()
    post = scripted(
        folder,
        "post",
        tools=[{"name": "read"}],
        resources=[{"uri": "box://inbox", "name": "inbox"}],
        prompts=[{"name": "reply"}],
    )
    write_config(folder, {"post": post})
    assert toolbus("lock", "--yes", folder=folder).returncode == 0
    return folder


@pytest.fixture(scope="module")
def runs(folder: Path) -> dict[str, Done]:
    lines = {line: line for pair in RENAMED.values() for line in pair}
    as_json = {f"{line} --json": f"{line} --json" for line in lines}
    return together({line: line.split() for line in {**lines, **as_json}}, folder)


def test_every_old_spelling_is_tried() -> None:
    assert set(RENAMED) == {old for old, (_, new) in HIDDEN.items() if new}


@pytest.mark.parametrize("old", RENAMED)
def test_an_old_spelling_does_the_same_and_names_the_new_one(old: str, runs: dict[str, Done]) -> None:
    before, now = (runs[line] for line in RENAMED[old])
    note = f"'toolbus {old}' is now 'toolbus {HIDDEN[old][1]}'\n"
    assert (before.returncode, before.stdout) == (now.returncode, now.stdout)
    assert before.stderr == note + now.stderr


@pytest.mark.parametrize("old", RENAMED)
def test_a_program_sees_no_difference(old: str, runs: dict[str, Done]) -> None:
    before, now = (runs[f"{line} --json"] for line in RENAMED[old])
    assert (before.returncode, before.stdout, before.stderr) == (now.returncode, now.stdout, now.stderr)


def test_a_search_in_the_list_of_tools_names_the_command_for_it(folder: Path) -> None:
    listed = toolbus("tools", "--search", "read", folder=folder)
    assert (listed.returncode, "post_read" in listed.stdout) == (0, True)
    assert listed.stderr.startswith("'toolbus tools --search' is now 'toolbus search'\n")
    assert toolbus("tools", "--search", "read", "--json", folder=folder).stderr == ""


def test_what_follows_a_group_is_its_argument_unless_it_is_one_of_its_commands(folder: Path) -> None:
    for words in ("lock post --check", "lock --check post", "--json lock --check", "lock --check -- post"):
        assert toolbus(*words.split(), folder=folder).returncode == 0, words
    unknown = toolbus("lock", "--check", "pots", folder=folder)
    assert (unknown.returncode, "did you mean 'post'?" in unknown.stderr) == (2, True)
    before = toolbus("lock", "--json", "diff", folder=folder)
    assert (before.returncode, before.stdout) == (0, toolbus("lock", "diff", "--json", folder=folder).stdout)
    wrong = toolbus("lock", "--check", "diff", folder=folder)
    assert (wrong.returncode, "--check is not an option of 'diff'" in wrong.stderr) == (2, True)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("call", "missing argument 'NAME'; see 'toolbus call --help'"),
        ("call post_read --accept", "--accept, --decline and --cancel answer a call that waits"),
        ("call --resume x.json --args {}", "--resume continues a call that has its arguments"),
        ("prompt --out x", "--out needs the name of a prompt"),
        ("login --device", "name the server to sign in to"),
    ],
)
def test_options_without_what_they_need_are_explained(line: str, message: str, folder: Path) -> None:
    done = toolbus(*line.split(), folder=folder)
    assert (done.returncode, message in done.stderr) == (2, True)
