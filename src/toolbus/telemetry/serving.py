"""Spans and durations of the requests that clients make to us: for the gateway.

    telemetry = ServerTelemetry(bus.config.telemetry)
    with telemetry.request(method, params, Inbound(request_id=1, transport="tcp", headers=headers)) as span:
        result = await answer(...)
        span.answered(result)

An exception inside ends the span as a failure: with the `code` of the error, if it has one. Spans of calls
inside are below this span, even in tasks that are started there.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from toolbus.config.location import is_mapping
from toolbus.config.settings.audit import Telemetry
from toolbus.core.ask.interactions import Stopwatch
from toolbus.core.fast_init import with_fast_init
from toolbus.core.values.records import JSON
from toolbus.telemetry import names
from toolbus.telemetry.attributes import Attributes, content, in_metrics, of_params, variables
from toolbus.telemetry.providers import UNTRACED, Providers, is_installed

INVALID_PARAMS, METHOD_NOT_FOUND = -32602, -32601
UNTOLD = frozenset({str(INVALID_PARAMS), str(METHOD_NOT_FOUND)})
"""Codes of requests whose names may be inventions of the client: durations are not counted by them."""


@with_fast_init
@dataclass(frozen=True, slots=True, kw_only=True)
class RequestArrival:
    """The arrival of a request: its id, transport and headers."""

    request_id: int | str | None = None
    """None for a notification."""
    transport: str = "pipe"
    """`pipe` for stdio, `tcp` or `unix` for HTTP."""
    headers: Mapping[str, str] | None = None
    """The headers of the HTTP request, with names in lower case."""
    protocol: str | None = None
    session: str | None = None
    principal: str = ""


class ServerSpan(Protocol):
    """The span of a request that is being answered."""

    def answered(self, result: Mapping[str, JSON]) -> None:
        """There is a result; one of a tool may be an error."""
        ...


class ServerTelemetry:
    """Traces the requests of clients."""

    def __init__(self, settings: Telemetry | None) -> None:
        self._settings = settings
        self._providers = Providers()

    @property
    def is_active(self) -> bool:
        """Whether anything is recorded; if not, `request` need not be called."""
        return self._settings is not None and is_installed()

    def request(
        self, method: str, params: Mapping[str, JSON] | None, inbound: RequestArrival
    ) -> AbstractContextManager[ServerSpan]:
        """A span of a request, current within the block.

        Its parent is the context in the request's `_meta`. The context of the transport is the current span,
        or else comes from the headers. If it differs, it is linked; it is the parent if `_meta` has none.
        """
        settings = self._settings
        if settings is None or not is_installed():
            return UNTRACED
        return _Request(self._providers, method, params or {}, inbound, settings.content)

    def session_ended(self, seconds: float, inbound: RequestArrival, error_type: str | None = None) -> None:
        """Record how long the session of a client lasted; `error_type` if it did not end as it should."""
        if self._settings is None or not is_installed():
            return
        attributes = in_metrics(_of_inbound(inbound))
        if error_type is not None:
            attributes[names.ERROR_TYPE] = error_type
        self._providers.server_sessions.record(seconds, attributes)


class _Request:
    """A request that is being answered; begins and ends with its block."""

    def __init__(
        self,
        providers: Providers,
        method: str,
        params: Mapping[str, JSON],
        inbound: RequestArrival,
        shown: bool,
    ) -> None:
        self._providers = providers
        self._method, self._params, self._inbound = method, params, inbound
        self._shown = shown
        self._failure: tuple[str, int | None, str] | None = None
        self._result: Mapping[str, JSON] | None = None

    def __enter__(self) -> "_Request":
        from toolbus.telemetry.spans import SpanKind, TracedRequest, parent_and_links

        parent, links = parent_and_links(self._params.get("_meta"), self._inbound.headers)
        attributes = of_params(self._method, self._params) | _of_inbound(self._inbound)
        if self._inbound.request_id is not None:
            attributes[names.REQUEST_ID] = str(self._inbound.request_id)
        if self._shown:
            attributes |= _content(self._method, self._params)
        self._watch = Stopwatch()
        self._span = TracedRequest(
            self._providers.tracer,
            None,
            SpanKind.SERVER,
            attributes,
            context=parent,
            links=links,
            shown=self._shown,
        )
        return self

    def answered(self, result: Mapping[str, JSON]) -> None:
        self._result = result
        if result.get("isError") is True:
            self._failure = names.TOOL_ERROR, None, ""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        from toolbus.telemetry.spans import error_message, error_type, rpc_code

        seconds, span = self._watch.seconds, self._span
        if error is not None:
            self._failure = error_type(error), rpc_code(error), error_message(error)
        if self._shown and self._result is not None and self._method == "tools/call":
            shown = content(self._result.get("structuredContent", self._result.get("content")))
            span.add({} if shown is None else {names.RESULT: shown})
        if self._failure is None:
            span.end()
        else:
            failed, code, message = self._failure
            span.end(failed, code=code, message=message)
        self._providers.server_operations.record(seconds, _counted(span.attributes))


def _counted(attributes: Attributes) -> Attributes:
    """The attributes of a duration, of which a client must not be able to make any number."""
    kept = in_metrics(attributes)
    if kept[names.METHOD] not in names.KNOWN_METHODS:
        kept[names.METHOD] = names.OTHER
    if kept.get(names.STATUS_CODE) in UNTOLD:
        kept.pop(names.TOOL, None)
        kept.pop(names.PROMPT, None)
    return kept


def _of_inbound(inbound: RequestArrival) -> Attributes:
    found: Attributes = {names.TRANSPORT: inbound.transport}
    if inbound.transport != "pipe":
        found |= {names.NETWORK_PROTOCOL: "http", names.NETWORK_VERSION: "1.1"}
    if inbound.protocol is not None:
        found[names.PROTOCOL] = inbound.protocol
    if inbound.session is not None:
        found[names.SESSION] = inbound.session
    if inbound.principal:
        found[names.PRINCIPAL] = inbound.principal
    return found


def _content(method: str, params: Mapping[str, JSON]) -> Attributes:
    arguments = params.get("arguments")
    if method == "prompts/get":
        return variables(arguments if is_mapping(arguments) else {})
    shown = content(arguments) if method == "tools/call" else None
    return {} if shown is None else {names.ARGUMENTS: shown}
