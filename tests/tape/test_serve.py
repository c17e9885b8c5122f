"""`toolbus serve --replay`: a server that behaves as the recorded ones did, for clients of both eras."""

from pathlib import Path

import pytest

from tests.conformance.outcomes import Outcome, table
from tests.conformance.server_suite import LEGACY, MODERN, judged_server
from tests.conftest import sampled
from tests.gateway.serving import behind, gateway, written_config
from tests.interop.servers import require_installed

require_installed("conformance", "legacy")

BACKENDS = ("modern-stdio", "legacy-stdio")
NO_TIME = {"server-sse-polling"}
"""The suite reconnects in the middle of a call, and a replayed call takes no time."""


def objected(outcomes: dict[str, Outcome]) -> dict[str, set[str]]:
    """The checks that did not succeed, by scenario."""
    return {name: set(outcome.objected) for name, outcome in outcomes.items() if not outcome.passed}


@pytest.mark.parametrize("back", sampled(BACKENDS, *BACKENDS))
def test_a_replay_passes_every_conformance_scenario_that_the_recorded_server_passed(
    back: str, tmp_path: Path
) -> None:
    tape = tmp_path / "tape.jsonl"
    with behind(back, tmp_path) as server:
        config = written_config(tmp_path, {"everything": server})
        with gateway(config, "--record", str(tape)) as url:
            recorded = {front: judged_server(url, front, tmp_path / front) for front in (MODERN, LEGACY)}
    with gateway(config, "--replay", str(tape)) as url:
        for front in (MODERN, LEGACY):
            replayed = judged_server(url, front, tmp_path / f"again-{front}")
            before, now = objected(recorded[front]), objected(replayed)
            assert {k: now[k] for k in now.keys() - NO_TIME} == before, table(replayed)
            assert len(replayed) == len(recorded[front])
