"""The SDK's two busiest requests, `tools/call` and `tools/list`, with every answer looked at once.

The SDK builds two models to send a call, validates the answer against the schema of the protocol
version, dumps that again, and then validates it a second time. `Client.call_tool`, which drives
multi-round-trip requests and header mismatches, stays as it is and finds this in the session's place.
What is not a plain first call is handed to the SDK's own. A page of tools is given as it came: our
records are made of it directly.
"""

from collections.abc import Awaitable, Callable, Set
from typing import Any, Protocol, cast

import mcp_types as types
from mcp import Client
from mcp.shared.dispatcher import CallOptions, ProgressFnT
from mcp.shared.inbound import MCP_NAME_HEADER, encode_header_value
from pydantic import TypeAdapter

from toolbus.connect.in_flight import CURRENT
from toolbus.connect.sdk.input_required import SUSPENDING, Started, TaskResult, look
from toolbus.connect.sdk.result_filter import ResultFilter

_answer: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)


class CheckOutput(Protocol):
    """Looks at a result that is no failure."""

    async def __call__(self, name: str, result: types.CallToolResult) -> None: ...


def use_fast_calls(
    client: Client,
    result_filter: ResultFilter,
    check_output: CheckOutput,
    server: str,
    handled: frozenset[str],
    tasks_only: Set[str],
) -> None:
    """Have the client's calls go the short way; `check_output` sees every result that is no failure.

    `handled` names the requests of a server that somebody here answers, `tasks_only` the tools that a server
    of the legacy era has to make a task of.
    """
    session = client.session
    thorough = cast("Callable[..., Awaitable[Any]]", session.call_tool)
    stamp = _stamping(client)

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
            result = await thorough(
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
            result = _read(raw, as_task=name in tasks_only)
            if isinstance(result, types.CallToolResult) and not result.is_error:
                await check_output(name, result)
        if isinstance(result, types.InputRequiredResult):
            look(result, server, CURRENT.get(), handled)
        return result

    session.call_tool = call_tool
    session.validate_tool_result = check_output
    session.get_prompt = _looking(session.get_prompt, server, handled)
    session.read_resource = _looking(session.read_resource, server, handled)


def _read(raw: dict[str, Any], *, as_task: bool) -> Any:
    """What a server answered to a call: a result, a question or a task; `Started` in the legacy era."""
    if as_task and isinstance(raw.get("task"), dict):
        # Though it may be done by now: the result is there for who asks for it.
        raise Started({**raw["task"], "status": "working"})
    if raw.get("resultType") == "task":
        return TaskResult.model_validate(raw)
    return _answer.validate_python(raw, by_name=False)


def _looking(ask: Callable[..., Awaitable[Any]], server: str, handled: frozenset[str]) -> Any:
    async def looked(*args: Any, **more: Any) -> Any:
        result = await ask(*args, **more)
        if isinstance(result, types.InputRequiredResult):
            look(result, server, None, handled)
        return result

    return looked


def _stamping(client: Client) -> Callable[[dict[str, Any], CallOptions], None]:
    """The SDK's stamp; on a call that a question suspends it says that questions are welcome."""
    session = client.session
    plain: Callable[[dict[str, Any], CallOptions], None] = session._stamp  # pyright: ignore[reportPrivateUsage]  # the seam; see client.py

    def stamp(request: dict[str, Any], options: CallOptions) -> None:
        plain(request, options)
        in_flight = CURRENT.get()
        if in_flight is not None and in_flight.suspends and request["method"] == "tools/call":
            meta: dict[str, Any] = request.get("params", {}).get("_meta", {})
            if types.CLIENT_CAPABILITIES_META_KEY in meta:
                declared = meta[types.CLIENT_CAPABILITIES_META_KEY]
                meta[types.CLIENT_CAPABILITIES_META_KEY] = {**declared, **SUSPENDING}

    session._stamp = stamp  # pyright: ignore[reportPrivateUsage]  # likewise
    return stamp


async def sent_raw(
    client: Client, result_filter: ResultFilter, method: str, params: dict[str, Any], name: str | None = None
) -> dict[str, Any]:
    """What a server answers to a request that the SDK need not look at; `name` is for HTTP's routers."""
    request: dict[str, Any] = {"method": method, "params": dict(params)}
    options: CallOptions = {}
    client.session._stamp(request, options)  # pyright: ignore[reportPrivateUsage]  # the seam; see client.py
    if name is not None:
        options.setdefault("headers", {})[MCP_NAME_HEADER] = encode_header_value(name)
    return await result_filter.send_raw_request(method, request["params"], options)
