"""The counters of the gateway, in the text format of Prometheus."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Protocol, get_args

from toolbus.core.values.records import ServerStatus, State
from toolbus.gateway.calls.queue import ServerCalls

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
METHODS = frozenset(
    {
        *("initialize", "server/discover", "ping", "logging/setLevel", "completion/complete"),
        *("tools/list", "tools/call", "prompts/list", "prompts/get"),
        *("resources/list", "resources/templates/list", "resources/read"),
        *("resources/subscribe", "resources/unsubscribe", "subscriptions/listen"),
        *("tasks/get", "tasks/update", "tasks/cancel", "tasks/result", "tasks/list"),
    }
)
"""The methods that are counted by their names; a client could make up any number of others."""
OTHER = "other"
_KINDS = {
    -32700: "parse_error",
    -32600: "invalid_request",
    -32601: "method_not_found",
    -32602: "invalid_params",
    -32603: "internal_error",
    -32002: "resource_not_found",
    -32020: "header_mismatch",
    -32029: "busy",
    -32021: "missing_capability",
    -32022: "unsupported_version",
    -32042: "url_elicitation_required",
    -32800: "cancelled",
}
GAUGES = {
    "requests_in_flight": "Requests that are being answered.",
    "sessions": "Sessions of legacy clients.",
    "connections": "Open HTTP connections of clients.",
    "second_links": "More connections to servers, for sessions that need their own.",
}
"""The gauges of the gateway, with their meanings."""
_STATES: tuple[State, ...] = get_args(State)


class CountedCalls(Protocol):
    """The calls that one quota has counted and refused."""

    calls: int
    refused: Counter[str]
    """By the limit that was used up."""


class Metrics:
    """Counters of one gateway. Requests are counted by method, and never by a client's own text."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.errors: Counter[tuple[str, str]] = Counter()
        self.refused: Counter[str] = Counter()
        self.in_flight = 0
        self._durations: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}

    def ended(self, method: str, seconds: float, error: str | None = None) -> None:
        """Count a request that was answered; `error` is the kind of its error."""
        if method not in METHODS:
            method = OTHER
        self.requests[method] += 1
        if error is not None:
            self.errors[method, error] += 1
        counts = self._durations.get(method)
        if counts is None:
            counts = self._durations[method] = [0] * (len(BUCKETS) + 1)
            self._seconds[method] = 0.0
        counts[bisect_left(BUCKETS, seconds)] += 1
        self._seconds[method] += seconds

    def text(
        self,
        servers: Mapping[str, ServerStatus],
        gauges: Mapping[str, int],
        calls: Iterable[tuple[str, ServerCalls]] = (),
        quotas: Mapping[str, CountedCalls] | None = None,
    ) -> str:
        """All series: with the states of the servers, gauges, the calls to each server, and quotas."""
        requests = (({"method": method}, count) for method, count in sorted(self.requests.items()))
        errors = (({"method": method, "kind": kind}, n) for (method, kind), n in sorted(self.errors.items()))
        refused = (({"kind": kind}, n) for kind, n in sorted(self.refused.items()))
        lines = [
            *_series("requests_total", "counter", "Answered requests.", requests),
            *_series("errors_total", "counter", "Requests answered with an error.", errors),
            *self._histogram(),
            *_series("refused_total", "counter", "Refused HTTP requests and connections.", refused),
        ]
        for name, value in {"requests_in_flight": self.in_flight, **gauges}.items():
            lines.extend(_series(name, "gauge", GAUGES[name], (({}, value),)))
        lines.extend(_server_lines(servers))
        lines.extend(_call_lines([(alias, made) for alias, made in calls if alias in servers]))
        if quotas:
            lines.extend(_quota_lines(quotas))
        return "\n".join(lines) + "\n"

    def _histogram(self) -> Iterator[str]:
        name = "toolbus_gateway_request_duration_seconds"
        yield f"# HELP {name} Time to answer a request."
        yield f"# TYPE {name} histogram"
        for method, counts in sorted(self._durations.items()):
            total = 0
            for bound, count in zip((*BUCKETS, "+Inf"), counts, strict=True):
                total += count
                yield f"{name}_bucket{_labels({'method': method, 'le': str(bound)})} {total}"
            yield f"{name}_sum{_labels({'method': method})} {self._seconds[method]:.6f}"
            yield f"{name}_count{_labels({'method': method})} {total}"


def error_kind(code: int) -> str:
    """The label for errors with this JSON-RPC code."""
    return _KINDS.get(code, OTHER)


def _server_lines(servers: Mapping[str, ServerStatus]) -> Iterator[str]:
    states = (
        ({"server": alias, "state": state}, int(status.state == state))
        for alias, status in servers.items()
        for state in _STATES
    )
    yield from _series(
        "server_state", "gauge", "1 for the current state of a server, 0 for the others.", states
    )
    for name, kind, meaning, value in _OF_SERVER:
        values = (({"server": alias}, value(status)) for alias, status in servers.items())
        yield from _series(name, kind, meaning, values)


def _call_lines(calls: Sequence[tuple[str, ServerCalls]]) -> Iterator[str]:
    for name, kind, meaning, value in _OF_CALLS:
        yield from _series(name, kind, meaning, (({"server": alias}, value(made)) for alias, made in calls))
    refused = (
        ({"server": alias, "reason": why}, count)
        for alias, made in calls
        for why, count in sorted(made.refused.items())
    )
    yield from _series(
        "calls_refused_total", "counter", "Calls refused because the gateway was busy.", refused
    )


def _quota_lines(quotas: Mapping[str, CountedCalls]) -> Iterator[str]:
    made = (({"quota": label}, one.calls) for label, one in quotas.items())
    yield from _series("quota_calls_total", "counter", "Calls counted by a quota.", made)
    refused = (
        ({"quota": label, "limit": limit}, count)
        for label, one in quotas.items()
        for limit, count in sorted(one.refused.items())
    )
    yield from _series("quota_refused_total", "counter", "Calls refused by a quota.", refused)


_OF_SERVER: Sequence[tuple[str, str, str, Callable[[ServerStatus], float]]] = (
    ("server_restarts_total", "counter", "Reconnections of a server.", attrgetter("restarts")),
    ("server_tools", "gauge", "Tools of a server in the catalog.", attrgetter("tools")),
)
_OF_CALLS: Sequence[tuple[str, str, str, Callable[[ServerCalls], float]]] = (
    ("calls_running", "gauge", "Calls in progress.", attrgetter("running")),
    ("calls_waiting", "gauge", "Queued calls.", attrgetter("waiting")),
    ("calls_queued_total", "counter", "Calls that were queued.", attrgetter("queued")),
    (
        "calls_queued_seconds_total",
        "counter",
        "Total time that calls were queued.",
        lambda made: round(made.seconds, 6),
    ),
)


def _series(
    name: str, kind: str, meaning: str, values: Iterable[tuple[Mapping[str, str], float]]
) -> Iterator[str]:
    name = f"toolbus_gateway_{name}"
    yield f"# HELP {name} {meaning}"
    yield f"# TYPE {name} {kind}"
    for labels, value in values:
        yield f"{name}{_labels(labels)} {value}"


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def merged(pages: Mapping[int, str], count: int) -> str:
    """One page from the pages of the workers; `worker_up` shows which of `count` workers are missing."""
    meanings: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for number, page in sorted(pages.items()):
        name = ""
        for line in page.splitlines():
            if line.startswith("# "):
                _, kind, name, _ = line.split(" ", 3)
                if kind == "HELP":
                    samples.setdefault(name, [])
                    meanings[name] = []
                meanings[name].append(line)
            else:
                samples[name].append(_labelled(line, number))
    lines = [line for name, found in samples.items() for line in (*meanings[name], *found)]
    is_up = (({"worker": str(number)}, int(number in pages)) for number in range(count))
    lines += _series("worker_up", "gauge", "1 for a worker that responded.", is_up)
    return "\n".join(lines) + "\n"


def _labelled(sample: str, number: int) -> str:
    labelled, _, value = sample.rpartition(" ")
    name, brace, rest = labelled.partition("{")
    more = f",{rest}" if brace else "}"
    return f'{name}{{worker="{number}"{more} {value}'
