"""Ask about a call with an interrupt of LangGraph, if the policy of the bus asks.

The graph stops, and its result has the question under `__interrupt__`. It continues with
`Command(resume=answer)`: `"once"`, `"session"`, `"always"`, `"never"`, False, or a reason for a denial.
"""

from collections.abc import Mapping
from typing import Any

from toolbus.adapters.approval import AskedCalls, approval_metadata, approval_of
from toolbus.adapters.extra import require_extra
from toolbus.bus.catalog.tool import Tool
from toolbus.core.ask.approval import Approval
from toolbus.core.values.records import JSON

with require_extra("langchain"):
    from langgraph.config import get_config
    from langgraph.types import interrupt

FACE = "langchain"
# LangGraph has no public name for it. Without it, nobody is asked here, and the guard of the bus decides.
_CHECKPOINTER = "__pregel_checkpointer"
_ASKED = AskedCalls()


def approval_by_interrupt(tool: Tool, arguments: Mapping[str, JSON]) -> Approval | None:
    """The answer about a call, if the policy asks and the graph can wait; first, it interrupts the graph."""
    task = _resumable_task()
    if task is None:
        return None
    # A resumed graph runs the tool again, up to here; the person was asked the first time.
    request = _ASKED.ask(task, tool, arguments, again=True)
    if request is None:
        return None
    about: dict[str, JSON] = {"server": tool.server, "tool": tool.origin.tool, "name": tool.name}
    answer: Any = interrupt({**about, **approval_metadata(request)})
    return approval_of(tool, arguments, FACE, asked=_ASKED.find(task, tool), answer=answer)


def _resumable_task() -> str | None:
    """The task of the graph that runs the tool; None without a graph, or if it has no checkpointer."""
    try:
        config: Mapping[str, Any] = get_config().get("configurable", {})
    except RuntimeError:  # not in a graph
        return None
    return f"{config.get('thread_id')} {config.get('checkpoint_ns')}" if config.get(_CHECKPOINTER) else None
