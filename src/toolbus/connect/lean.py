"""The SDK's two busiest requests, `tools/call` and `tools/list`, with every answer looked at once.

The SDK builds two models to send a call, validates the answer against the schema of the protocol
version, dumps that again, and then validates it a second time. `Client.call_tool`, which drives
multi-round-trip requests and header mismatches, stays as it is and finds this in the session's place.
What is not a plain first call is handed to the SDK's own. A page of tools is given as it came: our
records are made of it directly.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, cast

import mcp_types as types
from mcp import Client
from mcp.shared.dispatcher import CallOptions, ProgressFnT
from pydantic import TypeAdapter

from toolbus.connect.sieve import Sieve

_answer: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)


class CheckOutput(Protocol):
    """Looks at a result that is no failure."""

    async def __call__(self, name: str, result: types.CallToolResult) -> None: ...


def make_lean(client: Client, sieve: Sieve, check_output: CheckOutput) -> None:
    """Have the client's calls go the short way; `check_output` sees every result that is no failure."""
    session = client.session
    thorough = cast("Callable[..., Awaitable[Any]]", session.call_tool)
    stamp: Callable[[dict[str, Any], CallOptions], None] = session._stamp  # pyright: ignore[reportPrivateUsage]  # the seam; see client.py

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
            return await thorough(
                name,
                arguments,
                read_timeout_seconds,
                progress_callback,
                input_responses=input_responses,
                request_state=request_state,
                **more,
            )
        request: dict[str, Any] = {"method": "tools/call", "params": {"name": name, "arguments": arguments}}
        options: CallOptions = {}
        stamp(request, options)
        if progress_callback is not None:
            options["on_progress"] = progress_callback
        raw = await sieve.send_raw_request("tools/call", request["params"], options)
        result = _answer.validate_python(raw, by_name=False)
        if isinstance(result, types.CallToolResult) and not result.is_error:
            await check_output(name, result)
        return result

    session.call_tool = call_tool
    session.validate_tool_result = check_output


async def tools_page(client: Client, sieve: Sieve, cursor: str | None) -> dict[str, Any]:
    """One page of the list of tools, as the server sent it."""
    request: dict[str, Any] = {"method": "tools/list", "params": {"cursor": cursor} if cursor else {}}
    options: CallOptions = {}
    client.session._stamp(request, options)  # pyright: ignore[reportPrivateUsage]  # the seam; see client.py
    return await sieve.send_raw_request("tools/list", request["params"], options)
