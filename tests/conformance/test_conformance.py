"""The MCP conformance suite with a bus as the client: every scenario of both eras that is not about OAuth."""

from pathlib import Path

import pytest

from tests.conformance.suite import judged, scenarios
from tests.interop.servers import require_installed

require_installed("conformance")

VERSIONS = ("2025-11-25", "2026-07-28")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "scenario" in metafunc.fixturenames:
        runs = [(version, name) for version, name in scenarios() if not name.startswith("auth/")]
        metafunc.parametrize(("version", "scenario"), [run for run in runs if run[0] in VERSIONS])


def test_a_bus_does_what_the_scenario_asks_of_a_client(version: str, scenario: str, tmp_path: Path) -> None:
    verdict = judged(version, scenario, tmp_path)
    assert not verdict.objections, "\n".join([*verdict.objections, verdict.said])
    assert verdict.passed, f"nothing was checked: {verdict.said}"
    assert verdict.exit_code == 0, verdict.said  # the client failed, or did not end


def test_a_client_that_does_nothing_passes_nothing(tmp_path: Path) -> None:
    assert judged("2025-11-25", "initialize", tmp_path, "true").passed == []
