"""The description of `run_code` is true: every claim about its language is run."""
# ruff: noqa: E501  a script in one line is easier to compare with what it returns

import sys
from pathlib import Path

import pytest

from tests.code.support import config
from tests.inside.bus import HAS, LACKS, LANGUAGE, MODULES
from toolbus import Toolbus

pytestmark = pytest.mark.anyio

WORKING = {
    "functions": "def f(a, *rest, b=2, **more):\n    return a + b\nassert f(1, b=3) == 4",
    "lambda": "assert sorted([2, 1], key=lambda one: -one) == [2, 1]\nassert next(iter([x for x in [1]]), None) == 1",
    "decorators": "def twice(f):\n    return lambda x: f(f(x))\n@twice\ndef add(x):\n    return x + 1\nassert add(1) == 3",
    "comprehensions": "assert {x: [y for y in range(x)] for x in {2}} == {2: [0, 1]}\nassert sum(x for x in [1, 2]) == 3",
    "f-strings": 'x = 3.14159\nassert f"{x:.2f} {1000:,} {x!r}" == "3.14 1,000 3.14159"',
    "try/except/finally": "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    said = str(error)\nfinally:\n    done = True\nassert said and done",
    "match": 'match {"a": 1}:\n    case {"a": one}:\n        found = one\n    case _:\n        found = 0\nassert found == 1',
    "simple classes": "class Sum:\n    def __init__(self):\n        self.all = 0\n    def add(self, x):\n        self.all += x\ns = Sum()\ns.add(2)\nassert s.all == 2",
    "dataclasses": "from dataclasses import dataclass\n@dataclass\nclass Row:\n    name: str\nassert Row('a').name == 'a'",
    "asyncio.gather": "import asyncio\nasync def f(x):\n    return x\nassert await asyncio.gather(f(1), f(2)) == [1, 2]",
    "asyncio.sleep": "import asyncio\nawait asyncio.sleep(0.001)",
}
FAILING = {
    "yield": "def f():\n    yield 1",
    "class inheritance": "class Mine(Exception):\n    pass",
    "properties": "class A:\n    @property\n    def x(self):\n        return 1",
    "del": "d = {1: 2}\ndel d[1]",
    "async with": "import asyncio\nasync def f(lock):\n    async with lock:\n        pass",
    "async for": "async def f(rows):\n    async for row in rows:\n        pass",
    "asyncio.create_task": "import asyncio\nasync def f():\n    return 1\nawait asyncio.create_task(f())",
    "methods as values such as key=d.get (use a lambda)": 'd = {"a": 1}\nmax(d, key=d.get)',
    "next() of a generator (use a list and iter)": "next((x for x in [1]), None)",
    "import *": "from math import *",
    "input()": "input()",
    "files": 'open("/etc/hostname").read()',
    "network": "import socket",
    "environment variables": 'import os\nos.environ["HOME"]',
    "other modules": "import urllib.parse",
}
UNLISTED = {"binascii", "os", "pathlib", "posixpath", "sys", "tomllib", "unicodedata"}
"""Modules that scripts can import, but that have little for them."""


async def test_the_language_has_what_a_model_is_told(tmp_path: Path) -> None:
    assert set(WORKING) == set(HAS)
    async with Toolbus(config(tmp_path, expose="code")) as bus:
        assert LANGUAGE in bus.tools()[-1].description
        scripts = WORKING | {name: f"import {name}\n{name}" for name in MODULES}
        results = {claim: await bus.scripts.run(script) for claim, script in scripts.items()}
    assert {claim: result.text for claim, result in results.items() if result.is_error} == {}


async def test_the_language_lacks_what_a_model_is_told(tmp_path: Path) -> None:
    assert set(FAILING) == set(LACKS)
    async with Toolbus(config(tmp_path)) as bus:
        results = {claim: await bus.scripts.run(script) for claim, script in FAILING.items()}
        modules = "\n".join(
            f"try:\n    import {name}\n    print('{name}')\nexcept ModuleNotFoundError:\n    pass"
            for name in sorted(sys.stdlib_module_names)
            if not name.startswith("_")
        )
        found = await bus.scripts.run(modules)
    assert [claim for claim, result in results.items() if not result.is_error] == []
    assert set(found.text.split()) == {*MODULES, *UNLISTED}
