"""Scenes to record and replay: calls of a test server, with everything that can happen in one."""

from collections.abc import Awaitable, Callable
from typing import Any

from toolbus import Answer, Elicitation, Interactions, Toolbus
from toolbus.errors import ToolbusError
from toolbus.events import CallEnded, CallStarted, Event, InputAnswered, InputAsked, Logged, Progressed
from toolbus.records import SamplingResult, Text, ToolResult

SEEN = (CallStarted, CallEnded, InputAsked, InputAnswered, Logged, Progressed)
"""The events that a replay repeats exactly, in their order."""
DATE = "2026-12-24"

Scene = Callable[[Toolbus], Awaitable[object]]


def answering(answer: Callable[[Elicitation], Answer] | None = None) -> Interactions:
    """A person who fills in every form, a model, and folders."""

    def fill(question: Elicitation) -> Answer:
        if question.url is not None:
            return question.accept()
        names = (question.schema or {}).get("properties", {})
        values = {"date": DATE, "yes": True, "seats": 3, "x": 4}
        return question.accept({name: values[name] for name in names if name in values})

    return Interactions(
        elicit=answer or fill,
        sample=lambda request: SamplingResult(content=Text(text="Tea"), model="small"),
        roots=["/tmp"],
    )


async def outcome(work: Awaitable[object]) -> object:
    """A result, or the class and the message of the error."""
    try:
        return await work
    except ToolbusError as error:
        return type(error).__name__, str(error)


async def played(bus: Toolbus, scenes: dict[str, Scene]) -> dict[str, Any]:
    """The outcome of each scene, and the events meanwhile, without times."""
    events: list[Event] = []
    bus.on_event(lambda event: events.append(event) if isinstance(event, SEEN) else None)
    found: dict[str, Any] = {}
    for name, scene in scenes.items():
        events.clear()
        found[name] = await outcome(scene(bus)), [_plain(event, events[0]) for event in events]
    return found


def _plain(event: Event, first: Event) -> tuple[str, dict[str, object]]:
    facts = {name: getattr(event, name) for name in event.__dataclass_fields__}
    for name in ("at", "elapsed_ms"):
        facts.pop(name, None)
    if "id" in facts and facts["id"] is not None:
        facts["id"] -= getattr(first, "id", 0) or 0
    return type(event).__name__, facts


def call(name: str, **arguments: Any) -> Scene:
    """A call of one tool."""
    return lambda bus: bus.call(f"asking/{name}", arguments)


async def suspended(bus: Toolbus) -> ToolResult:
    """A call that waits for its answer, and goes on with it."""
    waiting = await bus.call("asking/book", {"guest": "Bo"}, on_input="suspend")
    assert waiting.pending is not None
    (question,) = waiting.pending.questions.values()
    return await bus.resume(waiting.pending, question.accept({"date": DATE}))


COMMON: dict[str, Scene] = {
    "progress and log": call("tell", text="hello", steps=3),
    "a form": call("book", guest="Ann"),
    "two forms": call("twice", guest="Cy"),
    "a URL": call("pay"),
    "a model": call("title", about="tea"),
    "folders": call("folders"),
    "a resource": lambda bus: bus.read_resource("asking", "board://now"),
    "binary content": lambda bus: bus.read_resource("asking", "blob://big"),
    "a template": lambda bus: bus.read_resource("asking", "code://python/src/a.py"),
    "a prompt": lambda bus: bus.get_prompt("asking", "review", {"language": "go", "code": "x"}),
    "a completion": lambda bus: bus.complete("asking", "review", "language", "p"),
    "no such resource": lambda bus: bus.read_resource("asking", "code2://none"),
    "the same again": call("tell", text="hello", steps=3),
}
MODERN: dict[str, Scene] = {
    "a task": call("dig", depth=2),
    "a task that asks": call("dig", depth=2, mode="ask"),
    "a task that fails": call("dig", depth=1, mode="fail"),
    "a suspended call": suspended,
}
