"""Ask about a call with an interrupt of LangGraph, if the policy of the bus asks.

The graph stops, and its result has the question under `__interrupt__`. It continues with
`Command(resume=answer)`: `"once"`, `"session"`, `"always"`, `"never"`, False, or a reason for a denial.
"""

from collections.abc import Mapping
from typing import Any

from toolbus.adapters.approval import approval_metadata, approval_request
from toolbus.adapters.extra import require_extra
from toolbus.bus.tool import Tool
from toolbus.core.approval import Approval
from toolbus.core.records import JSON

with require_extra("langchain"):
    from langgraph.config import get_config
    from langgraph.types import interrupt

FACE = "langchain"
# LangGraph has no public name for it. Without it, nobody is asked here, and the guard of the bus decides.
_CHECKPOINTER = "__pregel_checkpointer"


def approval_by_interrupt(tool: Tool, arguments: Mapping[str, JSON]) -> Approval | None:
    """The answer about a call, if the policy asks and the graph can wait; first, it interrupts the graph."""
    request = approval_request(tool, arguments)
    if request is None or not _can_wait():
        return None
    about: dict[str, JSON] = {"server": tool.server, "tool": tool.origin.tool, "name": tool.name}
    answer: Any = interrupt({**about, **approval_metadata(request)})
    return request.approved(FACE, answer)


def _can_wait() -> bool:
    """Whether this is a run of a graph with a checkpointer, which can be resumed."""
    try:
        config = get_config()
    except RuntimeError:  # not in a graph
        return False
    return bool(config.get("configurable", {}).get(_CHECKPOINTER))
