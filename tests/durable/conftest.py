"""A real Postgres for the tests of durable runs, and a database of its own for each test."""

from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import sampled
from tests.postgres import Server
from tests.postgres import postgres_server as started
from tests.processes import keeping


@pytest.fixture(scope="session")
def postgres_server() -> Generator[Server]:
    """One server for all tests of this process."""
    with ExitStack() as stack:
        with keeping():
            server = stack.enter_context(started())
        yield server


@pytest.fixture
def postgres_url(postgres_server: Server) -> str:
    """A new database."""
    return postgres_server.database()


@pytest.fixture(params=sampled(["sqlite", "postgres"], "postgres"))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store of each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "runs.db")
    return request.getfixturevalue("postgres_url")


@pytest.fixture
def full(request: pytest.FixtureRequest) -> bool:
    """Whether tests take as long as they have to."""
    return bool(request.config.getoption("--full"))
