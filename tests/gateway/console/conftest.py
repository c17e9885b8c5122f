"""One Chromium for all tests of the console, started for the first that needs it."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.auth.pages import why_no_browser
from tests.gateway.console.chromium import Chromium, NotStarted, chromium
from tests.interop.servers import require_installed


@pytest.fixture(scope="session")
def browser() -> Iterator[Chromium]:
    """The browser."""
    require_installed("oauth")
    with ExitStack() as stack:
        try:
            started = stack.enter_context(chromium())
        except NotStarted:
            why_not = why_no_browser()
            assert why_not, "Chromium starts for others"
            pytest.skip(why_not)
        yield started
