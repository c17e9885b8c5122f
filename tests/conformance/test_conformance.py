"""The MCP conformance suite with a bus as the client: every scenario of both eras that is not about OAuth."""

from pathlib import Path

import pytest

from tests.conformance.suite import judged, scenarios
from tests.conftest import sampled
from tests.interop.servers import require_installed

require_installed("conformance")

VERSIONS = ("2025-11-25", "2026-07-28")
REPEATED = [("2025-11-25", "json-schema-2020-12-preservation")]
"""What the later version tests, too."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "scenario" in metafunc.fixturenames:
        runs = [run for run in scenarios() if run[0] in VERSIONS and not run[1].startswith("auth/")]
        kept = [run for run in runs if run not in REPEATED]
        metafunc.parametrize("scenario", sampled(runs, *kept), ids="-".join)


def test_a_bus_does_what_the_scenario_asks_of_a_client(scenario: tuple[str, str], tmp_path: Path) -> None:
    verdict = judged(*scenario, tmp_path)
    assert not verdict.objections, "\n".join([*verdict.objections, verdict.said])
    assert verdict.passed, f"nothing was checked: {verdict.said}"
    assert verdict.exit_code == 0, verdict.said  # the client failed, or did not end


def test_a_client_that_does_nothing_passes_nothing(tmp_path: Path) -> None:
    assert judged("2025-11-25", "initialize", tmp_path, "true").passed == []
