"""Filter results before the SDK validates them, so that one invalid item does not fail the whole result.

The SDK refuses a whole list because of one resource with an invalid definition. It refuses a tool's result
because of one content block of an unknown type. The filter drops invalid tools, invalid instructions, and
items of lists that cannot be written as JSON. It turns unknown blocks into text. Tools are listed without the
SDK (`fast_call.py`), unless some of their arguments go into headers.
"""

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, cast

import anyio
import anyio.abc
from mcp.shared.dispatcher import (
    CallOptions,
    DispatchContext,
    Dispatcher,
    OnNotify,
    OnNotifyIntercept,
    OnRequest,
)
from mcp_types import methods
from pydantic import ValidationError

from toolbus.core.operation.tracing import ConnectionFacts, Tracing
from toolbus.core.text.canonical import encoding_problem
from toolbus.core.text.text import cleaned, cleaned_schema
from toolbus.core.values.freshness import clean_hints

LISTS = {
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
NOUNS = {"resources": "resource", "resourceTemplates": "template", "prompts": "prompt"}
BLOCKS = frozenset({"text", "image", "audio", "resource_link", "resource"})


class ResultFilter:
    """A dispatcher that wraps another, and filters what it receives."""

    def __init__(self, inner: Dispatcher[Any], tracing: Tracing | None = None) -> None:
        self.inner = inner
        self._tracing = tracing
        self.connection: ConnectionFacts = getattr(inner, "connection", None) or ConnectionFacts()
        self.version: str | None = None
        self.dropped: list[str] = []
        """A warning for each item that was dropped."""
        self._drops_tools = False

    @contextmanager
    def dropping_invalid_tools(self) -> Generator[None]:
        """Within the block, drop invalid tools."""
        self._drops_tools = True
        try:
            yield
        finally:
            self._drops_tools = False

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        traced = on_request if self._tracing is None else self._traced(self._tracing, on_request)
        await self.inner.run(traced, on_notify, on_notify_intercept, task_status=task_status)

    def _traced(self, tracing: Tracing, on_request: OnRequest) -> OnRequest:
        async def handle(
            context: DispatchContext[Any], method: str, params: Mapping[str, Any] | None
        ) -> dict[str, Any]:
            with tracing.asked(method, params, context.request_id, self.connection):
                return await on_request(context, method, params)

        return handle

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        await self.inner.notify(method, params, opts)

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        if self._tracing is None:
            result = await self.inner.send_raw_request(method, params, opts)
        else:
            with self._tracing.request(method, params, self.connection):
                result = await self.inner.send_raw_request(method, params, opts)
        if method in methods.CACHEABLE_METHODS:
            clean_hints(result, fill=method in ("server/discover", "resources/read"))
        if method == "tools/call":
            keep_unknown_blocks(result)
        elif method in LISTS:
            self._filter_list(LISTS[method], result)
        elif method == "tools/list" and self._drops_tools:
            self._filter_tools(result)
        elif method in ("initialize", "server/discover"):
            self._clean_instructions(result)
        return result

    def _filter_list(self, key: str, result: dict[str, Any]) -> None:
        items: Any = result.get(key)
        if isinstance(items, list) and encoding_problem(cast(object, items)) is not None:
            clean = map(cleaned_schema, cast("list[Any]", items))
            result[key] = [item for item in clean if self._is_writable(NOUNS[key], item)]

    def _is_writable(self, noun: str, item: Any) -> bool:
        fault = encoding_problem(item)
        if fault is not None:
            name = cast("dict[str, Any]", item).get("name") if isinstance(item, dict) else None
            named = f" {cleaned(name)!r}" if isinstance(name, str) else ""
            self.dropped.append(f"the {noun}{named} was left out: its definition {fault}")
        return fault is None

    def _filter_tools(self, result: dict[str, Any]) -> None:
        """Drop invalid tools, which the caller reports."""
        assert self.version is not None
        items = result.get("tools")
        if not isinstance(items, list):
            return
        page = {name: value for name, value in result.items() if name != "nextCursor"}
        valid: list[Any] = []
        for item in map(cleaned_schema, cast("list[Any]", items)):
            with suppress(ValidationError, RecursionError):
                if encoding_problem(item) is None:
                    methods.parse_server_result("tools/list", self.version, page | {"tools": [item]})
                    valid.append(item)
        result["tools"] = valid

    def _clean_instructions(self, result: dict[str, Any]) -> None:
        text = result.get("instructions")
        if text is not None and (not isinstance(text, str) or encoding_problem(text) is not None):
            result["instructions"] = cleaned(text) if isinstance(text, str) else None
            self.dropped.append("its instructions are not valid text; the invalid parts were ignored")


def keep_unknown_blocks(result: dict[str, Any]) -> None:
    """Turn content blocks of a type that the SDK does not know into text."""
    blocks = result.get("content")
    if blocks is None and result.get("resultType", "complete") == "complete":
        # Some servers send only structured content.
        result["content"] = []
        return
    if not isinstance(blocks, list):
        return
    for index, block in enumerate(cast("list[Any]", blocks)):
        kind = cast("dict[str, Any]", block).get("type") if isinstance(block, dict) else None
        if kind not in BLOCKS:
            text = json.dumps(block, ensure_ascii=False, separators=(",", ":"))
            # A lone surrogate, which JSON can escape and UTF-8 cannot write, stays an escape.
            blocks[index] = {"type": "text", "text": text.encode(errors="backslashreplace").decode()}
