"""The demo servers, wherever a test wants to meet them."""

from collections.abc import Iterator
from typing import Literal

import pytest

from tests.demo.running import Servers


@pytest.fixture
def servers(transport: Literal["stdio", "http"], era: str) -> Iterator[Servers]:
    found = Servers(transport, era)
    with found.stack:
        yield found
