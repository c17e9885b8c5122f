"""Convert Pydantic AI's events to run events, with the server and duration of every call."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from pydantic_ai.messages import (
    BinaryContent,
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolReturnPart,
)

from toolbus.agent.events import RunEvent, TextDelta, ThinkingDelta, ToolCalled, ToolReturned
from toolbus.core.values.records import Image


class EventMapper:
    """Converts the events of one run."""

    def __init__(
        self,
        servers: Mapping[str, str],
        on_call: Callable[[str], None],
        explain: Callable[[ToolReturnPart], None],
    ) -> None:
        """`servers` maps tool names to servers; `on_call` gets the name of every called tool.

        `explain` may change the text of a result.
        """
        self._servers = servers
        self._on_call = on_call
        self._explain = explain
        self._started: dict[str, float] = {}
        self.calls: list[ToolReturned] = []
        """The completed calls."""

    def map(self, event: object) -> Iterator[RunEvent]:
        """The run events for an event of Pydantic AI: usually one or none."""
        match event:
            case (
                PartStartEvent(part=TextPart(content=text))
                | PartDeltaEvent(delta=TextPartDelta(content_delta=text))
            ) if text:
                yield TextDelta(text=text)
            case PartStartEvent(part=ThinkingPart(content=text)) if text:
                yield ThinkingDelta(text=text)
            case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=str(text))) if text:
                yield ThinkingDelta(text=text)
            case FunctionToolCallEvent(part=part):
                yield self._called(part)
            case FunctionToolResultEvent(part=part):
                yield self._returned(part)
            case _:
                pass

    def _called(self, part: ToolCallPart) -> ToolCalled:
        self._on_call(part.tool_name)
        self._started[part.tool_call_id] = time.monotonic()
        return ToolCalled(
            id=part.tool_call_id,
            name=part.tool_name,
            arguments=part.args_as_dict(),
            server=self._servers.get(part.tool_name),
        )

    def _returned(self, part: ToolReturnPart) -> ToolReturned:
        self._explain(part)
        started = self._started.pop(part.tool_call_id, None)
        metadata = cast(Mapping[str, Any], part.metadata or {})
        returned = ToolReturned(
            id=part.tool_call_id,
            name=part.tool_name,
            text="\n".join(
                item for item in part.content_items(mode="str", wrap_if_error=False) if isinstance(item, str)
            ),
            is_error=part.outcome != "success",
            seconds=0.0 if started is None else time.monotonic() - started,
            server=self._servers.get(part.tool_name),
            images=tuple(
                Image(data=file.data, mime_type=file.media_type)
                for file in part.files
                if isinstance(file, BinaryContent) and file.is_image
            ),
            structured=metadata.get("structured"),
        )
        self.calls.append(returned)
        return returned
