"""Files of an earlier toolbus, in `old/`, and what commands read from them.

They were written in November 2026; never rewrite them, because users have such files. All secrets in them are
fake. `FILE` stands for the path of the config and `CONFIG` for its SHA-256, databases are SQL.
"""

import json
import shutil
import sqlite3
import tempfile
from contextlib import closing
from hashlib import sha256
from os import fsencode
from pathlib import Path
from typing import Any

from tests.cli.running import toolbus
from tests.contract import peer
from tests.contract.commands import without_places

OLD = Path(__file__).parent / "old"
LINES = """
trust
tools
logins
policy
audit
audit --verify
key list
resume call.json day=Sunday
call peer_steps
runs --all --store runs.db
runs show letter --store runs.db
--config shared.yaml key list
--config kept.yaml key list
--config kept.yaml logins
--config kept.yaml policy
"""
CHANGING = ("elapsed_ms",)


def recorded() -> dict[str, Any]:
    """The output of each command for the old files: whole documents, not only their shape."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "home" / "work"
        restore(folder)
        return {f"toolbus {line}": _read(line, folder) for line in filter(None, LINES.splitlines())}


def _read(line: str, folder: Path) -> Any:
    done = toolbus("--json", *line.split(), folder=folder)
    assert done.stdout, done.stderr
    document = json.loads(without_places(done.stdout, folder))
    return {key: value for key, value in document.items() if key not in CHANGING}


def restore(folder: Path) -> None:
    """Put the old files where a user has them, with the permissions that they have there."""
    config = folder / "toolbus.yaml"
    state = folder.parent / ".state" / "toolbus"
    shutil.copytree(OLD / "work", folder)
    shutil.copytree(OLD / "state", state)
    shutil.copy(peer.__file__, folder)
    for file in [*folder.rglob("*.sql"), *state.rglob("*.hex")]:
        _unpack(file)
    for path in list(state.rglob("CONFIG*")):
        if path.suffix == ".json":
            path.write_text(path.read_text().replace("FILE", str(config)))
        path.rename(path.with_name(path.name.replace("CONFIG", sha256(fsencode(config)).hexdigest())))
    for path in [
        folder,
        state,
        *state.rglob("*"),
        *(folder / "tokens").rglob("*"),
        folder / "tokens",
        *folder.glob("*.db"),
    ]:
        path.chmod(0o700 if path.is_dir() else 0o600)


def _unpack(file: Path) -> None:
    """Replace a text by the bytes that it stands for."""
    text, packed = file.read_text(), file.with_suffix("")
    if file.suffix == ".hex":
        packed.write_bytes(bytes.fromhex(text))
    else:
        with closing(sqlite3.connect(packed)) as database:
            database.executescript(text)
    file.unlink()
