"""The events of a run, read from its recorded steps.

It works without Pydantic AI, so that runs can be watched where that is not installed.
"""

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, cast

from pydantic_core import to_json, to_jsonable_python

from toolbus.adapters.media import model_blocks
from toolbus.agent.durable.execution.codec import read_result
from toolbus.agent.durable.questions import DurableEvent, QuestionAnswered, WaitingCall
from toolbus.agent.events import TextDelta, ThinkingDelta, ToolCalled, ToolReturned
from toolbus.core.operation.operation import Resumed
from toolbus.core.values.elicitation import Pending
from toolbus.core.values.records import JSON, Text
from toolbus.shape.render import rendered_text


def events_of(row: Mapping[str, Any], asked: Mapping[int, WaitingCall]) -> list[DurableEvent] | None:
    """The events of one recorded step; None if it asks something that is not in the store yet.

    `asked` are the questions of the run, by the numbers of the steps that wait for their answers.
    """
    number, record = row["function_id"], row["output"]
    match row["function_name"]:
        case "model" if row["error"] is None:
            return [*map(_read_return, record["returned"]), *_response_events(record)]
        case "DBOS.recv":
            return _answered(asked, number, record)
        case "approval" | "call" if row["error"] is None:
            if _asks(record):
                return [asked[number + 1].event] if number + 1 in asked else None
            return [_returned(record)] if "id" in record else []
        case _:
            return []


def event_json(event: DurableEvent) -> dict[str, JSON]:
    """An event; images are left out, the texts are what the model reads."""
    values = {field.name: getattr(event, field.name) for field in fields(event) if field.name != "images"}
    return to_jsonable_python({"event": type(event).__name__, **values}, fallback=str)


def _read_return(stored: Mapping[str, Any]) -> ToolReturned:
    """The event of a call without a record of its own, from `event_json`."""
    known = {field.name for field in fields(ToolReturned)}
    return ToolReturned(**{name: value for name, value in stored.items() if name in known})


def _response_events(record: Mapping[str, Any]) -> list[DurableEvent]:
    events: list[DurableEvent] = []
    called: Mapping[str, str | None] = record["called"]
    for part in record["response"]["parts"]:
        match part["part_kind"]:
            case "text" if part["content"]:
                events.append(TextDelta(text=part["content"]))
            case "thinking" if part["content"]:
                events.append(ThinkingDelta(text=part["content"]))
            case "tool-call" if (call := part["tool_call_id"]) in called:
                arguments = _arguments(part["args"])
                events.append(
                    ToolCalled(id=call, name=part["tool_name"], arguments=arguments, server=called[call])
                )
            case _:
                pass
    return events


def _arguments(written: Any) -> Mapping[str, JSON]:
    """The arguments of a call, which most providers send as text; empty if they are no object."""
    try:
        given = json.loads(written or "{}") if isinstance(written, str) else written
    except ValueError:
        return {}
    return cast("Mapping[str, JSON]", given) if isinstance(given, dict) else {}


def _asks(record: Mapping[str, Any]) -> bool:
    pending = record.get("pending")  # it may be a task instead
    return "ask" in record or "held" in record or bool(pending and Pending.from_json(pending).questions)


def _answered(asked: Mapping[int, WaitingCall], number: int, message: Any) -> list[DurableEvent]:
    """The answer that a step received, if it was one."""
    question = asked[max(one for one in asked if one <= number)]
    if message is None:
        return [QuestionAnswered(id=question.id, action="late")]
    try:
        answers = question.read_answers(message)
        Resumed.of(question.pending, answers)
    except ValueError:
        return []  # the run asks again
    return [question.answered(answers)]


def _returned(record: Mapping[str, Any]) -> ToolReturned:
    text, is_error, structured = _content(record)
    return ToolReturned(
        id=record["id"],
        name=record["name"],
        text=text,
        is_error=is_error,
        seconds=record["seconds"],
        server=record["server"],
        structured=structured,
    )


def _content(record: Mapping[str, Any]) -> tuple[str, bool, JSON]:
    """The text that the model reads, whether it is an error, and the structured content."""
    for key in ("unknown", "refused", "error", "failed", "retry"):
        if key in record:
            return record[key], True, None
    if "result" in record:
        result = read_result(record["result"])
        texts = [block.text for block in model_blocks(result) if isinstance(block, Text)]
        text = rendered_text(result) if result.is_error else "\n".join(texts)
        return text, result.is_error, result.structured
    value = record["tool_return"]["return_value"] if "tool_return" in record else record["value"]
    items = cast("list[JSON]", value) if isinstance(value, list) else [value]
    return "\n".join(one if isinstance(one, str) else to_json(one).decode() for one in items), False, None
