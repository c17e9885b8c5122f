"""Every test of the store runs on both databases."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.inside.state import Cipher, StoreUrl, parse_store_url
from tests.postgres import Server, postgres_server

KEY = b"k" * 32


@pytest.fixture(scope="session")
def postgres() -> Generator[Server]:
    with postgres_server() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> StoreUrl:
    """The URL of an empty store."""
    if request.param == "sqlite":
        return parse_store_url(f"sqlite:///{tmp_path / 'store.db'}")
    server: Server = request.getfixturevalue("postgres")
    return parse_store_url(server.database())


@pytest.fixture
def cipher() -> Cipher:
    return Cipher([KEY])
