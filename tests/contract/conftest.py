"""Commands are forked from one process, which is there before the first of them."""

import pytest

from tests import warm


@pytest.fixture(scope="session", autouse=True)
def _warm() -> None:  # pyright: ignore[reportUnusedFunction]  # pytest uses it
    warm.folder()
