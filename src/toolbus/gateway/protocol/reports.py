"""Progress and log messages about a request, on the stream of that request."""

from toolbus.core.operation.events import Logged, OnLog
from toolbus.core.values.records import JSON, Progress
from toolbus.gateway.protocol.exchange import Exchange
from toolbus.gateway.protocol.words import has_level


class Reports:
    """Reports to the client that waits for the result; later rounds of a call may have another stream."""

    __slots__ = ("exchange",)

    def __init__(self, exchange: Exchange) -> None:
        self.exchange: Exchange | None = exchange
        """The request that waits; None while there is none."""

    @property
    def on_progress(self) -> Progress | None:
        """Reports progress; None if the client did not ask for it."""
        exchange = self.exchange
        return None if exchange is None or "progressToken" not in exchange.meta else self.progressed

    @property
    def on_log(self) -> OnLog | None:
        """Passes log messages on; None if the client wants none."""
        exchange = self.exchange
        if exchange is None or (exchange.log_level is None and exchange.session is None):
            return None
        return self.logged

    def progressed(self, progress: float, total: float | None, message: str | None) -> None:
        """Send progress, if a client waits that asked for it."""
        exchange = self.exchange
        if exchange is None or "progressToken" not in exchange.meta:
            return
        params: dict[str, JSON] = {"progressToken": exchange.meta["progressToken"], "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        exchange.channel.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})

    def logged(self, message: Logged) -> None:
        """Send a log message, if a client waits that wants its level."""
        exchange = self.exchange
        if exchange is None:
            return
        lowest = exchange.log_level
        if exchange.session is not None:  # it may have changed since the request was made
            lowest = exchange.session.log_level or "debug"
        if lowest is None or not has_level(message.level, lowest):
            return
        params: dict[str, JSON] = {"level": message.level, "data": message.data}
        if message.logger is not None:
            params["logger"] = message.logger
        exchange.channel.send({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
