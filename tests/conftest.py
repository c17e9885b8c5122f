"""Fixtures for every test: real servers over every transport, and a watch on child processes."""

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.inside.bus import servers
from tests.inside.connect import guard, helpers
from tests.patience import PATIENCE
from tests.processes import children, keeping
from tests.servers.asking import asking
from tests.servers.everyday import everyday

SERVERS = Path(__file__).parent / "servers"

# A shell that starts the tests in the background has them ignore Ctrl-C, and so would all that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Every HTTP client of every framework loads all certificates of the machine, for 50 ms. No test leaves the
# machine, so one that nobody uses will do.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).with_name("nobody.pem"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run every cell of every matrix")


def pytest_configure(config: pytest.Config) -> None:
    given: dict[str, Any] = getattr(config, "workerinput", {})
    if "warm" in given:
        warm.share(given["warm"])
    config.addinivalue_line("markers", "full: only with --full, as `make test-all` has it")
    if find_spec("hypothesis"):  # adapters with an environment of their own are tested without it
        from hypothesis import settings

        settings.register_profile("full", max_examples=100)
        settings.register_profile("sampled", max_examples=30)
        settings.load_profile("full" if config.getoption("--full") else "sampled")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: Sequence[Any]) -> None:
    """Collect the tests once for all workers, and make the imports of the programs meanwhile."""
    warm.prepared()
    python = warm.worker([str(argument) for argument in config.invocation_params.args])
    for spec in specs:
        spec.python = python


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["warm"] = warm.prepared().address


LONGEST = (
    "test_cli_shells.py",
    "test_restarts.py",
    "test_conformance.py",
    "test_pages.py",
    "test_chat.py",
    "test_cli_ends.py",
    "test_everything.py",
    "test_lifetime.py",
    "test_docs.py",
    "test_base_install.py",
    "test_replicas.py",
    "test_workers.py",
    "test_crash.py",
)
"""Files that take long, which are begun first: or one worker would be left with them at the end."""


# What is imported and collected stays, and looking for garbage in it takes a sixth of the time.
gc.disable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in LONGEST)
    if not config.getoption("--full"):
        left_out = [item for item in items if item.get_closest_marker("full")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("full")]


def pytest_collection_finish() -> None:
    gc.enable()


@pytest.fixture(scope="module", autouse=True)
def _frozen() -> None:  # pyright: ignore[reportUnusedFunction]  # pytest uses it
    """Spare every later `gc.collect` half a second: objects imported by now are not looked through again."""
    gc.collect()
    gc.freeze()


def sampled(cells: Sequence[Any], *kept: Any) -> list[Any]:
    """The cells of a matrix, of which only some are kept without --full."""
    assert all(cell in cells for cell in kept), f"{kept} are not all among {cells}"
    return [cell if cell in kept else pytest.param(cell, marks=pytest.mark.full) for cell in cells]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def _reaped() -> None:  # pyright: ignore[reportUnusedFunction]  # pytest uses it
    with keeping():
        helpers.use(guard)  # for as long as we run, so that each test need not start another one
        guard.start()


@pytest.fixture(scope="session", autouse=True)
def _patient() -> None:  # pyright: ignore[reportUnusedFunction]  # pytest uses it
    """On a busy machine, a server may be silent for long, and so may a warm one's stand-in."""
    servers.INACTIVE_AFTER = 30.0


@pytest.fixture(autouse=True)
def no_process_left() -> Iterator[None]:
    """Every test ends with the child processes it began with."""
    before = children(keepers=True)
    yield
    left = children(keepers=True) - before
    deadline = time.monotonic() + 60  # a process that was killed may take a moment to be gone
    while left and time.monotonic() < deadline:
        time.sleep(0.005)
        left = children(keepers=True) - before
    assert not left, f"processes left behind: {left}"


@contextmanager
def web_server(kind: str, folder: Path, port: int = 0, script: str = "everyday.py") -> Generator[int]:
    """The everyday server, or another one, over HTTP in a process of its own; gives its port."""
    port_file = folder / f"{kind}.port"
    command = [warm.python(), str(SERVERS / script), kind, str(port_file), str(port)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + PATIENCE
        while not port_file.exists():
            assert process.poll() is None, f"the {kind} server ended at once"
            assert time.monotonic() < deadline, f"the {kind} server did not start"
            time.sleep(0.005)
        yield int(port_file.read_text())
    finally:
        process.terminate()
        process.wait(PATIENCE)
        port_file.unlink(missing_ok=True)


@pytest.fixture(scope="session")
def web_ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    yield from _ports(tmp_path_factory.mktemp("ports"), "everyday.py")


@pytest.fixture(scope="session")
def asking_ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    yield from _ports(tmp_path_factory.mktemp("asking"), "asking.py")


def _ports(folder: Path, script: str) -> Iterator[dict[str, int]]:
    with ExitStack() as stack:
        with keeping():
            ports = {
                kind: stack.enter_context(web_server(kind, folder, script=script)) for kind in ("http", "sse")
            }
        yield ports


@dataclass(frozen=True)
class Place:
    """The place of a server: its transport and its era."""

    transport: str
    era: str
    ports: dict[str, int]
    script: str = "everyday.py"

    def config(self, **more: Any) -> dict[str, Any]:
        """A server entry for it."""
        match self.transport:
            case "memory":
                where: dict[str, Any] = {"server": asking() if self.script == "asking.py" else everyday()}
            case "stdio":
                where = {"command": warm.python(), "args": [str(SERVERS / self.script), "stdio"]}
            case "http":
                where = {"url": f"http://127.0.0.1:{self.ports['http']}/mcp"}
            case _:
                where = {"url": f"http://127.0.0.1:{self.ports['sse']}/sse"}
        return where | {"era": self.era} | more


PLACES = [
    (transport, era) for transport in ("memory", "stdio", "http", "sse") for era in ("modern", "legacy")
]

MET = sampled(
    PLACES,
    ("memory", "modern"),
    ("stdio", "legacy"),
    ("http", "modern"),
    ("http", "legacy"),
    ("sse", "legacy"),
)
"""Every transport and both eras; calls are tried in all places, in tests/journeys/test_calls.py."""


@pytest.fixture(params=MET, ids="-".join)
def place(request: pytest.FixtureRequest, web_ports: dict[str, int]) -> Place:
    transport, era = request.param
    return Place(transport, era, web_ports)


ASKERS = sampled(PLACES, ("memory", "modern"), ("stdio", "legacy"), ("http", "modern"))
"""Questions take the ways that calls take."""


@pytest.fixture(params=ASKERS, ids="-".join)
def asker(request: pytest.FixtureRequest, asking_ports: dict[str, int]) -> Place:
    """The place of the server that asks."""
    transport, era = request.param
    return Place(transport, era, asking_ports, "asking.py")


@pytest.fixture(params=sampled([transport for transport, era in PLACES if era == "modern"], "stdio", "http"))
def modern_asker(request: pytest.FixtureRequest, asking_ports: dict[str, int]) -> Place:
    """The same, for what there is in the modern era only."""
    return Place(request.param, "modern", asking_ports, "asking.py")


def plain(*behaviours: str, **more: Any) -> dict[str, Any]:
    """A server entry for the plain server, told to misbehave in these ways."""
    return {"command": sys.executable, "args": [str(SERVERS / "plain.py"), *behaviours], **more}
