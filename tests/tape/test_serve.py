"""`toolbus serve --replay`: a server that behaves as the recorded ones did, for clients of both eras."""

from pathlib import Path

import mcp_types as types
import pytest
from mcp import Client

from tests import warm
from tests.conformance.outcomes import Outcome, table
from tests.conformance.server_suite import LEGACY, MODERN, judged_server
from tests.conftest import sampled
from tests.gateway.serving import behind, gateway, written_config
from tests.interop.servers import require_installed
from tests.tape.scenes import DATE

pytestmark = pytest.mark.anyio
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


class SdkCalls:
    """Calls of the SDK's client, and what it heard meanwhile."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    async def elicit(self, context: object, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.heard.append(("asked", params.message))
        return types.ElicitResult(
            action="accept", content={"date": DATE} if "come" in params.message else None
        )

    async def report(self, progress: float, total: float | None, message: str | None) -> None:
        self.heard.append((progress, total, message))

    async def made(self, url: str, mode: str) -> list[object]:
        """The results, without what only one era has."""
        results: list[object] = []
        async with Client(url, mode=mode, elicitation_callback=self.elicit, cache=None) as client:
            results.append(sorted(tool.name for tool in (await client.list_tools()).tools))
            for name, arguments in CALLS.items():
                made = await client.call_tool(name, arguments, progress_callback=self.report)
                results.append([block.model_dump(exclude={"meta"}) for block in made.content])
            read = await client.read_resource("blob://big")
            results.append([one.model_dump(exclude={"meta"}) for one in read.contents])
            prompt = await client.get_prompt("review", {"language": "go"})
            results.append([one.model_dump() for one in prompt.messages])
        return [*results, *self.heard]


CALLS = {"tell": {"text": "hello"}, "book": {"guest": "Ann"}, "pay": {}, "dig": {"depth": 1}}


@pytest.mark.parametrize("back", ["modern", "legacy"])
async def test_clients_of_both_eras_get_the_same_from_a_tape_of_either_era(back: str, tmp_path: Path) -> None:
    script = str(Path(__file__).parents[1] / "servers" / "asking.py")
    server = {"command": warm.python(), "args": [script, "stdio"], "era": back}
    config, tape = written_config(tmp_path, {"asking": server}), tmp_path / "tape.jsonl"
    with gateway(config, "--record", str(tape)) as url:
        recorded = await SdkCalls().made(url, "auto")
    with gateway(config, "--replay", str(tape)) as url:
        for mode in ("legacy", "auto"):
            assert await SdkCalls().made(url, mode) == recorded
