"""No script gets out: not to files, network, environment or host objects, and none outlives its run."""

import asyncio
import os
import threading
from pathlib import Path

import pytest

from tests.inside.code import ScriptSandbox
from tests.patience import PATIENCE, until
from toolbus import Toolbus

pytestmark = pytest.mark.anyio
SECRET = "a-secret-of-the-host"
ESCAPES = {
    "import os": "import os\nos.system('id')",
    "environment": "import os\nos.environ['HOST_SECRET']",
    "getenv": "import os\nos.getenv('HOST_SECRET')",
    "list": "import os\nos.listdir('/')",
    "subprocess": "import subprocess\nsubprocess.run(['id'])",
    "socket": "import socket\nsocket.create_connection(('127.0.0.1', 1))",
    "urllib": "import urllib.request\nurllib.request.urlopen('http://127.0.0.1')",
    "ctypes": "import ctypes\nctypes.CDLL(None)",
    "importlib": "import importlib\nimportlib.import_module('os')",
    "builtin import": "__import__('os').system('id')",
    "open": "open('/etc/hostname').read()",
    "pathlib": "from pathlib import Path\nPath('/etc/hostname').read_text()",
    "write": "from pathlib import Path\nPath('escaped').write_text('x')",
    "classes": "().__class__.__base__.__subclasses__()",
    "getattr": "getattr(getattr((), '__class__'), '__base__').__subclasses__()",
    "globals": "(lambda: 0).__globals__['__builtins__']",
    "frames": "import sys\nsys._getframe().f_back",
    "code": "(lambda: 0).__code__.replace(co_code=b'')",
    "eval": "eval('__import__(\"os\").getcwd()')",
    "exec": "exec('import os\\nos.listdir(\"/\")')",
    "function": "undefined_function()",
    "memory": "x = []\nwhile True:\n    x.append('y' * 1_000_000)",
    "list bomb": "x = [0] * 10**9",
    "power bomb": "x = 10 ** 10 ** 8\nlen(str(x))",
    "string bomb": "x = 'a' * 10**10",
    "loop": "while True:\n    pass",
    "recursion": "def f(n: int) -> int:\n    return f(n + 1)\nf(0)",
    "regex": "import re\nre.match('(a+)+$', 'a' * 40 + 'b' )\nwhile True:\n    pass",
    "sleep": "import time\ntime.sleep(10_000)\ntime.sleep(10_000)",
    "sleeps": "import asyncio\nwhile True:\n    await asyncio.sleep(0.1)",
    "print": "while True:\n    print('x' * 1_000_000)",
    "deep": "(" * 5000 + ")" * 5000,
}


def workers() -> list[str]:
    """The command lines of the child processes of this one."""
    found: list[str] = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and f"\nPPid:\t{os.getpid()}\n" in (folder / "status").read_text():
                found.append((folder / "cmdline").read_text())
        except OSError:  # it has just ended
            continue
    return [one for one in found if "monty" in one]


@pytest.mark.parametrize("name", ESCAPES)
async def test_no_escape_succeeds(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOST_SECRET", SECRET)
    async with Toolbus({"servers": {}, "code": {"time": 1}}) as bus:
        result = await bus.scripts.run(ESCAPES[name])
    assert result.is_error, result.text
    assert SECRET not in result.text
    assert not (tmp_path / "escaped").exists()
    assert len(result.text) < 100_000
    assert workers() == []


async def test_a_cancelled_script_leaves_no_process() -> None:
    async with Toolbus({"servers": {}, "code": {"time": 600}}) as bus:
        running = asyncio.create_task(bus.scripts.run("while True:\n    pass"))
        await until(lambda: bool(workers()))
        running.cancel()
        await asyncio.wait([running], timeout=PATIENCE)
    assert running.cancelled()
    assert workers() == []


async def test_a_script_that_is_cancelled_while_its_process_starts_leaves_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starting, goes_on, opened = threading.Event(), threading.Event(), ScriptSandbox._open  # pyright: ignore[reportPrivateUsage]

    def slowly(box: ScriptSandbox, stubs: str) -> None:
        starting.set()
        assert goes_on.wait(PATIENCE)
        opened(box, stubs)

    monkeypatch.setattr(ScriptSandbox, "_open", slowly)
    async with Toolbus({"servers": {}, "code": {"time": 600}}) as bus:
        running = asyncio.create_task(bus.scripts.run("while True:\n    pass"))
        assert await asyncio.to_thread(starting.wait, 60)
        running.cancel()
        for _ in range(10):
            await asyncio.sleep(0)  # it is cancelled, and has no process to end yet
        goes_on.set()
        await asyncio.wait([running], timeout=PATIENCE)
    assert running.cancelled()
    assert workers() == []
