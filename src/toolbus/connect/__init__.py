"""Stage 2, a live link per server."""

from toolbus.connect.callbacks import SessionObserver
from toolbus.connect.link import Link
from toolbus.connect.requests import LinkRequests
from toolbus.connect.session import Session
from toolbus.connect.transports.jsonrpc import WireError

__all__ = ["Link", "LinkRequests", "Session", "SessionObserver", "WireError"]
