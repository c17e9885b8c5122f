"""The message about a call that a rule denies, or that nobody answers for."""

from pathlib import Path

import pytest

from tests.cli.running import scripted, toolbus, write_config

RULES = [
    {"tools": "disk/delete", "do": "deny", "reason": "use the web page"},
    {"prompts": "disk/review", "do": "deny"},
    {"resources": "disk/note://x", "do": "deny"},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    offers = {
        "tools": [{"name": "delete"}, {"name": "list"}],
        "prompts": [{"name": "review"}],
        "resources": [{"uri": "note://x", "name": "x"}],
    }
    write_config(made, {"disk": scripted(made, "disk", **offers)}, policy=RULES)
    return made


@pytest.mark.parametrize("name", ["disk_delete", "disk/delete", "delete", "disk_delet"])
def test_a_denied_tool_is_not_reported_as_unknown(name: str, folder: Path) -> None:
    """However it is named, and on a second try, for which the names are known from the first one."""
    for _ in range(2):
        done = toolbus("call", name, folder=folder)
        reason = "rule policy[0] denies it: use the web page"
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == f"toolbus: tool 'disk_delete' was refused: {reason}\n"


def test_a_name_that_no_rule_is_about_stays_unknown(folder: Path) -> None:
    done = toolbus("call", "disk_lst", folder=folder)
    assert "did you mean 'disk_list'?" in done.stderr
    assert "no tool named 'zzz'" in toolbus("call", "zzz", folder=folder).stderr


@pytest.mark.parametrize(
    ("words", "rule"), [("prompt disk/review", "policy[1]"), ("read disk note://x", "policy[2]")]
)
def test_a_denied_prompt_or_resource_names_its_rule(words: str, rule: str, folder: Path) -> None:
    done = toolbus(*words.split(), folder=folder)
    assert done.returncode == 1
    assert f"rule {rule} denies it" in done.stderr
