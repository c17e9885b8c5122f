"""First catalogs: from a lockfile next to starting the servers, and next to the import of the SDK."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from tempfile import TemporaryDirectory

from bench.measure import Opening, Sides, single
from bench.sides import STDIO

SERVERS = 10
FIRST_CATALOG = str(Path(__file__).with_name("first_catalog.py"))
TOOLBUS = str(Path(sys.executable).with_name("toolbus"))


def first_catalogs() -> Opening:
    """The catalog of ten servers after the import, without a lock and from it."""

    @asynccontextmanager
    async def open_both() -> AsyncGenerator[Sides]:
        with folders() as (open_folder, locked, env):
            yield Sides(
                raw=single(lambda: catalog_seconds(open_folder, env)),
                toolbus=single(lambda: catalog_seconds(locked, env)),
            )

    return open_both


def catalog_printed() -> Opening:
    """A whole interpreter that prints the catalog in a lockfile, next to one that imports the SDK."""
    return beside_import("-P", FIRST_CATALOG, "{config}")


def tools_printed() -> Opening:
    """`toolbus tools` with a lockfile, next to the import of the SDK."""
    return beside_import(TOOLBUS, "--config", "{config}", "tools")


def beside_import(*words: str) -> Opening:
    """A program of ours next to `import mcp`, both by the time that they take of a CPU."""

    @asynccontextmanager
    async def open_both() -> AsyncGenerator[Sides]:
        with folders() as (_, locked, env):
            config = str(locked / "toolbus.json")
            ours = [word.format(config=config) for word in words]
            yield Sides(
                raw=single(lambda: cpu_seconds(["-c", "import mcp"], env)),
                toolbus=single(lambda: cpu_seconds(ours, env)),
            )

    return open_both


@contextmanager
def folders() -> Generator[tuple[Path, Path, Mapping[str, str]]]:
    """A folder with a config of ten servers, one with its lockfile, and an environment for both."""
    with TemporaryDirectory(prefix="bench-") as made:
        root = Path(made)
        # As an installed package: compiled once.
        env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        env |= {"PYTHONPYCACHEPREFIX": str(root / "compiled"), "XDG_STATE_HOME": str(root / "state")}
        servers = {f"bench{number}": STDIO for number in range(SERVERS)}
        for name in ("open", "locked"):
            (root / name).mkdir()
            (root / name / "toolbus.json").write_text(json.dumps({"servers": servers}))
        command = [TOOLBUS, "--config", str(root / "locked" / "toolbus.json"), "lock", "--yes"]
        subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        yield root / "open", root / "locked", env


async def catalog_seconds(folder: Path, env: Mapping[str, str]) -> float:
    """Seconds from the import of toolbus to the catalog, in an interpreter of its own."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", FIRST_CATALOG, str(folder / "toolbus.json")),
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0
    return float(printed.split()[0])


async def cpu_seconds(words: list[str], env: Mapping[str, str]) -> float:
    """Seconds of CPU time of a whole interpreter."""
    before = _children()
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    assert await process.wait() == 0
    return _children() - before


def _children() -> float:
    """The CPU time of the children that have ended."""
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
