"""Stage 2, a live link per server."""

from toolbus.connect.errand import Errand
from toolbus.connect.jsonrpc import WireError
from toolbus.connect.link import Attendant, Link
from toolbus.connect.session import Session

__all__ = ["Attendant", "Errand", "Link", "Session", "WireError"]
