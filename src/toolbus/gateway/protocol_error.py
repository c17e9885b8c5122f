"""An error that a client gets instead of a result, in the terms of the protocol."""

from toolbus.core.records import JSON


class ProtocolError(Exception):
    """A JSON-RPC error."""

    def __init__(self, code: int, message: str, data: JSON = None) -> None:
        self.code = code
        self.message = message
        self.data = data
        super().__init__(f"{message} (code {code})")

    @property
    def json(self) -> dict[str, JSON]:
        """The `error` of a response."""
        error: dict[str, JSON] = {"code": self.code, "message": self.message}
        return error if self.data is None else error | {"data": self.data}
