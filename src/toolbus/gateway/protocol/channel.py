"""A stream of messages to a client."""

from typing import Protocol

from toolbus.core.values.records import JSONObject


class Channel(Protocol):
    """Where messages to a client go."""

    def send(self, message: JSONObject) -> None:
        """Send a JSON-RPC message; never waits, and drops it if the client is gone."""
        ...
