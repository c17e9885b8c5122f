"""The reference of errors, events and metrics, from the classes and instruments themselves."""

import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider

import toolbus.errors
from tests.inside.gateway import GAUGES, Metrics, ServerCalls
from tests.inside.telemetry import Providers
from tests.reference.markup import anchor, page, table
from tests.reference.python import described, documented, names_of
from toolbus.records import ServerStatus

ERRORS = """\
Every exception of toolbus, from `toolbus.errors`. [Errors](../errors.md) explains the kinds of failure, the
phases of a connection, and warnings.

An error's message is one line, and usually ends with the next step. Every error has these attributes:

- `sent` is false if nothing was sent to a server. It is true if something was sent, or may have been.
- `public` is the message for people who may not see the output of your servers, such as the clients of a
  gateway.
"""
EVENTS = """\
Every event of a bus, from `toolbus.events`. [The bus](../bus.md#events) shows how to receive them. Each
event has `at`, the time in seconds since 1970.
"""
METRICS = """\
## Prometheus

A gateway serves these at [`/metrics`](../gateway-operations.md#health-and-metrics), for admitted clients.
With several workers, each series also has the label `worker`.
"""
OPENTELEMETRY = """\
## OpenTelemetry

A program that installs an OpenTelemetry SDK gets [these](../telemetry.md#metrics) from the bus and from the
gateway.
"""


def errors(known: Mapping[str, str]) -> str:
    """The page of the errors: their tree, and a section for each."""
    return page(
        "Error reference", ERRORS, "\n".join(_tree(toolbus.ToolbusError)), *_sections("errors", known)
    )


def events(known: Mapping[str, str]) -> str:
    """The page of the events."""
    return page("Event reference", EVENTS, *_sections("events", known))


def _sections(module: str, known: Mapping[str, str]) -> Iterator[str]:
    for name in names_of(f"toolbus.{module}"):
        one = documented(f"toolbus.{module}", name)
        assert one is not None
        yield from described(one, name, "##", known)


def _tree(error: type[toolbus.ToolbusError], depth: int = 0) -> Iterator[str]:
    """A list of links, indented as the classes derive from each other."""
    first = inspect.cleandoc(error.__doc__ or "").partition("\n")[0]
    yield f"{'  ' * depth}- [`{error.__name__}`](#{anchor(error.__name__)}): {first[0].lower()}{first[1:]}"
    public = {getattr(toolbus.errors, name) for name in toolbus.errors.__all__}
    for below in sorted(error.__subclasses__(), key=lambda one: one.__name__):
        if below in public:
            yield from _tree(below, depth + 1)


def metrics() -> str:
    """The page of the metrics."""
    return page("Metrics reference", METRICS, _prometheus(), OPENTELEMETRY, _instruments())


def _prometheus() -> str:
    """The series of a gateway that has seen something of everything."""
    counted = Metrics()
    counted.ended("tools/call", 0.1, "busy")
    counted.refused["rate"] += 1
    calls = ServerCalls()
    calls.refused["full"] += 1
    quota: Any = type("Counted", (), {"calls": 1, "refused": {"per_day": 1}})
    gauges = {name: 0 for name in GAUGES if name != "requests_in_flight"}
    servers = {"notes": ServerStatus(state="ready")}
    text = counted.text(servers, gauges, [("notes", calls)], {"policy": quota})
    rows: list[tuple[str, str, str, str]] = []
    for name, meaning, kind in re.findall(r"# HELP (\S+) (.+)\n# TYPE \S+ (\w+)", text):
        labels = re.findall(rf"^{name}(?:_bucket)?{{(.+?)}}", text, re.MULTILINE)
        keys = re.findall(r"(\w+)=", labels[0]) if labels else []
        rows.append((f"`{name}`", kind, ", ".join(f"`{key}`" for key in keys), meaning))
    return table(("metric", "type", "labels", "meaning"), rows)


def _instruments() -> str:
    """The instruments that the SDK makes for us."""
    providers = Providers()
    vars(providers)["_meter"] = MeterProvider().get_meter("reference")
    made = [
        getattr(providers, name)
        for name, value in vars(Providers).items()
        if isinstance(value, cached_property) and name not in ("tracer", "_meter")
    ]
    rows = (
        (f"`{one.name}`", type(one).__name__.strip("_").lower(), one.unit, one.description) for one in made
    )
    return table(("metric", "type", "unit", "meaning"), rows)
