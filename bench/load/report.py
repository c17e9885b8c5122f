"""The report of the load as text."""

import os
import platform
from collections.abc import Iterable, Iterator
from datetime import date
from importlib.metadata import version

from bench.load.scenarios import CLIENTS, Row

_HEADS = {
    "processes": "processes and clients: a stdio server for each process, 50 users",
    "servers": f"servers: HTTP links of one process, {CLIENTS} clients call them in turn",
    "tools": f"tools of one HTTP server, one process, {CLIENTS} clients",
    "users": f"users with a key and a view of their own, one process, {CLIENTS} clients",
    "greedy": "one user beside another with many clients, default limits, one process",
}
_COLUMNS = f"{'calls/s':>9}{'p50 ms':>9}{'p99 ms':>9}{'CPU us':>9}{'MiB':>8}{'start s':>9}"
NOTES = """\
Clients call as fast as they get answers, each on a connection of its own. CPU us: CPU time of the gateway's
processes for each call, refused ones included; not that of clients and servers. MiB: their memory, what they
share counted once. start s: until the gateway was ready."""


def lines(rows: Iterable[Row]) -> Iterator[str]:
    """The table, a line at a time."""
    group = ""
    for row in rows:
        if row.group != group:
            group = row.group
            yield _HEADS[group]
            yield f"{_label_head(group):<28}{_COLUMNS}"
        yield line(row)
    yield NOTES


def line(row: Row) -> str:
    """One row."""
    figure = row.figure
    label = {
        "processes": f"{row.size:>4}{row.clients:>9,}",
        "greedy": f"{row.note:<28}",
    }.get(row.group, f"{row.size:>6,}")
    is_shared = row.group == "greedy"  # the CPU time is that of both users
    cpu = f"{'':>9}" if is_shared else f"{figure.cpu:>9.0f}"
    start = f"{'':>9}" if is_shared else f"{row.start:>9.1f}"
    refused = f"  {figure.refused:,} refused" if figure.refused else ""
    shown = (
        f"{label:<28}{figure.per_second:>9,.0f}{figure.p50:>9.2f}{figure.p99:>9.2f}{cpu}"
        f"{figure.memory:>8.0f}{start}{refused}"
    )
    return shown.rstrip()


def _label_head(group: str) -> str:
    return {"processes": f"{'proc':>4}{'clients':>9}", "greedy": ""}.get(group, f"{group:>6}")


def caption() -> str:
    """The date, the versions and the load of a run."""
    shown = f"Python {platform.python_version()}, toolbus {version('toolbus')}, mcp {version('mcp')}"
    beside = f"load average before it {os.getloadavg()[0]:.1f}"
    return f"{date.today().isoformat()}, {os.cpu_count()} cores, {beside}: {shown}"
