"""The error body of each provider, for an HTTP status and a message."""

from tests.wire.turn import JSON, Fault

OPENAI_KINDS = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
}
ANTHROPIC_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
GOOGLE_KINDS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def openai_error(fault: Fault) -> JSON:
    """The error in the form of Chat Completions and Responses."""
    other = "server_error" if fault.status >= 500 else "invalid_request_error"
    kind, code = OPENAI_KINDS.get(fault.status, (other, None))
    return {"error": {"message": fault.message, "type": kind, "param": None, "code": code}}


def anthropic_error(fault: Fault) -> JSON:
    """The error in the form of Anthropic."""
    other = "api_error" if fault.status >= 500 else "invalid_request_error"
    kind = ANTHROPIC_KINDS.get(fault.status, other)
    return {"type": "error", "error": {"type": kind, "message": fault.message}, "request_id": "req_scripted"}


def google_error(fault: Fault) -> JSON:
    """As Google reports it, which repeats the wait in the body."""
    error: JSON = {
        "code": fault.status,
        "message": fault.message,
        "status": GOOGLE_KINDS.get(fault.status, "UNKNOWN"),
    }
    if fault.retry_after is not None:
        kind = "type.googleapis.com/google.rpc.RetryInfo"
        error["details"] = [{"@type": kind, "retryDelay": f"{fault.retry_after:g}s"}]
    return {"error": error}
