"""Rolling deploys: workers are replaced one by one while runs are started and are in the middle."""

import asyncio
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from tests.durable.crash.fleet import Client, Fleet, Member, opened_fleet
from tests.durable.crash.plans import PLANS
from tests.durable.crash.report import Judge, Report


@dataclass(frozen=True, kw_only=True)
class Deploy:
    """The way versions are rolled out."""

    name: str
    kill: bool = False
    """Old workers are killed; otherwise they are asked to end."""
    pin: bool = False
    """Runs are pinned to the version that started them."""
    workers: int = 3
    versions: tuple[str, ...] = tuple(PLANS)
    beside: float = 1.5
    """Seconds that an old worker and its successor live beside each other."""
    beat: float = 0.5
    within: float = 90
    """The most that runs may take after the last deploy."""


async def deploy(store: str, folder: Path, how: Deploy) -> Report:
    """Roll out all versions, one after another."""
    began, report = time.monotonic(), Report(scenario=how.name)
    async with opened_fleet(store, folder, pin=how.pin, beat=how.beat, missed=6) as fleet:
        client = Client(fleet)
        # The first of them also starts runs by itself.
        starting = (fleet.start(how.versions[0], starts_runs=at == 0) for at in range(how.workers))
        members = await asyncio.gather(*starting)
        async with client.starting():
            await asyncio.sleep(2 * how.beside)
            for version in how.versions[1:]:
                for at, old in enumerate(members):
                    members[at] = await _replaced(fleet, old, version, how)
            await asyncio.sleep(2 * how.beside)
        await fleet.start(how.versions[-1])
        members[0].send(signal.SIGTERM)  # it starts no more runs
        await members[0].gone(60)
        if how.pin:
            await _continue_pinned(fleet, client, report, how)
        infos = await client.ended_runs(how.within)
    judge = Judge(fleet, report, infos)
    judge.judge()
    if how.pin:
        _check_pins(judge, report)
    if report.unknown and not how.kill and not judge.is_slow:
        report.faults.append(f"{report.unknown} outcomes were unknown, although workers were asked to end")
    report.seconds = time.monotonic() - began
    return report


async def _replaced(fleet: Fleet, old: Member, version: str, how: Deploy) -> Member:
    new = await fleet.start(version, starts_runs=old.starts_runs)
    await asyncio.sleep(how.beside)
    old.send(signal.SIGKILL if how.kill else signal.SIGTERM)
    assert await old.gone(60) is not None, f"{old.log.name} does not end"
    return new


async def _continue_pinned(fleet: Fleet, client: Client, report: Report, how: Deploy) -> None:
    """Runs of versions that have no worker any more wait for one."""
    await asyncio.sleep(2 * how.beside)
    waiting = [one for one in await client.all_runs() if one.is_open]
    for version in how.versions[:-1]:
        await fleet.start(version)
    report.facts["waited for a worker of their version:"] = str(len(waiting))


def _check_pins(judge: Judge, report: Report) -> None:
    wrong = {
        (line.run, line.more[1])
        for line in judge.lines
        if line.what == "model" and not line.run.startswith(f"{line.more[1]}-")
    }
    report.faults += [f"{run} was executed by {version}" for run, version in sorted(wrong)]
