"""`toolbus tape verify` on the command line: exit codes, the two reports, and which server is verified."""

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.cli.running import toolbus
from tests.inside.cli import write_junit
from tests.inside.tape import Tape, Verification

SERVER = '''
import os
from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

app = MCPServer("shop")
READS = ToolAnnotations(read_only_hint=True)
CHANGED = "CHANGED" in os.environ


@app.tool(annotations=READS, structured_output=False)
def price(item: str) -> str:
    """Say a price."""
    return '{"price": "3 \\\\u0007<&>"}' if CHANGED else '{"price": 3}'


@app.tool(structured_output=False)
def order(item: str) -> str:
    """Order something."""
    return "ordered"


if CHANGED:
    app.tool(name="refund", structured_output=False)(order)
app.run()
'''


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a config and the tape of two calls."""
    folder = tmp_path_factory.mktemp("recorded") / "project"
    folder.mkdir()
    (folder / "shop.py").write_text(SERVER)
    servers = {"shop": {"command": sys.executable, "args": ["shop.py"], "inherit_env": ["CHANGED"]}}
    (folder / "toolbus.json").write_text(json.dumps({"servers": servers}))
    for number, tool in enumerate(("price", "order")):
        mode = [] if number == 0 else ["--tape-mode", "new_episodes"]
        words = ["call", f"shop/{tool}", "item=tea", "--record", "shop.jsonl", *mode]
        done = toolbus("--config", "toolbus.json", *words, folder=folder)
        assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def folder(recorded: Path, tmp_path: Path) -> Path:
    """A copy of that folder."""
    return Path(shutil.copytree(recorded, tmp_path / "project"))


def verify(folder: Path, *words: str, env: Mapping[str, str] | None = None) -> Any:
    """Verify the tape against the config."""
    line = ("--config", "toolbus.json", "tape", "verify", "shop.jsonl", *words)
    return toolbus(*line, folder=folder, env=env)


def test_the_exit_code_says_whether_something_changed(folder: Path) -> None:
    same = verify(folder)
    assert (same.returncode, same.stdout.splitlines()) == (
        0,
        [
            "1 call skipped: not read-only; --writes repeats them",
            "shop.jsonl: definitions as recorded; 1 call repeated, none changed",
        ],
    )
    changed = verify(folder, "--writes", env={"CHANGED": "1"})
    assert (changed.returncode, changed.stdout.splitlines()) == (
        1,
        [
            "shop",
            "  tool refund: new (compatible)",
            'call 1 shop/price {"item": "tea"}',
            "  content.*.text.price: was number, is now string",
            "shop.jsonl: 1 change in definitions; 2 calls repeated, 1 changed",
        ],
    )
    compatible = verify(folder, "--level", "schema", "--breaking", env={"CHANGED": "1"})
    assert compatible.returncode == 0, compatible.stderr


def test_both_reports_have_the_same_changes(folder: Path) -> None:
    words = ("--json", "--level", "result", "--junit", "report.xml")
    done = verify(folder, *words, env={"CHANGED": "1"})
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    assert document["counts"] == {"same": 0, "changed": 1, "skipped": 1}
    [suite] = ElementTree.parse(folder / "report.xml").getroot()
    assert [suite.get(name) for name in ("name", "tests", "failures", "skipped")] == ["shop", "3", "2", "1"]
    failures = [case.find("failure") for case in suite]
    texts = [failure.text for failure in failures if failure is not None]
    offered = [change["text"] for server in document["servers"] for change in server["changes"]]
    called = [change["text"] for call in document["calls"] for change in call["changes"]]
    assert texts == ["\n".join(offered), "\n".join(called)]


def test_a_target_stands_for_the_only_server_of_the_tape(folder: Path) -> None:
    line = ("tape", "verify", "shop.jsonl", "--", sys.executable, "shop.py")
    done = toolbus(*line, folder=folder)
    assert done.returncode == 0, done.stderr


def test_a_server_that_cannot_be_used_is_no_change_of_a_definition(folder: Path) -> None:
    done = toolbus("tape", "verify", "shop.jsonl", "--", sys.executable, "gone.py", folder=folder)
    assert done.returncode == 1
    assert (
        done.stdout.splitlines()[-1] == "shop.jsonl: 1 server cannot be used; 0 calls repeated, none changed"
    )


def test_the_report_of_an_interrupted_run_is_not_green(folder: Path) -> None:
    write_junit(Verification(level="shape", is_interrupted=True), folder / "report.xml")
    [suite] = ElementTree.parse(folder / "report.xml").getroot()
    assert (suite.get("errors"), len(suite.findall("testcase/error"))) == ("1", 1)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["shop.jsonl", "other"], "the tape has no server 'other'; its servers: shop"),
        (["missing.jsonl"], "tape missing.jsonl: no such file"),
        (["shop.jsonl", "--junit", "no/report.xml"], "--junit no/report.xml: its folder does not exist"),
        (["shop.jsonl", "--pattern", "x"], "--pattern x: expected PATH=GLOB"),
        (["shop.jsonl", "--level", "deep"], "'deep' is not one of"),
        (["toolbus.json"], "tape toolbus.json: is not a tape"),
    ],
)
def test_a_mistake_is_not_a_change(folder: Path, words: list[str], problem: str) -> None:
    done = toolbus("--config", "toolbus.json", "tape", "verify", *words, folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr


def test_a_server_that_the_config_lacks_is_a_mistake(folder: Path) -> None:
    (folder / "toolbus.json").write_text('{"servers": {"store": {"command": "store"}}}')
    done = verify(folder)
    assert done.returncode == 2
    assert "the config has no server 'shop' of the tape" in done.stderr
    assert len(Tape(folder / "shop.jsonl")) == 2
