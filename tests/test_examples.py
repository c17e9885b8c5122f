"""Every program in examples/ runs, prints exactly this, and leaves no process behind."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import warm
from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[1]

NOT_FOUND = "spawn failed: command 'no-such-program' not found; install it, or give its full path"
STRICT = (
    '"parameters": {{"type": "object", "properties": {{"{0}": {{"type": "string"}}}}, "required": ["{0}"], '
    '"additionalProperties": false}}, "strict": true}}}}'
)

OUTPUT = {
    "recovery.py": """\
call math_square(x=12)
  144
kill -9 the server's process
  math: ready -> retrying
call math_square(x=13), while no server is running
  math: retrying -> ready
  169
""",
    "extension/host.py": """\
WARNING server 'search': headers.Authorization: secret 'EXAMPLE_SEARCH_TOKEN' is not set; set it in the \
environment or in a .env beside the config; the server is skipped
tool mcp_notes_add: [MCP: notes] Keep a note.
tool mcp_notes_search: [MCP: notes] Find the notes that hold a word.
event mcp.tool_called: notes/add, error: None
event mcp.tool_called: notes/search, error: None
assistant: I looked: buy tea.
healthy: True
tools after the stop: 0
""",
    "registry.py": f"""\
skipped weather: server 'weather': {NOT_FOUND}
tools: count_words, notes_add, notes_search
notes_add: kept as note 1
notes_search: MCP error: wrong arguments for 'notes_search', nothing was sent: \
argument 'word' is missing: expected a string (Word); for example "text"
argument 'world' is unknown: did you mean 'word'? known: 'word' (an error)
notes_search: buy tea
count_words: 2
bot: The last tool said: 2
tools after the shutdown: count_words
""",
    "runtime_discovery.py": f"""\
not registered: server 'broken-mcp': {NOT_FOUND}
{{"type": "function", "function": {{"name": "mcp_add", "description": "[Notes MCP] Keep a note.", \
{STRICT.format("text")}
{{"type": "function", "function": {{"name": "mcp_search", \
"description": "[Notes MCP] Find the notes that hold a word.", {STRICT.format("word")}
mcp_add of notes-mcp: ['Text'] kept as note 1
mcp_search of notes-mcp: ['Text'] buy tea
tools without the server: 0
""",
    "approval.py": """\
tools: notes_add, notes_open_archive, notes_search
notes_add {'text': 'buy tea'}
  policy[3] asks about notes_add {'text': 'buy tea'}
  kept as note 1
notes_add {'text': 'buy tea, then bread, then cheese'}
  policy[3] asks about notes_add {'text': 'buy tea, then bread, then cheese'}
  refused: not allowed: too long for a note; do not repeat it unless the user asks for it
notes_add {'text': 'the password is 1234'}
  refused: rule policy[2] denies it: no passwords in notes
notes_forget {'id': 1}
  refused: rule policy[0] denies it: notes are deleted by hand
notes: ['buy tea']
""",
    "tool_list.py": """\
tools: shout, work_add, work_search, home_add, home_search
user: What is on my list at home?
work_add: kept as note 1
home_add: kept as note 1
home_search: buy tea
shout: TEA
agent: You wanted to buy tea.
closed: the connection is closed; create a new one
MCP error: the bus is closed; create a new one
""",
    "call_trace.py": """\
CLIENT tools/call add
  mcp.method.name: tools/call
  gen_ai.operation.name: execute_tool
  gen_ai.tool.name: add
  toolbus.tool: notes_add
  toolbus.server: notes
  jsonrpc.request.id: 6
  toolbus.outcome: ok
  network.transport: pipe
  mcp.protocol.version: 2026-07-28
""",
}


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """A copy of the folder, so that new files in it can be told from others."""
    folder = tmp_path / "examples"
    shutil.copytree(ROOT / "examples", folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.mark.parametrize("program", OUTPUT)
def test_the_example_prints_this_and_leaves_nothing_behind(
    program: str, examples: Path, request: pytest.FixtureRequest
) -> None:
    # With --full, it and its servers make their imports themselves.
    programs = Path(sys.executable).parent if request.config.getoption("--full") else warm.folder()
    env = {name: value for name, value in os.environ.items() if name != "EXAMPLE_SEARCH_TOKEN"}
    env["PATH"] = f"{programs}{os.pathsep}{env['PATH']}"
    done = subprocess.run(
        [programs / "python", "-W", "error", program],
        cwd=examples,
        env=env,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == (OUTPUT[program], "", 0)
    deadline = time.monotonic() + 5  # a process that was told to end may take a moment
    while left := processes_in(examples):
        assert time.monotonic() < deadline, f"still running: {left}"


def test_no_program_is_left_out() -> None:
    folder = ROOT / "examples"
    programs = {path.relative_to(folder).as_posix() for path in folder.rglob("*.py")}
    # Programs that the pages run; tests/agent/test_examples.py.
    elsewhere = {
        "notes.py",
        "desk.py",
        "handbook.py",
        "sandbox_probe.py",
        "assistant.py",
        "structured_output.py",
    }
    elsewhere |= {"durable_run.py", "hooks/redact.py", "hooks/quota.py", "hooks/call_log.py"}
    assert programs - elsewhere == set(OUTPUT)


def test_the_overview_has_every_program_and_config() -> None:
    folder = ROOT / "examples"
    linked = set(re.findall(r"\]\(([\w./]+)\)", (folder / "README.md").read_text()))
    files = {
        path.name
        for path in folder.iterdir()
        if path.name not in ("README.md", "__pycache__") and not path.name.startswith(".")
    }
    assert {name for name in linked if not name.startswith("..")} == files


def processes_in(folder: Path) -> list[str]:
    """The processes that run in the folder, also those whose parent is gone."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cwd").readlink().is_relative_to(folder):
                found.append((entry / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue  # it ended while we looked, or is not ours
    return found
