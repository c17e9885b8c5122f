"""The MCP conformance suite through the gateway, with both eras in front and behind."""

from pathlib import Path

import pytest

from tests.conformance.outcomes import Outcome, table
from tests.conformance.server_suite import LEGACY, MODERN, judged_server
from tests.conformance.suite import EXTENSION
from tests.conftest import sampled
from tests.gateway.serving import behind, gateway, sdk_everything, web_everything, written_config
from tests.interop.servers import require_installed

require_installed("conformance", "legacy", "everything-server")

BACKENDS = (
    "modern-http",
    "modern-stdio",
    "legacy-http",
    "legacy-stdio",
    "sdk1-stdio",
    "both-http",
    "both-stdio",
)
CELLS = [(front, back) for front in (MODERN, LEGACY) for back in BACKENDS]
# One era in front and the other behind, and a server that speaks both.
KEPT = ((MODERN, "sdk1-stdio"), (LEGACY, "modern-http"), (LEGACY, "both-http"), (LEGACY, "both-stdio"))

NO_KEYS = "a legacy server's request has no key, so the key is the gateway's, not the one of the scenario"
NOT_ASKED = "it answers what was not asked yet; a legacy server asks in the middle of a call"
ONE_BY_ONE = "a legacy server's requests come one by one, and the gateway cannot know that more will follow"
NO_ERROR = "the legacy era has no error for a missing capability, and the server's own is passed on"
SKIPPED = "the suite skips it: its check for the notifications is not written yet"

# Scenario, check, reason: what a client of the modern era cannot have from a legacy server.
WITH_LEGACY_BEHIND: dict[str, dict[str, str]] = {
    "input-required-result-basic-elicitation": {"sep-2322-elicitation-incomplete": NO_KEYS},
    "input-required-result-multiple-input-requests": {"sep-2322-multiple-inputs-incomplete": ONE_BY_ONE},
    "input-required-result-ignore-extra-params": {"sep-2322-ignore-unexpected-params": NOT_ASKED},
    "server-stateless": {
        "sep-2575-server-rejects-undeclared-capability": NO_ERROR,
        "sep-2575-missing-capability-http-400": NO_ERROR,
    },
}
TASKS: dict[str, dict[str, str]] = {
    "tasks-status-notifications": {"tasks-status-notifications": SKIPPED},
}


def excused(front: str, back: str) -> dict[str, dict[str, str]]:
    """The failures allowed in a cell, with the reasons."""
    is_modern_behind = back.startswith(("modern", "both"))
    return {} if front == LEGACY or is_modern_behind else WITH_LEGACY_BEHIND


def objected(outcomes: dict[str, Outcome]) -> dict[str, set[str]]:
    """The checks that did not succeed, by scenario."""
    return {name: set(outcome.objected) for name, outcome in outcomes.items() if not outcome.passed}


def checks(reasons: dict[str, dict[str, str]]) -> dict[str, set[str]]:
    return {name: set(by_check) for name, by_check in reasons.items()}


@pytest.mark.full  # what is behind the gateway in the tests that follow
@pytest.mark.parametrize(("version", "count"), [(MODERN, 40), (LEGACY, 33)])
def test_the_server_itself_passes_every_scenario(version: str, count: int, tmp_path: Path) -> None:
    with web_everything(tmp_path) as url:
        outcomes = judged_server(url, version, tmp_path)
    assert objected(outcomes) == {}, table(outcomes)
    assert len(outcomes) == count


@pytest.mark.parametrize("cell", sampled(CELLS, *KEPT), ids="-".join)
def test_the_gateway_passes_every_scenario_that_the_server_behind_it_can_serve(
    cell: tuple[str, str], tmp_path: Path
) -> None:
    front, back = cell
    with behind(back, tmp_path) as server, gateway(written_config(tmp_path, {"everything": server})) as url:
        outcomes = judged_server(url, front, tmp_path)
    assert objected(outcomes) == checks(excused(front, back)), table(outcomes)
    assert len(outcomes) == (40 if front == MODERN else 33)


@pytest.mark.parametrize("through", sampled(["nothing", "gateway"], "gateway"))
@pytest.mark.parametrize(("version", "count"), [(MODERN, 40), (LEGACY, 33)])
def test_the_everything_server_of_the_sdk_passes_every_scenario_directly_and_through_the_gateway(
    version: str, count: int, through: str, tmp_path: Path
) -> None:
    with sdk_everything(tmp_path) as url:
        if through == "nothing":
            outcomes = judged_server(url, version, tmp_path)
        else:
            with gateway(written_config(tmp_path, {"everything": {"url": url}})) as front:
                outcomes = judged_server(front, version, tmp_path)
    assert objected(outcomes) == {}, table(outcomes)
    assert len(outcomes) == count


@pytest.mark.parametrize("through", sampled(["nothing", "gateway"], "gateway"))
def test_tasks_pass_every_scenario_that_the_suite_has_written(through: str, tmp_path: Path) -> None:
    with web_everything(tmp_path, "tasks_server.py") as url:
        if through == "nothing":
            outcomes = judged_server(url, EXTENSION, tmp_path)
        else:
            with gateway(written_config(tmp_path, {"tasks": {"url": url}})) as front:
                outcomes = judged_server(front, EXTENSION, tmp_path)
    assert objected(outcomes) == checks(TASKS), table(outcomes)
    assert len(outcomes) == 10
