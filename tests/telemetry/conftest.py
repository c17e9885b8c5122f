"""OpenTelemetry, installed for one test."""

from collections.abc import Iterator

import pytest

from tests.telemetry.collected import Collected, installed


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collected]:
    with installed(monkeypatch) as collected:
        yield collected
