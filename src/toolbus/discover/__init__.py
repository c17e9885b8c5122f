"""Stage 3: list what servers offer, and keep the lists current."""

from toolbus.discover.subscriptions import Subscriptions
from toolbus.discover.watch import Discovery

__all__ = ["Discovery", "Subscriptions"]
