"""A folder with a config, and Python files beside it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.servers.everyday import everyday
from toolbus import Toolbus, ToolResult
from toolbus.records import Text

GUARD = '''
from toolbus import CallDenied


class Guard:
    """Refuses the tools of these names."""

    def __init__(self, refused=()):
        self._refused = refused

    async def __call__(self, operation):
        if operation.spec.origin.tool in self._refused:
            raise CallDenied(operation.spec.name, "{reason}")
'''
TRACE = """
from pathlib import Path

Path(__file__).with_name("imported").touch()


async def hook(call, following):
    return await following(call)
"""


def written(folder: Path, hooks: Sequence[Any], *, name: str = "toolbus.yaml", **settings: Any) -> Path:
    """A config file with these hooks."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(json.dumps({"servers": {}, "hooks": list(hooks), **settings}, indent=1))
    return file


def modules(folder: Path, **files: str) -> None:
    """Python files in a folder; `__` in a name is a slash."""
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def guard(reason: str = "not today") -> str:
    """The source of a guard."""
    return GUARD.replace("{reason}", reason)


def in_memory(**more: Any) -> Mapping[str, Any]:
    """Servers of this program."""
    return {"own": {"server": everyday()}, **more}


async def texts_of(bus: Toolbus) -> list[str]:
    """The texts in the result of a call."""
    return texts_in(await bus.call("own/echo", {"text": "hi"}))


def texts_in(result: ToolResult) -> list[str]:
    return [block.text for block in result.content if isinstance(block, Text)]
