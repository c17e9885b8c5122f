"""Print the span of a call: `pip install opentelemetry-sdk`, then `python call_trace.py`."""

import asyncio
import sys

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from toolbus import Toolbus


def shown(span: ReadableSpan) -> str:
    if not span.name.startswith("tools/call"):
        return ""
    attributes = "".join(f"  {key}: {value}\n" for key, value in (span.attributes or {}).items())
    return f"{span.kind.name} {span.name}\n{attributes}"


async def main() -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(formatter=shown)))
    trace.set_tracer_provider(provider)
    async with Toolbus({"servers": {"notes": {"command": sys.executable, "args": ["notes.py"]}}}) as bus:
        await bus.call("notes_add", {"text": "tea"})


if __name__ == "__main__":
    asyncio.run(main())
