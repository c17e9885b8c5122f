"""The pytest plug-in, as a project uses it: pytest runs in a process of its own, in an empty folder."""

import os
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent

import pytest

from tests.inside.tape import Tape
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
HEAD = '''
import os
import pytest
from toolbus import SyncToolbus, Toolbus, connect_mcp
from toolbus.testing import FakeServer

TEXT = os.environ.get("TEXT", "tea")


def add(text: str) -> str:
    """Keep a note."""
    assert "GONE" not in os.environ, "the server is not there"
    return f"kept {text}"


fake = FakeServer({"add": add})
config = {"servers": {"notes": {"server": fake}}}


@pytest.fixture
def anyio_backend():
    return "asyncio"
'''
SIMPLE = """
@pytest.mark.tape
def test_add():
    with SyncToolbus(config) as bus:
        assert bus.call("notes_add", {"text": TEXT}).text == f"kept {TEXT}"
"""
SWALLOWING = """
@pytest.mark.tape
def test_add():
    with SyncToolbus(config) as bus:
        print(bus.tool("notes_add").execute(text=TEXT))
"""


@dataclass
class Project:
    """A folder with a test module."""

    folder: Path

    def write(self, *tests: str) -> None:
        """Write the module."""
        (self.folder / "test_notes.py").write_text(HEAD + "".join(dedent(test) for test in tests))

    def run(
        self, *options: str, plugins: tuple[str, ...] = (), **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run pytest, with the plug-in and nothing else."""
        loaded = [word for name in ("toolbus.testing.plugin", *plugins) for word in ("-p", name)]
        home = {"HOME": str(self.folder), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "200"}
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-W", "error", *loaded, *options],
            cwd=self.folder,
            env=os.environ | home | env,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    @property
    def tapes(self) -> list[str]:
        """The tapes, by path."""
        return sorted(path.relative_to(self.folder / "tapes").as_posix() for path in self._found())

    def _found(self) -> list[Path]:
        return list((self.folder / "tapes").rglob("*.jsonl"))

    @property
    def texts(self) -> list[str]:
        """The texts of the recorded calls, of all tapes."""
        return [call.arguments["text"] for path in sorted(self._found()) for call in Tape(path).calls()]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """An empty project."""
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers --strict-config\n")
    return Project(tmp_path)


def test_the_first_run_records_and_the_next_one_needs_no_server(project: Project) -> None:
    project.write(SIMPLE)
    first = project.run()
    assert first.returncode == 0, first.stdout
    assert "recorded tapes/test_notes/test_add.jsonl" in first.stdout
    assert project.tapes == ["test_notes/test_add.jsonl"]
    second = project.run(GONE="1")
    assert second.returncode == 0, second.stdout
    assert "recorded" not in second.stdout


@pytest.mark.parametrize("test", [SIMPLE, SWALLOWING], ids=["raised", "swallowed"])
def test_a_call_that_is_not_on_the_tape_fails_with_a_diff(project: Project, test: str) -> None:
    project.write(test)
    assert project.run().returncode == 0
    failed = project.run(TEXT="milk")
    assert failed.returncode == 1
    for line in (
        "this call of tool 'add' of server 'notes' is not on tapes/test_notes/test_add.jsonl",
        "  the nearest recorded call is 1:",
        '    text: "tea" was recorded, not "milk"',
        "record again with: pytest test_notes.py::test_add --tape=rewrite",
    ):
        assert line in failed.stdout
    assert "tape/peer.py" not in failed.stdout


def test_rewrite_records_again_and_new_episodes_only_adds(project: Project) -> None:
    project.write(SIMPLE)
    assert project.run().returncode == 0
    assert project.run("--tape=new_episodes", TEXT="milk").returncode == 0
    assert project.texts == ["tea", "milk"]
    assert project.run("--tape=rewrite", TEXT="milk").returncode == 0
    assert project.texts == ["milk"]


def test_none_never_records_and_says_how_to(project: Project) -> None:
    project.write(SIMPLE, SWALLOWING.replace("test_add", "test_other"))
    failed = project.run("--tape=none")
    assert failed.returncode == 1
    assert "tapes/test_notes/test_add.jsonl does not exist" in failed.stdout
    assert "record it with: pytest test_notes.py::test_add --tape=once" in failed.stdout
    assert project.tapes == []
    assert project.run("test_notes.py::test_add", "--tape=once").returncode == 0
    assert project.run("test_notes.py::test_add", "--tape=none", GONE="1").returncode == 0


FAILING = """
@pytest.mark.tape
def test_add():
    with SyncToolbus(config) as bus:
        bus.call("notes_add", {"text": TEXT})
    assert TEXT == "tea"


@pytest.mark.tape
@pytest.mark.skipif("TEXT != 'tea'")
def test_skipped():
    with SyncToolbus(config) as bus:
        bus.call("notes_add", {"text": TEXT})
        pytest.skip("no")
"""


def test_a_failing_test_leaves_the_tapes_as_they_were(project: Project) -> None:
    project.write(FAILING)
    assert project.run(TEXT="milk").returncode == 1
    assert project.tapes == []
    assert project.run().returncode == 0
    assert project.texts == ["tea"]
    assert project.run("--tape=rewrite", TEXT="milk").returncode == 1
    assert project.texts == ["tea"]


EVERY_WAY = """
@pytest.mark.anyio
async def test_anyio(tape):
    async with Toolbus(config) as bus, connect_mcp(fake) as other:
        await bus.call("notes_add", {"text": "one"})
        await other.call_tool("add", {"text": "two"})
    assert tape.path.name == "test_anyio.jsonl"


@pytest.fixture
async def bus(anyio_backend):
    async with Toolbus(config) as bus:
        yield bus


@pytest.fixture(scope="module")
def shared():
    with SyncToolbus({"servers": {"own": {"server": FakeServer({"add": lambda text: text})}}}) as bus:
        yield bus


@pytest.mark.anyio
async def test_fixture(bus, shared, tape):
    await bus.call("notes_add", {"text": "three"})
    shared.call("own_add", {"text": "live"})


@pytest.mark.tape
class TestClass:
    @pytest.mark.parametrize("text", ["a", "B/ü", "2", "x" * 300])
    def test_each(self, text):
        with SyncToolbus(config) as bus:
            assert bus.call("notes_add", {"text": text}).text == f"kept {text}"


@pytest.mark.tape("other/named.jsonl", mode="once")
def test_named():
    with SyncToolbus(config) as bus, SyncToolbus(config, record=False) as live:
        bus.call("notes_add", {"text": "four"})
        assert "GONE" in os.environ or live.call("notes_add", {"text": "not recorded"}).text


def test_without_a_tape():
    with SyncToolbus(config) as bus:
        assert bus.call("notes_add", {"text": "live"}).is_error is ("GONE" in os.environ)
"""


def test_async_tests_fixtures_classes_and_parameters_work_also_in_parallel(project: Project) -> None:
    project.write(EVERY_WAY)
    plugins = ("anyio.pytest_plugin", "xdist.plugin")
    first = project.run("-n2", plugins=plugins)
    assert first.returncode == 0, first.stdout
    assert first.stdout.count("recorded ") == len(project.tapes) + 1
    short = [name for name in project.tapes if len(name) < 60]
    assert short[:1] == ["test_notes/TestClass.test_each-2.jsonl"]
    assert {"test_notes/test_anyio.jsonl", "test_notes/test_anyio.2.jsonl"} < set(short)
    assert (project.folder / "other" / "named.jsonl").exists()
    assert sorted(project.texts) == sorted(["one", "two", "three", "a", "B/ü", "2", "x" * 300])
    second = project.run("-n2", plugins=plugins, GONE="1")
    assert second.returncode == 0, second.stdout
    assert "recorded" not in second.stdout


UNUSED = """
@pytest.mark.tape(unused="UNUSED")
def test_add():
    with SyncToolbus(config) as bus:
        bus.call("notes_add", {"text": "tea"})
        if TEXT != "milk":
            bus.call("notes_add", {"text": "sugar"})
"""


@pytest.mark.parametrize(("unused", "code"), [("report", 0), ("fail", 1), ("ignore", 0)])
def test_recorded_calls_that_are_not_made_are_reported(project: Project, unused: str, code: int) -> None:
    project.write(UNUSED.replace("UNUSED", unused))
    assert project.run().returncode == 0
    done = project.run(TEXT="milk")
    assert done.returncode == code, done.stdout
    assert ("1 recorded call was not made" in done.stdout) is (unused != "ignore")
    assert ('2 notes/add {"text": "sugar"}' in done.stdout) is (unused != "ignore")


MATCHING = """
@pytest.mark.tape(patterns={"text": "t*"})
def test_pattern():
    with SyncToolbus(config) as bus:
        assert bus.call("notes_add", {"text": TEXT}).text == "kept tea"


@pytest.mark.tape(ignore=["text"], in_order=True)
def test_ignored():
    with SyncToolbus(config) as bus:
        assert bus.call("notes_add", {"text": TEXT}).text == "kept tea"
"""


def test_the_marker_says_how_calls_are_compared(project: Project) -> None:
    project.write(MATCHING)
    assert project.run().returncode == 0
    assert project.run(TEXT="toast").returncode == 0
    done = project.run(TEXT="milk")
    assert "1 failed, 1 passed" in done.stdout
    project.write('@pytest.mark.tape(moed="all")\ndef test_wrong(): pass\n')
    assert "@pytest.mark.tape has no option 'moed'" in project.run().stdout


ADAPTERS = """
from toolbus.adapters import langchain, openai_agents, pydantic_ai
from toolbus.agent import Agent
from toolbus.testing import ScriptedModel, ToolCall


async def with_langchain(bus):
    [tool] = langchain.tools(bus)
    return await tool.ainvoke({"text": TEXT})


async def with_openai_agents(bus):
    from agents.tool_context import ToolContext

    [tool] = openai_agents.tools(bus)
    context = ToolContext(None, tool_name=tool.name, tool_call_id="1", tool_arguments="{}")
    return await tool.on_invoke_tool(context, '{"text": "%s"}' % TEXT)


async def with_pydantic_ai(bus):
    import pydantic_ai as framework

    model = ScriptedModel([ToolCall("notes_add", {"text": TEXT}), lambda results: results[-1]])
    async with framework.Agent(model, toolsets=[pydantic_ai.toolset(bus)]) as agent:
        return (await agent.run("Go.")).output


@pytest.mark.tape
@pytest.mark.anyio
@pytest.mark.parametrize("run", [with_langchain, with_openai_agents, with_pydantic_ai])
async def test_framework(run):
    async with Toolbus(config) as bus:
        assert f"kept {TEXT}" in str(await run(bus))


@pytest.mark.tape
@pytest.mark.anyio
async def test_agent():
    model = ScriptedModel([ToolCall("notes_add", {"text": TEXT}), lambda results: results[-1]])
    async with Agent(model, mcp_servers=config["servers"]) as agent:
        assert await agent.send("Go.") == f"kept {TEXT}"
"""


def test_adapters_and_the_agent_are_on_the_tape_of_their_test(project: Project) -> None:
    project.write(ADAPTERS)
    plugins = ("anyio.pytest_plugin",)
    quiet = ("-W", "ignore::DeprecationWarning")  # of the frameworks
    first = project.run(*quiet, plugins=plugins)
    assert first.returncode == 0, first.stdout
    assert project.texts == ["tea"] * 4
    second = project.run(*quiet, plugins=plugins, GONE="1")
    assert second.returncode == 0, second.stdout
    changed = project.run(*quiet, plugins=plugins, TEXT="milk")
    assert "4 failed" in changed.stdout
    assert changed.stdout.count('    text: "tea" was recorded, not "milk"') == 4


def test_pytest_without_a_tape_imports_nothing_heavy(project: Project) -> None:
    (project.folder / "test_plain.py").write_text(
        "import sys\n\n\ndef test_nothing():\n"
        "    heavy = {'mcp', 'pydantic', 'httpx2', 'yaml', 'anyio', 'toolbus.tape', 'toolbus.bus'}\n"
        "    assert not heavy & sys.modules.keys()\n"
    )
    done = project.run()
    assert done.returncode == 0, done.stdout


def test_the_package_names_the_plug_in() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"toolbus": "toolbus.testing.plugin"}


ASYNCIO = """
import pytest_asyncio


@pytest_asyncio.fixture
async def bus():
    async with Toolbus(config) as bus:
        yield bus


@pytest.mark.tape
@pytest.mark.asyncio
async def test_add(bus):
    assert (await bus.call("notes_add", {"text": TEXT})).text == f"kept {TEXT}"
"""


@pytest.mark.skipif(find_spec("pytest_asyncio") is None, reason="pytest-asyncio is not installed")
def test_pytest_asyncio_works_as_well(project: Project) -> None:
    project.write(ASYNCIO)
    options = ("-o", "asyncio_default_fixture_loop_scope=function")
    for environment in ({}, {"GONE": "1"}):
        done = project.run(*options, plugins=("pytest_asyncio.plugin",), **environment)
        assert done.returncode == 0, done.stdout
    assert project.texts == ["tea"]
