"""The MCP conformance suite with a bus that signs in: every scenario about OAuth, in all versions."""

from pathlib import Path

import pytest

from tests.conformance.suite import judged, scenarios
from tests.conftest import sampled
from tests.interop.servers import require_installed

require_installed("conformance")

RUNS = [(version, name) for version, name in scenarios() if name.startswith("auth/")]
REFUSED = {
    "auth/resource-mismatch": "resource",
    "auth/metadata-issuer-mismatch": "issuer",
    "auth/iss-supported-missing": "iss",
    "auth/iss-wrong-issuer": "iss",
    "auth/iss-unexpected": "iss",
    "auth/iss-normalized": "iss",
    "auth/scope-retry-limit": "scope",
}
"""Where signing in must fail, and a word of the reason."""
OLD, NEW = "2025-11-25", "2026-07-28"
SOME = [
    ("2025-03-26", "auth/2025-03-26-oauth-metadata-backcompat"),
    (OLD, "auth/metadata-var3"),
    (OLD, "auth/pre-registration"),
    (OLD, "auth/scope-step-up"),
    (OLD, "auth/token-endpoint-auth-basic"),
    (OLD, "auth/token-endpoint-auth-post"),
    (NEW, "auth/metadata-default"),
    (NEW, "auth/basic-cimd"),
    (NEW, "auth/scope-from-www-authenticate"),
    (NEW, "auth/token-endpoint-auth-none"),
    (NEW, "auth/offline-access-scope"),
    (NEW, "auth/authorization-server-migration"),
    (NEW, "auth/iss-supported"),
    *((NEW, scenario) for scenario in REFUSED),
    ("extension", "auth/client-credentials-jwt"),
    ("extension", "auth/wif-jwt-bearer"),
    ("extension", "auth/dpop-nonce"),
    ("extension", "auth/enterprise-managed-authorization"),
]
"""Of each kind one: discovery, registration, scopes, tokens, extensions; and all that must fail."""


def test_every_run_is_among_them() -> None:
    versions = [version for version, _ in RUNS]
    assert {version: versions.count(version) for version in versions} == {
        "2025-03-26": 2,
        "2025-11-25": 14,
        "2026-07-28": 25,
        "extension": 6,
    }


@pytest.mark.parametrize("run", sampled(RUNS, *SOME), ids="-".join)
def test_a_bus_signs_in_as_the_scenario_asks(run: tuple[str, str], tmp_path: Path) -> None:
    version, scenario = run
    verdict = judged(version, scenario, tmp_path)
    assert not verdict.objections, "\n".join([*verdict.objections, verdict.said])
    assert verdict.passed, f"nothing was checked: {verdict.said}"
    assert verdict.exit_code == 0, verdict.said  # the client failed, or did not end
    reason = REFUSED.get(scenario)
    assert ("Client exited with code 1" in verdict.said) == (reason is not None), verdict.said
    assert reason is None or reason in verdict.said
