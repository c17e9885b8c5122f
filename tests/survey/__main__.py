"""Start published servers, and compare toolbus's listings with the listings of the SDK's own client.

    make survey                              every server of servers.json, two at a time
    make survey ARGS="git time"              those whose names contain one of the words
    make survey ARGS=--json                  the table as JSON
    make survey ARGS=--together              all on one bus, with the CPU time that toolbus needs

Servers are only listed, never called. Each has an empty home, and none of our credentials. Fails if the SDK's
client is better with any of them.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from tests.survey.compare import LIST, Listed, Published, Row, compared, install, published, together


def _shown(listed: Listed) -> str:
    return "-" if listed.tools is None else f"{listed.tools} in {listed.seconds:.1f} s"


def _print_row(row: Row) -> None:
    print(f"{row.server:45} {_shown(row.sdk):>16} {_shown(row.toolbus):>16}  {row.verdict}", flush=True)
    if row.toolbus.tools is None:
        print(f"    {row.toolbus.problem}", flush=True)


async def survey(servers: Sequence[Published], jobs: int, as_json: bool) -> int:
    """Compare, and print the table; 1 if the SDK's client is better with any server."""
    free = asyncio.Semaphore(jobs)

    async def one(server: Published) -> Row:
        async with free:
            row = await compared(server)
        if not as_json:
            _print_row(row)
        return row

    if not as_json:
        print(f"{'server':45} {'SDK client':>16} {'toolbus':>16}  verdict", flush=True)
    rows = await asyncio.gather(*map(one, servers))
    worse = [row.server for row in rows if row.is_worse]
    if as_json:
        print(json.dumps({"servers": [row.json() for row in rows], "worse": worse}, indent=2))
    else:
        connected = [sum(listed.tools is not None for listed in pair) for pair in _columns(rows)]
        print(f"\n{len(rows)} servers: the SDK connects to {connected[0]}, toolbus to {connected[1]}")
        print(f"the SDK is better with {', '.join(worse)}" if worse else "the SDK is better with none")
    return 1 if worse else 0


def _columns(rows: Sequence[Row]) -> tuple[list[Listed], list[Listed]]:
    return [row.sdk for row in rows], [row.toolbus for row in rows]


async def survey_together(servers: Sequence[Published], as_json: bool) -> int:
    """Start all on one bus, and print what that took; 1 if one of them does not connect."""
    for server in servers:
        await install(server)
    found = await together(servers)
    if as_json:
        print(json.dumps(asdict(found), indent=2))
    else:
        ready = sum(count is not None for count in found.tools.values())
        print(f"{ready} of {len(servers)} servers ready in {found.seconds:.1f} s")
        print(f"CPU time of toolbus: {found.own_cpu:.2f} s, of its guard: {found.helpers_cpu:.2f} s")
        print(*(f"{name}: {problem}" for name, problem in found.problems.items()), sep="\n")
    return 1 if found.problems else 0


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="make survey", description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of the names of servers; by default all servers")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--together", action="store_true", help="start all servers on one bus")
    parser.add_argument("--jobs", type=int, default=2, help="how many servers to compare at a time")
    given = parser.parse_args()
    known = published(LIST.read_text())
    chosen = [one for one in known if not given.names or any(name in one.name for name in given.names)]
    if not chosen:
        parser.error(f"no server is named {' or '.join(given.names)}; see {LIST.name}")
    if given.together:
        return asyncio.run(survey_together(chosen, given.json))
    return asyncio.run(survey(chosen, given.jobs, given.json))


if __name__ == "__main__":
    sys.exit(main())
