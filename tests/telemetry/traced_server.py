"""The everyday server in a program that exports its spans.

Run it: `python traced_server.py URL_OF_RECEIVER [everyday's arguments]`.
"""

import sys
from pathlib import Path

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.servers.everyday import everyday, serve_http

if __name__ == "__main__":
    receiver, kind, *port_file = sys.argv[1:]
    provider = TracerProvider(resource=Resource.create({"service.name": "server"}))
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(receiver)))
    trace.set_tracer_provider(provider)
    if kind == "stdio":
        everyday().run("stdio")
    else:
        serve_http(everyday(), kind, port_file[0])
