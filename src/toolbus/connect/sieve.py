"""Stands between wire and SDK, so that one bad piece does not cost the whole answer.

The SDK validates an answer as a whole: one resource with a broken definition, and the list is refused;
one content block of a kind it does not know, and the result is. The sieve takes such pieces out of
lists, when asked to, and keeps unknown blocks as text. Tools are listed without the SDK (`lean.py`).
"""

from collections.abc import Mapping
from typing import Any, cast

import anyio
import anyio.abc
from mcp.shared.dispatcher import CallOptions, Dispatcher, OnNotify, OnNotifyIntercept, OnRequest
from mcp_types import methods
from pydantic import ValidationError
from pydantic_core import to_json

LISTS = {
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
BLOCKS = frozenset({"text", "image", "audio", "resource_link", "resource"})


class Sieve:
    """A dispatcher around another; `sifting` makes it take bad items out of lists."""

    def __init__(self, inner: Dispatcher[Any]) -> None:
        self._inner = inner
        self.version: str | None = None
        self.sifting = False

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        await self._inner.run(on_request, on_notify, on_notify_intercept, task_status=task_status)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        await self._inner.notify(method, params, opts)

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        answer = await self._inner.send_raw_request(method, params, opts)
        if method == "tools/call":
            keep_unknown_blocks(answer)
        elif method in LISTS:
            self._sift(method, answer)
        return answer

    def _sift(self, method: str, answer: dict[str, Any]) -> None:
        key = LISTS[method]
        items = answer.get(key)
        if self.sifting and isinstance(items, list):
            page = {name: value for name, value in answer.items() if name != "nextCursor"}
            answer[key] = [i for i in cast("list[Any]", items) if self._is_valid(method, page | {key: [i]})]

    def _is_valid(self, method: str, page: dict[str, Any]) -> bool:
        assert self.version is not None
        try:
            methods.parse_server_result(method, self.version, page)
        except ValidationError:
            return False
        return True


def keep_unknown_blocks(answer: dict[str, Any]) -> None:
    """Make text of content blocks of a kind that the SDK does not know."""
    blocks = answer.get("content")
    if blocks is None and answer.get("resultType", "complete") == "complete":
        # Some servers send structured content alone.
        answer["content"] = []
        return
    if not isinstance(blocks, list):
        return
    for place, block in enumerate(cast("list[Any]", blocks)):
        kind = cast("dict[str, Any]", block).get("type") if isinstance(block, dict) else None
        if kind not in BLOCKS:
            blocks[place] = {"type": "text", "text": to_json(block).decode()}
