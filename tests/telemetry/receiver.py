"""An OTLP receiver over HTTP: the spans of all processes that export to it, as they were on the wire."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Thread
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.patience import PATIENCE


@dataclass
class Received:
    """One span, and the service that made it."""

    service: str
    span: Span

    @property
    def kind(self) -> str:
        return Span.SpanKind.Name(self.span.kind).removeprefix("SPAN_KIND_")

    @property
    def attributes(self) -> dict[str, Any]:
        return {
            pair.key: getattr(pair.value, str(pair.value.WhichOneof("value")))
            for pair in self.span.attributes
        }


@dataclass
class Receiver:
    """Everything received so far."""

    url: str
    spans: list[Received] = field(default_factory=list[Received])
    changed: Condition = field(default_factory=Condition)

    def add(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        with self.changed:
            for resource in request.resource_spans:
                named = {pair.key: pair.value.string_value for pair in resource.resource.attributes}
                for scope in resource.scope_spans:
                    self.spans += [Received(named.get("service.name", ""), span) for span in scope.spans]
            self.changed.notify_all()

    def of(self, name: str, count: int) -> list[Received]:
        """The spans of that name, once there are so many."""
        with self.changed:
            arrived = self.changed.wait_for(lambda: len(self._named(name)) >= count, PATIENCE)
            assert arrived, f"{len(self._named(name))} of {count} spans {name!r}"
            return self._named(name)

    def _named(self, name: str) -> list[Received]:
        return [received for received in self.spans if received.span.name == name]


@contextmanager
def receiving() -> Generator[Receiver]:
    """A receiver on a free port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            receiver.add(self.rfile.read(int(self.headers["content-length"])))
            body = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver = Receiver(f"http://127.0.0.1:{server.server_port}/v1/traces")
    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
