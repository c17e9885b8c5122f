"""Filters results before the SDK validates them, so that one invalid item does not fail the whole result.

The SDK refuses a list because of one resource with an invalid definition, and a tool's result because of one
content block of an unknown type. The filter can drop invalid items from lists, and turns unknown blocks into
text. Invalid instructions are dropped. Tools are listed without the SDK (`fast_call.py`), unless some of
their arguments go into headers.
"""

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
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
TOOLS = {"tools/list": "tools"}
NOUNS = {"resources": "resource", "resourceTemplates": "template", "prompts": "prompt"}
BLOCKS = frozenset({"text", "image", "audio", "resource_link", "resource"})


class ResultFilter:
    """A dispatcher that wraps another; with `drops_invalid` it drops invalid items from lists."""

    def __init__(self, inner: Dispatcher[Any], tracing: Tracing | None = None) -> None:
        self.inner = inner
        self._tracing = tracing
        self.connection: ConnectionFacts = getattr(inner, "connection", None) or ConnectionFacts()
        self.version: str | None = None
        self.drops_invalid = False
        self.dropped: list[str] = []
        """A warning for each item that was dropped."""
        self._lists: Mapping[str, str] = LISTS

    @contextmanager
    def dropping_invalid_tools(self) -> Generator[None]:
        """Within the block, also drop invalid tools."""
        before, self.drops_invalid, self._lists = self.drops_invalid, True, LISTS | TOOLS
        try:
            yield
        finally:
            self.drops_invalid, self._lists = before, LISTS

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
        """Traces the requests of the server."""

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
        elif method in self._lists:
            self._filter_list(method, self._lists[method], result)
        elif method in ("initialize", "server/discover"):
            self._clean_instructions(result)
        return result

    def _filter_list(self, method: str, key: str, result: dict[str, Any]) -> None:
        if not isinstance(result.get(key), list):
            return
        items: list[Any] = result[key]
        if encoding_problem(items) is not None:
            items = [item for item in map(cleaned_schema, items) if self._is_writable(key, item)]
        if self.drops_invalid:
            page = {name: value for name, value in result.items() if name != "nextCursor"}
            items = [item for item in items if self._is_valid(method, page, key, item)]
        result[key] = items

    def _is_writable(self, key: str, item: Any) -> bool:
        fault = encoding_problem(item)
        if fault is not None:
            self._drop(key, item, f"its definition {fault}")
        return fault is None

    def _is_valid(self, method: str, page: dict[str, Any], key: str, item: Any) -> bool:
        assert self.version is not None
        try:
            methods.parse_server_result(method, self.version, page | {key: [item]})
        except (ValidationError, RecursionError) as error:
            self._drop(key, item, _reason(error))
            return False
        return True

    def _drop(self, key: str, item: Any, reason: str) -> None:
        name = cast("dict[str, Any]", item).get("name") if isinstance(item, dict) else None
        named = f" {cleaned(name)!r}" if isinstance(name, str) else ""
        if key in NOUNS:  # invalid tools are reported by `tools.py`
            self.dropped.append(f"the {NOUNS[key]}{named} was left out: {reason}")

    def _clean_instructions(self, result: dict[str, Any]) -> None:
        text = result.get("instructions")
        if text is not None and (not isinstance(text, str) or encoding_problem(text) is not None):
            result["instructions"] = cleaned(text) if isinstance(text, str) else None
            self.dropped.append("its instructions are not valid text; what is invalid was ignored")


def _reason(error: Exception) -> str:
    """The first problem in one line."""
    if not isinstance(error, ValidationError):
        return "its definition is nested too deeply"
    first = error.errors(include_input=False, include_url=False)[0]
    # Without the key of the list and the index of the item.
    path = ".".join(map(str, first["loc"][2:])) or "definition"
    return f"{path}: {first['msg']}"


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
