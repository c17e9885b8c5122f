"""The records of a program that installed OpenTelemetry, in a form that tests can compare."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind


@dataclass
class Collected:
    """The spans and metrics so far; `provider` makes spans of the program itself."""

    provider: TracerProvider = field(default_factory=TracerProvider)
    exporter: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    reader: InMemoryMetricReader = field(default_factory=InMemoryMetricReader)

    def __post_init__(self) -> None:
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("program")

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self.exporter.get_finished_spans()

    def of(self, name: str, kind: SpanKind = SpanKind.CLIENT) -> list[ReadableSpan]:
        """The spans of that name."""
        return [span for span in self.spans if span.name == name and span.kind is kind]

    def one(self, name: str, kind: SpanKind = SpanKind.CLIENT) -> ReadableSpan:
        """The only span of that name."""
        (span,) = self.of(name, kind)
        return span

    def parent(self, span: ReadableSpan) -> ReadableSpan | None:
        """The span above, if it was recorded."""
        above = span.parent
        found = [other for other in self.spans if above and id_of(other) == above.span_id]
        return found[0] if found else None

    def points(self, metric: str) -> list[Any]:
        """The data points of a metric."""
        data = self.reader.get_metrics_data()
        return [
            point
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for found in scope.metrics
            if found.name == metric
            for point in found.data.data_points
        ]


def trace_of(span: ReadableSpan) -> int:
    """The trace that a span is in."""
    assert span.context is not None
    return span.context.trace_id


def id_of(span: ReadableSpan) -> int:
    """The id of a span."""
    assert span.context is not None
    return span.context.span_id


def attributes(span: ReadableSpan, *left_out: str) -> dict[str, Any]:
    """The attributes of a span, without some that differ each time."""
    return {key: value for key, value in (span.attributes or {}).items() if key not in left_out}


def events(span: ReadableSpan) -> list[tuple[str, Mapping[str, Any]]]:
    """The events of a span, in order."""
    return [(event.name, dict(event.attributes or {})) for event in span.events]


@contextmanager
def installed(monkeypatch: pytest.MonkeyPatch, *, metrics: bool = True) -> Generator[Collected]:
    """Providers for one test; OpenTelemetry's own functions install them once in a process, for good."""
    collected = Collected()
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", collected.provider)
    # The SDK of MCP has kept its tracer since it was imported.
    monkeypatch.setattr("mcp.shared._otel._tracer", collected.provider.get_tracer("mcp-python-sdk"))
    meters = MeterProvider([collected.reader])
    if metrics:
        monkeypatch.setattr("opentelemetry.metrics._internal._METER_PROVIDER", meters)
    try:
        yield collected
    finally:
        monkeypatch.undo()
        meters.shutdown()
        collected.provider.shutdown()
