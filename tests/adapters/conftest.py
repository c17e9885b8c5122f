"""The stages on which the contract is played."""

from collections.abc import AsyncIterator

import pytest

from tests.adapters.contract import PROVES, Contract, Harness, Stage
from tests.adapters.environments import ADAPTERS, living_here
from tests.conftest import Place
from toolbus import Toolbus

# Their frameworks live elsewhere; `make test` runs them there.
collect_ignore = [f"test_{name}.py" for name in ADAPTERS if name not in living_here()]


@pytest.fixture
async def stage(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, web_ports: dict[str, int]
) -> AsyncIterator[Stage]:
    """A stage with the everyday server over HTTP, which other tests also use."""
    async with Toolbus(_desk(Place("http", "modern", web_ports))) as bus:
        yield Stage(bus, _harness(request), monkeypatch)


@pytest.fixture
async def own_stage(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, web_ports: dict[str, int]
) -> AsyncIterator[Stage]:
    """With the everyday server as a process of its own, for tests that change it."""
    async with Toolbus(_desk(Place("stdio", "modern", web_ports))) as bus:
        yield Stage(bus, _harness(request), monkeypatch)


def _desk(place: Place) -> dict[str, object]:
    return {"servers": {"desk": place.config(timeouts={"call": 8}, trust_annotations=True)}}


def _harness(request: pytest.FixtureRequest) -> Harness:
    contract: object = request.instance
    assert isinstance(contract, Contract)
    point = PROVES.get(request.function.__name__)
    if point is not None and point in contract.harness.cannot:
        # Strict: once the framework can, the test says so, and the table is to be changed.
        reason = contract.harness.cannot[point]
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
    return contract.harness
