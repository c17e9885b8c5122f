"""A clock that tests can set ahead, so that lists expire at once."""

import pytest

from tests.freshness.growing_bus import Clock
from tests.inside.core import freshness


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    ahead = Clock()
    monkeypatch.setattr(freshness, "clock", ahead)
    return ahead
