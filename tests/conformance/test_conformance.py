"""The MCP conformance suite with a bus as the client: every scenario, in all versions of the protocol."""

from pathlib import Path

import pytest

from tests.conformance.client_suite import CLIENT, THROUGH_GATEWAY, judged_client
from tests.conformance.outcomes import table
from tests.conformance.suite import EXTENSION
from tests.interop.servers import require_installed

require_installed("conformance")

REFUSED = {
    "auth/resource-mismatch": "resource",
    "auth/metadata-issuer-mismatch": "issuer",
    "auth/iss-supported-missing": "iss",
    "auth/iss-wrong-issuer": "iss",
    "auth/iss-unexpected": "iss",
    "auth/iss-normalized": "iss",
    "auth/scope-retry-limit": "",
    "sep-2640-client-verify-digest": "does not match its digest",
    "sep-2640-client-verify-size": "bytes, but its entry lists",
    "sep-2640-client-verify-frontmatter": "frontmatter.description differs from its entry",
}
"""Scenarios where signing in, or loading a skill, must fail, with a word of a constant reason."""


OLDEST = pytest.param("2025-03-26", 2, marks=pytest.mark.full)


COUNTS = [OLDEST, ("2025-11-25", 19), ("2026-07-28", 33), (EXTENSION, 10)]
CLIENTS = [CLIENT, pytest.param(THROUGH_GATEWAY, marks=pytest.mark.full)]


@pytest.mark.parametrize("client", CLIENTS, ids=["bus", "bus-gateway"])
@pytest.mark.parametrize(("version", "count"), COUNTS)
def test_a_bus_does_what_every_scenario_asks_of_a_client(
    version: str, count: int, client: Path, tmp_path: Path
) -> None:
    outcomes = judged_client(version, tmp_path, client=client)
    assert all(outcome.passed for outcome in outcomes.values()), table(outcomes)
    assert len(outcomes) == count
    for scenario, outcome in outcomes.items():
        reason = REFUSED.get(scenario)
        ended = f"exit code: {0 if reason is None else 1}\n"
        assert outcome.said.endswith(ended), f"{scenario}: {outcome.said}"  # it failed, or did not end
        assert reason is None or reason in outcome.said, f"{scenario}: {outcome.said}"


def test_a_client_that_does_nothing_passes_nothing(tmp_path: Path) -> None:
    outcomes = judged_client("2025-11-25", tmp_path, "true")
    assert outcomes["initialize"].counts.get("SUCCESS", 0) == 0
