"""Stage 3, what servers offer: all of it, and what changes."""

from toolbus.discover.subscriptions import Subscriptions
from toolbus.discover.watch import Discovery

__all__ = ["Discovery", "Subscriptions"]
