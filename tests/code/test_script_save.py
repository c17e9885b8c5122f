"""`toolbus script save`: which scripts are kept, and the tool that one of them becomes."""

import json
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.running import environment, toolbus
from tests.code.support import config, written
from tests.inside.code import NotReplaced, with_input
from toolbus import Pending, Toolbus

pytestmark = pytest.mark.anyio
SCRIPT = """# Keeps lines about tea.
for one in args:
    await ledger_write(line="tea: " + one)
rows = await ledger_rows(count=2)
{"kept": len(rows["result"])}
"""
CONFIG = "# My servers\nservers:\n  ledger: {ledger}  # the ledger\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", environment(tmp_path)["XDG_STATE_HOME"])
    made = tmp_path / "work"
    made.mkdir()
    ledger = json.dumps(config(made)["servers"]["ledger"])
    (made / "toolbus.yaml").write_text(CONFIG.replace("{ledger}", ledger))
    (made / "tea.py").write_text(SCRIPT)
    return made


def run(folder: Path, *words: str, **more: Any) -> Any:
    return toolbus("--config", "toolbus.yaml", *words, folder=folder, **more)


def kept(folder: Path) -> list[dict[str, Any]]:
    listed = run(folder, "--json", "script", "save")
    assert listed.returncode == 0, listed.stderr
    return json.loads(listed.stdout)["scripts"]


def test_a_script_that_worked_becomes_a_tool_whose_literals_are_arguments(folder: Path) -> None:
    assert run(folder, "script", "tea.py", "green").returncode == 0
    saved = run(folder, "script", "save", "keep", "--input", "kind=tea: ", "--input", "most=2")
    assert saved.returncode == 0, saved.stderr
    assert "next: toolbus call keep args=... kind=... most=..." in saved.stdout
    text = (folder / "toolbus.yaml").read_text()
    assert text.startswith("# My servers\n")
    assert "# the ledger" in text
    assert yaml.safe_load(text)["tools"]["keep"] == {
        "script": "keep.py",
        "description": "Keeps lines about tea.",
        "input": {"args": ["string"], "kind": "string", "most": "integer"},
        "uses": ["ledger/write", "ledger/rows"],
    }
    called = run(folder, "call", "keep", "args=black,red", "kind=Tee ", "most=1", "--json")
    assert json.loads(called.stdout)["structured"] == {"kept": 1}, called.stderr
    assert written(folder) == ["tea: green", "Tee black", "Tee red"]


def test_the_list_has_no_values_and_only_scripts_that_called_tools_and_ended_well(folder: Path) -> None:
    run(folder, "script", "tea.py", "secret-leaf")
    run(folder, "script", "-", input="1 + 1")
    run(folder, "script", "-", input="await ledger_fail()")
    [one] = kept(folder)
    assert (one["text"], one["input"]) == (SCRIPT, {"args": ["string"]})
    [file] = (folder.parent / ".state").rglob("scripts/*.json")
    assert "secret-leaf" not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert one["id"] in run(folder, "script", "save").stdout


async def test_each_config_keeps_its_newest_scripts_with_their_users(folder: Path) -> None:
    text = (folder / "toolbus.yaml").read_text()
    (folder / "toolbus.yaml").write_text(text + "code: {keep: 2}\n")
    (folder / "other.yaml").write_text(text)
    async with Toolbus(folder / "toolbus.yaml") as bus:
        for number, user in enumerate(("ann", "ben", "ann", "ben")):
            script = f"await ledger_rows(count={number % 3})"
            assert not (await bus.as_user(user).scripts.run(script)).is_error
    assert [(one["text"][-2], one["user"]) for one in kept(folder)] == [("0", "ben"), ("2", "ann")]
    other = toolbus("--config", "other.yaml", "--json", "script", "save", folder=folder)
    assert json.loads(other.stdout) == {"scripts": []}


async def test_a_script_that_was_suspended_is_kept_when_it_ends(folder: Path) -> None:
    text = (folder / "toolbus.yaml").read_text()
    (folder / "toolbus.yaml").write_text(text + "policy: [{tools: ledger/write, do: ask}]\n")
    async with Toolbus(folder / "toolbus.yaml") as bus:
        first = (await bus.scripts.run(SCRIPT, {"args": ["a"]})).pending
        assert first is not None
        assert kept(folder) == []
        [question] = first.questions.values()
        await bus.resume(Pending.from_json(first.to_json()), question.accept({"answer": "once"}))
    assert [one["input"] for one in kept(folder)] == [{"args": ["string"]}]


def test_nothing_is_replaced_without_a_yes(folder: Path) -> None:
    run(folder, "script", "tea.py")
    before = (folder / "toolbus.yaml").read_text()
    refused = run(folder, "script", "save", "tea")
    assert (refused.returncode, (folder / "toolbus.yaml").read_text()) == (2, before)
    assert "tea.py would be replaced; choose another name, or pass --yes" in refused.stderr
    assert run(folder, "script", "save", "tea", "--yes", "--description", "Tea.").returncode == 0
    again = run(folder, "script", "save", "tea", "--yes", "--description", "More tea.")
    assert again.returncode == 0, again.stderr
    tools = yaml.safe_load((folder / "toolbus.yaml").read_text())["tools"]
    assert {name: one["description"] for name, one in tools.items()} == {"tea": "More tea."}


def test_a_tool_that_the_type_check_refuses_is_not_written(folder: Path) -> None:
    run(folder, "script", "-", input='await ledger_write(line="x")')
    text = (folder / "toolbus.yaml").read_text()
    (folder / "toolbus.yaml").write_text(text.replace("ledger:", "book:"))
    before = (folder / "toolbus.yaml").read_text()
    refused = run(folder, "script", "save", "keep", "--json")
    assert refused.returncode == 1, refused.stderr
    assert "ledger_write" in json.loads(refused.stdout)["problem"]
    assert ((folder / "toolbus.yaml").read_text(), (folder / "keep.py").exists()) == (before, False)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["keep", "--id", "nope"], "no kept script has the id 'nope'; list them: toolbus script save"),
        (["a b"], "'a b' is no name for a tool"),
        (["keep", "--input", "x=coffee"], "--input x: the script has no literal coffee"),
        (["keep", "--input", "one=tea: "], "'one' cannot be a variable"),
        (["--yes"], "name the tool"),
    ],
)
def test_a_mistake_names_the_next_step(folder: Path, words: list[str], problem: str) -> None:
    run(folder, "script", "tea.py")
    failed = run(folder, "script", "save", *words)
    assert failed.returncode == 2
    assert problem in failed.stderr


def test_a_toml_config_takes_the_tool(folder: Path) -> None:
    server = config(folder)["servers"]["ledger"]
    (folder / "toolbus.toml").write_text(
        f"[servers.ledger] # the ledger\ncommand = {json.dumps(server['command'])}\n"
        f"args = {json.dumps(server['args'])}\n"
    )
    toolbus("--config", "toolbus.toml", "script", "tea.py", folder=folder)
    saved = toolbus("--config", "toolbus.toml", "script", "save", "keep", folder=folder)
    assert saved.returncode == 0, saved.stderr
    found = tomllib.loads((folder / "toolbus.toml").read_text())
    assert found["tools"]["keep"]["script"] == "keep.py"
    assert "# the ledger" in (folder / "toolbus.toml").read_text()


@pytest.mark.parametrize(
    ("text", "literal", "after"),
    [
        ("f('ä', 'a b', x='a b')", "a b", ("f('ä', v, x=v)", "string")),
        ("f(-3, 3)", "-3", ("f(v, 3)", "integer")),
        ("f(True, 1)", "True", ("f(v, 1)", "boolean")),
        ("f(['a', 'b'])", "['a', 'b']", ("f(v)", ["string"])),
        ("f('3')", "3", ("f(v)", "string")),
        ("f(f'a{1}a', 'a')", "a", ("f(f'a{1}a', v)", "string")),
        ("match x:\n    case 'a':\n        f('a')", "a", ("match x:\n    case 'a':\n        f(v)", "string")),
    ],
)
def test_a_literal_is_replaced_wherever_a_variable_may_stand(text: str, literal: str, after: object) -> None:
    assert with_input(text, "v", literal) == after


def test_a_literal_with_two_meanings_is_refused() -> None:
    with pytest.raises(NotReplaced, match="put one of them in quotes"):
        with_input("f('3', 3)", "v", "3")
    assert with_input("f('3', 3)", "v", "'3'") == ("f(v, 3)", "string")
