"""What became of a request: the message for the client, and how it is counted."""

import logging
from typing import NamedTuple

from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS
from mcp_types import INTERNAL_ERROR

from toolbus.core.values.records import JSONObject
from toolbus.gateway.calls.queue import Busy
from toolbus.gateway.calls.wrong_replica import Elsewhere
from toolbus.gateway.gateway import Gateway
from toolbus.gateway.http.request import Headers, failure, response
from toolbus.gateway.metrics import error_kind
from toolbus.gateway.protocol.exchange import Exchange
from toolbus.gateway.protocol.protocol_error import BUSY, ProtocolError
from toolbus.gateway.protocol.sessions import RequestCancelled

logger = logging.getLogger("toolbus")

TOO_MANY = 429
REQUEST_CANCELLED = -32800
"""The error of a legacy request that its client cancelled: its stream ends only with a response."""


class Outcome(NamedTuple):
    """The end of a request."""

    message: JSONObject | None
    """The JSON-RPC response; None if there is none."""
    status: int = 200
    """The HTTP status, for a modern client that gets the response as JSON."""
    error: str | None = None
    """The kind of the error, if it is one."""
    headers: Headers = ()
    """More headers, if it is not in a stream."""


CANCELLED = Outcome(None, error="cancelled")
"""The client has left."""
ENDED = Outcome(None)
"""A stream that we end."""


async def answered(gateway: Gateway, exchange: Exchange, method: str, params: JSONObject | None) -> Outcome:
    """Have the gateway answer a request."""
    request_id = exchange.id
    try:
        result = await gateway.answer(exchange, method, params)
    except Busy as error:
        retry = (b"retry-after", b"%d" % error.retry_after)
        return Outcome(failure(request_id, error.json), TOO_MANY, "busy", (retry,))
    except ProtocolError as error:
        status = TOO_MANY if error.code == BUSY else ERROR_CODE_HTTP_STATUS.get(error.code, 200)
        return Outcome(failure(request_id, error.json), status, error_kind(error.code))
    except RequestCancelled:
        cancelled = {"code": REQUEST_CANCELLED, "message": "Request cancelled"}
        return Outcome(failure(request_id, cancelled), error="cancelled")
    except Elsewhere:
        raise
    except Exception:  # the edge of a task: a client gets an answer to each request
        logger.exception("could not answer %s", method if method.isprintable() else "a request")
        return Outcome(
            failure(request_id, {"code": INTERNAL_ERROR, "message": "Internal error"}), error="internal_error"
        )
    is_error = method == "tools/call" and result.get("isError") is True
    return Outcome(response(request_id, result), error="tool_error" if is_error else None)
