"""The SDK's two most frequent requests, `tools/call` and `tools/list`, with each response validated once.

The SDK builds two models to send a call, validates the response against the schema of the protocol
version, dumps it again, and validates it a second time. This replaces the session's `call_tool` for plain
first calls; everything else goes to the SDK's own. `Client.call_tool`, which drives multi-round-trip
requests and header mismatches, is not changed. A page of tools is returned as it was received: our records
are built from it directly.
"""

from collections.abc import Awaitable, Callable, Set
from typing import Any, Protocol, cast

import mcp_types as types
from mcp import Client
from mcp.shared.dispatcher import CallOptions, ProgressFnT
from mcp.shared.inbound import MCP_NAME_HEADER, encode_header_value
from pydantic import TypeAdapter

from toolbus.connect.in_flight import CURRENT
from toolbus.connect.sdk.input_required import SUSPENDING, TaskResult, TaskStarted, check_input_required
from toolbus.connect.sdk.result_filter import ResultFilter

_call_response: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)


class CheckOutput(Protocol):
    """Checks a result that is not an error."""

    async def __call__(self, name: str, result: types.CallToolResult) -> None: ...


def use_fast_calls(
    client: Client,
    result_filter: ResultFilter,
    check_output: CheckOutput,
    server: str,
    handled: frozenset[str],
    tasks_only: Set[str],
) -> None:
    """Make the client's calls fast; `check_output` checks every result that is not an error.

    `handled` names the server's requests that have a handler, `tasks_only` the tools that a legacy server
    runs only as tasks.
    """
    session = client.session
    sdk_call_tool = cast("Callable[..., Awaitable[Any]]", session.call_tool)
    stamp = _install_stamp(client)

    async def call_tool(
        name: str,
        arguments: dict[str, Any] | None = None,
        read_timeout_seconds: float | None = None,
        progress_callback: ProgressFnT | None = None,
        *,
        input_responses: types.InputResponses | None = None,
        request_state: str | None = None,
        **more: Any,
    ) -> Any:
        if input_responses is not None or request_state is not None or more.get("meta") is not None:
            result = await sdk_call_tool(
                name,
                arguments,
                read_timeout_seconds,
                progress_callback,
                input_responses=input_responses,
                request_state=request_state,
                **more,
            )
        else:
            request: dict[str, Any] = {
                "method": "tools/call",
                "params": {"name": name, "arguments": arguments},
            }
            if name in tasks_only:
                request["params"]["task"] = {}
            options: CallOptions = {}
            stamp(request, options)
            if progress_callback is not None:
                options["on_progress"] = progress_callback
            raw = await result_filter.send_raw_request("tools/call", request["params"], options)
            result = _parse_result(raw, as_task=name in tasks_only)
            if isinstance(result, types.CallToolResult) and not result.is_error:
                await check_output(name, result)
        if isinstance(result, types.InputRequiredResult):
            check_input_required(result, server, CURRENT.get(), handled)
        return result

    session.call_tool = call_tool
    session.validate_tool_result = check_output
    session.get_prompt = _checking_input(session.get_prompt, server, handled)
    session.read_resource = _checking_input(session.read_resource, server, handled)


def _parse_result(raw: dict[str, Any], *, as_task: bool) -> Any:
    """The result of a call, or its input request or task; raises `TaskStarted` for a legacy task."""
    if as_task and isinstance(raw.get("task"), dict):
        # Even if it is completed: its result has to be requested.
        raise TaskStarted({**raw["task"], "status": "working"})
    if raw.get("resultType") == "task":
        return TaskResult.model_validate(raw)
    return _call_response.validate_python(raw, by_name=False)


def _checking_input(request: Callable[..., Awaitable[Any]], server: str, handled: frozenset[str]) -> Any:
    async def checked(*args: Any, **more: Any) -> Any:
        result = await request(*args, **more)
        if isinstance(result, types.InputRequiredResult):
            check_input_required(result, server, None, handled)
        return result

    return checked


def _install_stamp(client: Client) -> Callable[[dict[str, Any], CallOptions], None]:
    """Wrap the SDK's stamp; a call that can be suspended declares that it accepts elicitation."""
    session = client.session
    sdk_stamp: Callable[[dict[str, Any], CallOptions], None] = session._stamp  # pyright: ignore[reportPrivateUsage]  # the seam; see client.py

    def stamp(request: dict[str, Any], options: CallOptions) -> None:
        sdk_stamp(request, options)
        in_flight = CURRENT.get()
        if in_flight is not None and in_flight.suspends and request["method"] == "tools/call":
            meta: dict[str, Any] = request.get("params", {}).get("_meta", {})
            if types.CLIENT_CAPABILITIES_META_KEY in meta:
                declared = meta[types.CLIENT_CAPABILITIES_META_KEY]
                meta[types.CLIENT_CAPABILITIES_META_KEY] = {**declared, **SUSPENDING}

    session._stamp = stamp  # pyright: ignore[reportPrivateUsage]  # likewise
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
