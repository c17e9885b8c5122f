"""Stage 5, calls: the one path of every operation to a server and back."""

from toolbus.call.path import Hook, Next
from toolbus.core.operation.operation import Operation

__all__ = ["Hook", "Next", "Operation"]
