"""Stage 2, a live link per server."""

from toolbus.connect.callbacks import Attendant
from toolbus.connect.errand import Errand
from toolbus.connect.jsonrpc import WireError
from toolbus.connect.link import Link
from toolbus.connect.session import Session

__all__ = ["Attendant", "Errand", "Link", "Session", "WireError"]
