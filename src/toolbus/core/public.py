"""The public names of `toolbus` that need no other part: errors, and what hooks and handlers receive."""

from toolbus.core.ask.approval import ApprovalRequest as ApprovalRequest
from toolbus.core.ask.interactions import Interactions as Interactions
from toolbus.core.operation.events import Event as Event
from toolbus.core.operation.operation import Caller as Caller
from toolbus.core.operation.operation import Guard as Guard
from toolbus.core.operation.operation import Observer as Observer
from toolbus.core.operation.operation import Operation as Operation
from toolbus.core.values.elicitation import Answer as Answer
from toolbus.core.values.elicitation import Elicitation as Elicitation
from toolbus.core.values.elicitation import Pending as Pending
from toolbus.core.values.errors import *  # noqa: F403 - all of them
from toolbus.core.values.records import ToolResult as ToolResult
from toolbus.core.values.records import ToolSpec as ToolSpec
