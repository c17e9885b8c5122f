"""The benchmarks that can be measured here, with their tasks."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from bench.proof import agentdojo, bfcl
from bench.proof.install import NotInstalled, installed, packages
from bench.proof.servers import Benchmark
from bench.proof.traces import checked

QUICK = 25
"""Of how many tasks a quick run takes one."""
ENVIRONMENT = {"TZ": "UTC", "PYTHONHASHSEED": "0"}
"""Of the backends: some results depend on both."""


def opened_bfcl() -> Benchmark:
    """BFCL v4 multi-turn."""
    python = installed("bfcl")
    benchmark = Benchmark(
        name="BFCL v4 multi-turn",
        side=bfcl.SIDE,
        python=python,
        servers=bfcl.SERVERS,
        tasks=bfcl.tasks(packages("bfcl") / "bfcl_eval" / "data"),
        environment=ENVIRONMENT,
    )
    return replace(benchmark, tasks=checked(benchmark.tasks, benchmark.definitions()))


def opened_agentdojo() -> Benchmark:
    """AgentDojo v1, its user tasks and its injections."""
    python = installed("agentdojo")
    benchmark = Benchmark(
        name="AgentDojo v1",
        side=agentdojo.SIDE,
        python=python,
        servers=agentdojo.SUITES,
        tasks=(),
        environment=ENVIRONMENT,
    )
    tasks = agentdojo.tasks(benchmark.written())
    return replace(benchmark, tasks=checked(tasks, benchmark.definitions()))


def opened_tau2() -> Benchmark:
    """tau2-bench, which is only listed."""
    raise NotInstalled("it is in no package index, and a side for its backends is not written yet")


BENCHMARKS: Mapping[str, Callable[[], Benchmark]] = {"bfcl": opened_bfcl, "tau2-bench": opened_tau2}
"""Those whose calls are made on every path; each raises `NotInstalled` if it cannot be installed."""
