"""The output of commands with `--json`, their exit codes, and their files on disk."""

import json
import re
import shlex
import sqlite3
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from tests import warm
from tests.cli.running import toolbus, write_config
from tests.contract import peer
from tests.contract.recording import shape_of
from tests.contract.wire import without_version

SCRIPT = 'await peer_echo(text="tea")\n"done"\n'
SETTINGS: dict[str, Any] = {
    "policy": [
        {"tools": "peer/hang", "do": "deny", "reason": "it never ends"},
        {"tools": "peer/steps", "do": "ask"},
    ],
    "audit": "audit.jsonl",
    "serve": {"auth": {"keys": True}, "views": {"default": {}, "small": {"servers": ["peer"]}}},
}
LINES = """
trust
trust --yes
tools
tools peer --full
tools odd
search say it again
call peer_echo text=tea
call peer_fail
call peer_refuse
call peer_ecko text=tea
call peer_echo txt=tea
call peer_hang
call peer_steps
call down_any
call peer_book --on-input suspend > call.json
resume call.json day=Sunday
resume call.json days=3
resume none.json
call --resume none.json
resources
read
read memo://one
read odd://one
prompts
prompt
prompt peer/ask what=tea
prompt peer/odd
skills
skill
skill odd
check peer
check down
config
config --redacted
policy
policy peer_hang
policy peer_odd
policy --forget
disable down
status
up
status
call peer_echo text=tea
console
down
down
lock --check
lock --yes
lock --check
diff
lock diff
approve peer/echo
lock approve peer/echo
tools
audit
audit --verify
key add ann --view small --user ann@example.com
key list
key revoke ann
key revoke ann
key add eve --expires 30d
run script.py
script script.py
run script.py --check
run script.py --stubs
run none.py
logins
login
login peer
logout odd
console
install
add more -- python -m more
enable more
disable more
remove more
remove more
import cursor
runs --store none.db
worker odd:agent
runs worker odd:agent
store rekey
chat hello --model odd
odd
tools --odd
call
--config none.yaml tools
--config wrong.yaml tools
--config shared.yaml key add bob
--config shared.yaml key list
--config shared.yaml store rekey
--config shared.yaml store backup copy.db
"""
ENV = {"COLUMNS": "100", "NO_COLOR": "1"}


def recorded() -> dict[str, Any]:
    """The outcome of each command line, then each file."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "home" / "work"
        folder.mkdir(parents=True)
        _prepare(folder)
        found: dict[str, Any] = {}
        for line in filter(None, LINES.splitlines()):
            number = sum(name.partition(" #")[0] == f"toolbus {line}" for name in found) + 1
            found[f"toolbus {line} #{number}"] = _outcome(line, folder)
        return {**found, **dict(_files(folder.parent))}


def _prepare(folder: Path) -> None:
    (folder / "script.py").write_text(SCRIPT)
    (folder / "wrong.yaml").write_text("servers: {peer: {comand: python}}\n")
    (folder / "shared.yaml").write_text(
        "servers: {peer: {command: python}}\nstore: sqlite:///shared.db\nserve: {auth: {keys: true}}\n"
    )
    (folder / ".cursor").mkdir()
    (folder / ".cursor" / "mcp.json").write_text('{"mcpServers": {"other": {"command": "python"}}}')
    write_config(
        folder,
        {
            "peer": {"command": sys.executable, "args": [peer.__file__, "modern"], "era": "modern"},
            "down": {"command": "no-such-program"},
        },
        **SETTINGS,
    )


def _outcome(line: str, folder: Path) -> dict[str, Any]:
    words, _, target = line.partition(" > ")
    done = toolbus("--json", *shlex.split(words), folder=folder, env=ENV)
    if target:
        (folder / target).write_text(done.stdout)
    try:
        document = json.loads(done.stdout)
    except ValueError:
        return {
            "exit": done.returncode,
            "stdout": without_places(done.stdout, folder),
            "stderr": without_places(done.stderr, folder),
        }
    if "error" in document:
        return {
            "exit": done.returncode,
            "error": json.loads(without_places(json.dumps(document["error"]), folder)),
        }
    return {"exit": done.returncode, "json": shape_of(document)}


def without_places(text: str, folder: Path) -> str:
    """A text without parts that differ from machine to machine."""
    for place, name in ((folder, "WORK"), (folder.parent, "HOME"), (Path(warm.python()).parent, "BIN")):
        text = text.replace(str(place), name)
    text = text.replace(sys.executable, "PYTHON").replace(str(Path(__file__).parents[1]), "TESTS")
    return without_version(text)


def _files(home: Path) -> Iterator[tuple[str, Any]]:
    for path in sorted(home.rglob("*")):
        name = re.sub(r"[0-9a-f]{12,}", "DIGEST", str(path.relative_to(home)))
        # What is not private is as the umask of the user has it.
        mode = "for others" if stat.S_IMODE(path.stat().st_mode) & 0o077 else "private"
        if path.is_dir():
            yield f"disk {name}/", mode
        else:
            yield f"disk {name}", [mode, _content(path)]


def _content(path: Path) -> Any:
    """The shape of a file: of its JSON or its lines of JSON, or the tables and columns of a database."""
    data = path.read_bytes()
    if data.startswith(b"SQLite format 3\0"):
        with closing(sqlite3.connect(path)) as database:
            return {
                "sql": sorted(row[0] for row in database.execute("select sql from sqlite_master") if row[0])
            }
    try:
        return shape_of(json.loads(data))
    except ValueError:
        pass
    try:
        return {"lines": shape_of([json.loads(line) for line in data.splitlines()])}
    except ValueError:
        return "text" if data.isascii() else "bytes"
