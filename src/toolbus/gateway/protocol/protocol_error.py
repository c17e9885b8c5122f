"""An error that a client gets instead of a result, in the terms of the protocol."""

from typing import Final

from toolbus.core.values.records import JSON

BUSY: Final = -32029
"""Of ours, in the range for servers: the call was not made, and may be tried again."""


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


def over_quota(limit: str, problem: str) -> ProtocolError:
    """The error for a client that wants more than its share, or more than there is."""
    return ProtocolError(BUSY, f"{problem} ({limit}); end some, or try again later", {"limit": limit})
