"""One Chromium for all tests of the console, started for the first that needs it."""

from collections.abc import Iterator

import pytest

from tests.gateway.console.chromium import Chromium, started_or_skipped


@pytest.fixture(scope="session")
def browser() -> Iterator[Chromium]:
    """The browser."""
    yield from started_or_skipped()
