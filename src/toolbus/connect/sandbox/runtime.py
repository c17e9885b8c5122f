"""The files that a program consists of: itself, its interpreter, and the environment it is installed in."""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

_MOST = 16
"""How many programs one is made of at most: links, interpreters."""
_LINE = 1024
_HOME = re.compile(r"^home\s*=\s*(.+?)\s*$", re.MULTILINE)
_NODE_MODULES = "node_modules"


def runtime_paths(program: str, search: str, can_change: Callable[[str], bool]) -> list[str]:
    """The paths without which the program cannot run; `search` is the PATH of its interpreter.

    Nothing is concluded from what the server `can_change`: it could name any file as its interpreter.
    """
    found: dict[str, None] = {}
    waiting, seen = [os.path.abspath(program)], set[str]()
    while waiting and len(seen) < _MOST:
        path = waiting.pop()
        # The content of a script is not trusted: it could name any folder, secret or FIFO.
        if path in seen or can_change(path) or not _is_program(path):
            continue
        seen.add(path)
        found |= dict.fromkeys([path, *_around(path)])
        waiting += _next_programs(path, search)
        for folder in [one for one in found if os.path.isfile(os.path.join(one, "pyvenv.cfg"))]:
            if (base := _base_of(folder)) is not None and not can_change(base):
                found |= dict.fromkeys(_around(base))
    return list(found)


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _next_programs(path: str, search: str) -> Iterator[str]:
    """Where a link leads, or the interpreter of a script."""
    if os.path.islink(path):
        yield os.path.normpath(os.path.join(os.path.realpath(os.path.dirname(path)), os.readlink(path)))
        return
    try:
        with open(path, "rb") as file:
            line = file.readline(_LINE)
    except OSError:
        return
    words = line[2:].decode(errors="replace").split() if line.startswith(b"#!") else []
    if words and os.path.basename(words[0]) == "env":
        names = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        if names and (interpreter := shutil.which(names[0], path=search)):
            yield os.path.abspath(interpreter)
    elif words:
        yield words[0]


def _around(path: str) -> Iterator[str]:
    """The environment that a program is installed in, if it is one."""
    head, mark, _ = path.partition(f"{os.sep}{_NODE_MODULES}{os.sep}")
    if mark:
        yield os.path.join(head, _NODE_MODULES)
    folder = Path(path).parent
    prefix = folder.parent
    if folder.name == "shims" and (prefix / "versions").is_dir():  # pyenv: the shim finds the version
        yield str(prefix)
    if folder.name not in ("bin", "sbin"):
        return
    if (prefix / "pyvenv.cfg").is_file() or _is_prefix(prefix):
        yield str(prefix)
        # In case the prefix itself is too wide to be shown, such as the home folder.
        yield from map(str, prefix.glob("lib/python3*"))
    if (prefix / "lib" / _NODE_MODULES).is_dir():
        yield str(prefix / "lib" / _NODE_MODULES)


def _is_prefix(prefix: Path) -> bool:
    """Whether Python or Node is installed there; not any folder that has a `bin`, such as ~/.local."""
    has_python = any(prefix.glob("lib/python3*/os.py")) and any(prefix.glob("bin/python3*"))
    return has_python or ((prefix / "bin" / "node").is_file() and (prefix / "lib" / _NODE_MODULES).is_dir())


def _base_of(venv: str) -> str | None:
    """The interpreter that a virtual environment was made from."""
    try:
        home = _HOME.search((Path(venv) / "pyvenv.cfg").read_text(errors="replace"))
    except OSError:
        return None
    if home is None or not _is_prefix(Path(home[1]).parent):
        return None
    return os.path.join(home[1], "python3")
