"""Durable runs in traces: children of their caller in one process, links to it from another."""

import asyncio
import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.trace import SpanKind, format_span_id, format_trace_id

from tests.durable.stage import Ledger, ended, run_when, settings
from tests.durable.test_cli import Process
from tests.telemetry.collected import Collected, attributes, id_of, installed, trace_of
from toolbus.agent import Agent
from toolbus.agent.durable import Runs
from toolbus.testing import ScriptedModel, ToolCall

pytestmark = pytest.mark.anyio
RUN = "invoke_agent agent"
PROGRAM = """
import json
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from toolbus.agent import Agent
from toolbus.agent.durable import Durable
from toolbus.testing import ScriptedModel, ToolCall


class ToFile(SpanExporter):
    def export(self, spans):
        with open("spans.jsonl", "a") as file:
            for span in spans:
                file.write(span.to_json(indent=None) + "\\n")


provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(ToFile()))
trace.set_tracer_provider(provider)


def agent():
    model = ScriptedModel([ToolCall("ledger_write", {"line": "b"}), lambda results: results[-1]])
    servers = {"ledger": {"command": COMMAND, "args": ["ledger.py"]}}
    return Agent(model, mcp_servers=servers, durable=Durable(store="runs.db", beat=0.2, poll=0.05))
"""
SERVER = """
import sys
sys.path.insert(0, ROOT)
from tests.durable.stage import Ledger
Ledger().server().run()
"""


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collected]:
    with installed(monkeypatch) as collected:
        yield collected


async def test_a_run_in_the_process_of_its_caller_is_a_child_of_the_callers_span(
    collected: Collected, tmp_path: Path
) -> None:
    model = ScriptedModel([ToolCall("ledger_write", {"line": "a"}), "Done."])
    servers = {"ledger": {"server": Ledger().server()}}
    async with Agent(model, mcp_servers=servers, durable=settings(tmp_path)) as agent:
        for key in ("k", "l"):
            with collected.tracer.start_as_current_span(f"start {key}"):
                run = agent.start("Go.", key=key)
            assert await ended(run) == "Done."
        plain = agent.start("Go.")
        await ended(plain)
    runs = {attributes(span)["toolbus.run"]: span for span in collected.of(RUN, SpanKind.INTERNAL)}
    for key in ("k", "l"):
        assert collected.parent(runs[key]) is collected.one(f"start {key}", SpanKind.INTERNAL)
        assert runs[key].links == ()
    assert runs[plain.id].parent is None, "the spans of others are none of its business"
    called = collected.of("tools/call write")
    assert [collected.parent(span) for span in called] == [runs["k"], runs["l"], runs[plain.id]]
    assert attributes(runs["k"]) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "agent",
        "toolbus.run": "k",
    }


async def test_a_config_without_telemetry_makes_no_span(collected: Collected, tmp_path: Path) -> None:
    config = {"servers": {"ledger": {"server": Ledger().server()}}, "telemetry": False}
    model = ScriptedModel([ToolCall("ledger_write", {"line": "a"}), "Done."])
    async with Agent(model, mcp_servers=config, durable=settings(tmp_path)) as agent:
        with collected.tracer.start_as_current_span("start"):
            run = agent.start("Go.")
        assert await ended(run) == "Done."
    assert collected.of(RUN, SpanKind.INTERNAL) == collected.of("tools/call write") == []


async def test_a_later_execution_links_to_the_callers_span(collected: Collected, tmp_path: Path) -> None:
    ledger = Ledger()
    for turn in range(2):
        model = ScriptedModel([ToolCall("ledger_hold", {"line": "a"}), lambda results: results[-1]])
        servers = {"ledger": {"server": ledger.server()}}
        async with Agent(model, mcp_servers=servers, durable=settings(tmp_path, drain=0.1)) as agent:
            if turn == 0:
                with collected.tracer.start_as_current_span("start"):
                    agent.start("Go.", key="k")
                await ledger.reached.wait()
            else:
                assert (await ended(agent.join("k"))).startswith("MCP error: outcome unknown")
    caller = collected.one("start", SpanKind.INTERNAL)
    first, second = collected.of(RUN, SpanKind.INTERNAL)
    assert (collected.parent(first), first.links) == (caller, ())
    assert second.parent is None
    assert trace_of(second) != trace_of(caller)
    assert [link.context.span_id for link in second.links] == [id_of(caller)]
    assert not [span for span in (first, second) if "error.type" in attributes(span)]


async def test_a_run_in_another_process_links_to_the_callers_span(
    collected: Collected, tmp_path: Path
) -> None:
    (tmp_path / "traced.py").write_text(PROGRAM.replace("COMMAND", repr(sys.executable)))
    (tmp_path / "ledger.py").write_text(SERVER.replace("ROOT", repr(str(Path(__file__).parents[2]))))
    runs = Runs(settings(tmp_path))
    with collected.tracer.start_as_current_span("start") as caller:
        await runs.start("Go.", key="k")
    worker = Process(tmp_path, "runs", "worker", "traced:agent")
    try:
        info = await run_when(runs, "k", lambda info: not info.is_open)
        assert (info.status, info.output) == ("done", "wrote b"), info.error
    finally:
        assert await worker.ends(signal.SIGTERM) == 0, worker.printed
        await runs.close()
    text = await asyncio.to_thread((tmp_path / "spans.jsonl").read_text)
    spans: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]
    (run,) = (span for span in spans if span["name"] == RUN)
    (call,) = (span for span in spans if span["name"] == "tools/call write")
    context = caller.get_span_context()
    linked = {name: value for name, value in run["links"][0]["context"].items() if name != "trace_state"}
    assert linked == {
        "trace_id": f"0x{format_trace_id(context.trace_id)}",
        "span_id": f"0x{format_span_id(context.span_id)}",
    }
    assert run["parent_id"] is None
    assert run["context"]["trace_id"] != linked["trace_id"]
    assert (call["parent_id"], call["context"]["trace_id"]) == (
        run["context"]["span_id"],
        run["context"]["trace_id"],
    )
