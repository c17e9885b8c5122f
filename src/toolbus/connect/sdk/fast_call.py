"""Requests that skip the SDK's models: `tools/call` and the pages of `tools/list`.

The SDK builds two models to send a call. It validates the response against the schema of the protocol
version, dumps it, and validates it a second time. `CallSender` sends a call itself. It needs only the SDK's
stamp: protocol version, capabilities and headers. The stamp is the same for every call until the SDK has
listed tools. A response that is not a plain result goes back to the SDK. `Client.call_tool`, which drives
multi-round-trip requests and header mismatches, gets it as the outcome of its first request.
"""

from collections.abc import Awaitable, Callable, Mapping, Set
from typing import Any, NamedTuple, Protocol, cast

import mcp_types as types
from mcp import Client
from mcp.shared.dispatcher import CallOptions, ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, encode_header_value
from pydantic import TypeAdapter
from pydantic_core import to_json

from toolbus.connect.in_flight import CURRENT
from toolbus.connect.sdk.input_required import SUSPENDING, TaskResult, TaskStarted, check_input_required
from toolbus.connect.sdk.result_filter import ResultFilter, keep_unknown_blocks
from toolbus.connect.transports.wire.jsonrpc import JsonRpcPeer
from toolbus.connect.transports.wire.pending import NotSendable, ToolHeaders
from toolbus.core.ask.interactions import Forwarding
from toolbus.core.operation.operation import CallInFlight
from toolbus.core.values.records import JSON

_call_response: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)
Params = dict[str, Any]
SdkStamp = Callable[[dict[str, Any], CallOptions], None]
"""Adds the protocol version, the capabilities and the headers to a request."""
Outcome = dict[str, Any] | MCPError
"""The result or error that a server sent in response to a call."""


class CheckOutput(Protocol):
    """Checks a result that is not an error."""

    async def __call__(self, name: str, result: types.CallToolResult) -> None: ...


class CallSender:
    """Sends the tool calls of one session."""

    def __init__(
        self,
        client: Client,
        result_filter: ResultFilter,
        check_output: CheckOutput,
        server: str,
        handled: Callable[[], frozenset[str]],
        tasks_only: Set[str],
    ) -> None:
        """`check_output` checks every result of the SDK's that is not an error.

        `handled` gives the server's requests that have a handler, `tasks_only` the tools that a legacy server
        runs only as tasks.
        """
        self._dispatcher = result_filter.inner
        self._check_output = check_output
        self._server = server
        self._handled = handled
        self._tasks_only = tasks_only
        self.received: dict[CallInFlight, Outcome] = {}
        """Outcomes of calls: the SDK's next `call_tool` of a call takes it instead of sending one."""
        self._stamps: dict[str, _Stamp] | None = {}
        """The stamps of the calls of each tool; None if they depend on its arguments."""
        self._install(client)

    # A plain function: a coroutine less on the way of every call.
    def send(
        self, in_flight: CallInFlight, arguments: Mapping[str, JSON], on_progress: ProgressFnT | None
    ) -> Awaitable[dict[str, Any]]:
        """Send a call; returns the result as the server sent it."""
        tool = in_flight.tool
        assert tool is not None, "only tools are called"
        params: Params = {
            "name": tool,
            "arguments": arguments if type(arguments) is dict else dict(arguments),
        }
        if tool in self._tasks_only:
            params["task"] = {}
        peer = self._dispatcher
        if isinstance(peer, JsonRpcPeer) and self._stamps is not None and not in_flight.suspends:
            stamp = self._stamps.get(tool) or self._keep_stamp(self._stamps, tool)
            try:
                encoded = to_json(params)
            except (ValueError, TypeError) as error:
                raise NotSendable(str(error)) from error
            return peer.send_encoded("tools/call", encoded, stamp.encoded, stamp.headers, on_progress)
        options: CallOptions = {}
        self._stamp({"method": "tools/call", "params": params}, options)
        if on_progress is not None:
            options["on_progress"] = on_progress
        return self._dispatcher.send_raw_request("tools/call", params, options)

    def forward(
        self, in_flight: CallInFlight, method: str, params: Params, on_progress: ProgressFnT | None
    ) -> Awaitable[dict[str, Any]]:
        """Send a request for an MCP client, whose capabilities it declares; returns the result as sent."""
        forwarding = in_flight.forwarding
        assert forwarding is not None, "it is forwarded"
        peer, stamps = self._dispatcher, self._stamps
        if method == "tools/call" and isinstance(peer, JsonRpcPeer) and stamps is not None:
            stamp = stamps.get(params["name"]) or self._keep_stamp(stamps, params["name"])
            meta: dict[str, Any] = params.pop("_meta", {})
            meta.update(stamp.meta)
            _declare_client(meta, forwarding)
            return peer.send_encoded(method, _encoded(params), _encoded(meta), stamp.headers, on_progress)
        options: CallOptions = {}
        self._stamp({"method": method, "params": params}, options)
        _declare_client(params.get("_meta", {}), forwarding)
        if method.startswith("tasks/"):
            options.setdefault("headers", {})[MCP_NAME_HEADER] = encode_header_value(params["taskId"])
        if on_progress is not None:
            options["on_progress"] = on_progress
        return self._dispatcher.send_raw_request(method, params, options)

    def _keep_stamp(self, stamps: "dict[str, _Stamp]", tool: str) -> "_Stamp":
        params: Params = {"name": tool}
        options: CallOptions = {}
        self._sdk_stamp({"method": "tools/call", "params": params}, options)
        meta: dict[str, Any] = params.get("_meta", {})
        stamps[tool] = _Stamp(meta, to_json(meta), ToolHeaders(options.get("headers", {})))
        return stamps[tool]

    def _install(self, client: Client) -> None:
        session = client.session
        self._sdk_stamp: SdkStamp = session._stamp  # pyright: ignore[reportPrivateUsage]  # the seam; see client.py
        self._stamp = _install_stamp(client, self._sdk_stamp)
        self._sdk_call_tool = cast("Callable[..., Awaitable[Any]]", session.call_tool)
        self._sdk_list_tools = session.list_tools
        session.call_tool = self._call_tool
        session.list_tools = self._list_tools
        session.validate_tool_result = self._check_output
        session.get_prompt = _checking_input(session.get_prompt, self._server, self._handled)
        session.read_resource = _checking_input(session.read_resource, self._server, self._handled)

    async def _list_tools(
        self, *, params: types.PaginatedRequestParams | None = None
    ) -> types.ListToolsResult:
        self._stamps = None  # the SDK may learn of arguments that go into headers
        return await self._sdk_list_tools(params=params)

    async def _call_tool(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        read_timeout_seconds: float | None = None,
        progress_callback: ProgressFnT | None = None,
        *,
        input_responses: types.InputResponses | None = None,
        request_state: str | None = None,
        **more: Any,
    ) -> Any:
        """The SDK's `call_tool`: a round of a call, or its first one if that is not a plain call."""
        in_flight = CURRENT.get()
        outcome = None if in_flight is None else self.received.pop(in_flight, None)
        if isinstance(outcome, MCPError):
            raise outcome
        if outcome is None and (
            in_flight is None or input_responses is not None or request_state is not None
        ):
            result = await self._sdk_call_tool(
                name,
                arguments,
                read_timeout_seconds,
                progress_callback,
                input_responses=input_responses,
                request_state=request_state,
                **more,
            )
        else:
            assert in_flight is not None, "only a call in flight has an outcome"
            raw = (
                await self.send(in_flight, arguments or {}, progress_callback) if outcome is None else outcome
            )
            keep_unknown_blocks(raw)
            result = _parse_result(raw, as_task=name in self._tasks_only)
            if isinstance(result, types.CallToolResult) and not result.is_error:
                await self._check_output(name, result)
        if isinstance(result, types.InputRequiredResult):
            check_input_required(result, self._server, in_flight, self._handled())
        return result


class _Stamp(NamedTuple):
    """The metadata and headers that the SDK adds to every tool call."""

    meta: dict[str, Any]
    """Its part of `_meta`."""
    encoded: bytes
    """The same as JSON."""
    headers: ToolHeaders


def _declare_client(meta: dict[str, Any], forwarding: Forwarding) -> None:
    """Replace what we declare to a modern server by what the client declared to us."""
    if types.CLIENT_CAPABILITIES_META_KEY in meta:
        meta[types.CLIENT_CAPABILITIES_META_KEY] = forwarding.client.capabilities
        meta.pop(types.LOG_LEVEL_META_KEY, None)
        if forwarding.log_level is not None:
            meta[types.LOG_LEVEL_META_KEY] = forwarding.log_level


def _encoded(value: dict[str, Any]) -> bytes:
    try:
        return to_json(value)
    except (ValueError, TypeError) as error:
        raise NotSendable(str(error)) from error


def _parse_result(raw: dict[str, Any], *, as_task: bool) -> Any:
    """The result of a call, or its input request or task; raises `TaskStarted` for a legacy task."""
    if as_task and isinstance(raw.get("task"), dict):
        # Even if it is completed: its result has to be requested.
        raise TaskStarted({**raw["task"], "status": "working"})
    if raw.get("resultType") == "task":
        return TaskResult.model_validate(raw)
    return _call_response.validate_python(raw, by_name=False)


def _checking_input(
    request: Callable[..., Awaitable[Any]], server: str, handled: Callable[[], frozenset[str]]
) -> Any:
    async def checked(*args: Any, **more: Any) -> Any:
        result = await request(*args, **more)
        if isinstance(result, types.InputRequiredResult):
            check_input_required(result, server, None, handled())
        elif isinstance(result, types.ReadResourceResult) and (
            more.get("input_responses") is not None or more.get("request_state") is not None
        ):
            result.ttl_ms = 0  # it depends on what was answered, so it must not be kept
        return result

    return checked


def _install_stamp(client: Client, sdk_stamp: SdkStamp) -> SdkStamp:
    """Wrap the SDK's stamp; a call that can be suspended declares that it accepts elicitation."""

    def stamp(request: dict[str, Any], options: CallOptions) -> None:
        sdk_stamp(request, options)
        in_flight = CURRENT.get()
        if in_flight is not None and in_flight.suspends and request["method"] == "tools/call":
            meta: dict[str, Any] = request.get("params", {}).get("_meta", {})
            if types.CLIENT_CAPABILITIES_META_KEY in meta:
                declared = meta[types.CLIENT_CAPABILITIES_META_KEY]
                meta[types.CLIENT_CAPABILITIES_META_KEY] = {**declared, **SUSPENDING}

    client.session._stamp = stamp  # pyright: ignore[reportPrivateUsage]  # the seam; see client.py
    return stamp


async def send_raw(
    client: Client, result_filter: ResultFilter, method: str, params: dict[str, Any], name: str | None = None
) -> dict[str, Any]:
    """Send a request whose result the SDK does not validate; `name` goes into the MCP name header."""
    request: dict[str, Any] = {"method": method, "params": dict(params)}
    options: CallOptions = {}
    client.session._stamp(request, options)  # pyright: ignore[reportPrivateUsage]  # the seam; see client.py
    if name is not None:
        options.setdefault("headers", {})[MCP_NAME_HEADER] = encode_header_value(name)
    return await result_filter.send_raw_request(method, request["params"], options)
