"""A gateway under load: `toolbus serve` with so many workers, servers and users, measured from outside."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.catalogs import TOOLBUS
from bench.processes import cpu_seconds, running

NO_LIMIT = 100_000
OPEN: dict[str, int] = dict.fromkeys(
    ("max_in_flight", "max_per_user", "max_per_server", "max_waiting"), NO_LIMIT
)
"""Limits that are never reached: no call waits for another one, so that only the work is measured."""
_KEYS = """
import json, sys
from toolbus.gateway.access.keys import file_keys
keys = file_keys(sys.argv[1])
names = [f"user{number}" for number in range(int(sys.argv[2]))]
print(json.dumps([keys.add(name, user=name if sys.argv[3] else "")[0] for name in names]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """A gateway that listens."""

    pid: int
    url: str
    keys: Sequence[str]
    """One for each user."""
    start_seconds: float
    """Until it was ready."""

    @property
    def pids(self) -> list[int]:
        """Its own processes: the workers and their parent, or the only one, without servers."""
        children = _children(self.pid)
        return [self.pid, *(one for one in children if _is_worker(one, self.pid))]

    @property
    def memory(self) -> int:
        """Bytes of these processes; what they share is counted once."""
        return sum(_proportional(pid) for pid in self.pids)

    @property
    def cpu(self) -> float:
        """Seconds of CPU time that they have taken."""
        return sum(map(cpu_seconds, self.pids))


@contextmanager
def gateway(
    servers: Mapping[str, Any],
    *,
    workers: int = 1,
    users: int = 1,
    own_users: bool = False,
    limits: Mapping[str, int] = OPEN,
) -> Generator[Gateway]:
    """A gateway in front of these servers, with a key for each user; `own_users` have logins of their own."""
    with TemporaryDirectory(prefix="bench-") as folder:
        config = Path(folder) / "toolbus.json"
        serve = {"auth": {"keys": True}, "workers": workers, **limits}
        config.write_text(json.dumps({"servers": servers, "serve": serve}))
        env = {**os.environ, "XDG_STATE_HOME": folder, "TOOLBUS_TRUST": "1"}
        words = [sys.executable, "-c", _KEYS, str(config), str(users), "1" if own_users else ""]
        made = subprocess.run(words, env=env, check=True, capture_output=True)
        began = time.perf_counter()
        command = [TOOLBUS, "serve", "--http", "127.0.0.1:0", "--config", str(config)]
        with running(command, env=env) as (pid, url):
            taken = time.perf_counter() - began
            yield Gateway(pid=pid, url=url, keys=json.loads(made.stdout), start_seconds=taken)


def _children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _is_worker(pid: int, parent: int) -> bool:
    """Whether it is a fork of its parent, and not a server."""
    own, its = (Path(f"/proc/{one}/cmdline").read_bytes() for one in (pid, parent))
    return own == its


def _proportional(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"no memory is known of process {pid}")
