"""Stands between wire and SDK, so that one bad piece does not cost the whole answer.

The SDK validates an answer as a whole: one resource with a broken definition, and the list is refused;
one content block of a kind it does not know, and the result is. The result_filter takes such pieces out of
lists, when asked to, and keeps unknown blocks as text. Instructions that are not text do not cost the
connection. Tools are listed without the SDK (`lean.py`), unless some of their arguments go into headers.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import anyio
import anyio.abc
from mcp.shared.dispatcher import CallOptions, Dispatcher, OnNotify, OnNotifyIntercept, OnRequest
from mcp_types import methods
from pydantic import ValidationError
from pydantic_core import to_json

from toolbus.core.encodable import unwritable
from toolbus.core.text import cleaned, cleaned_schema

LISTS = {
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
TOOLS = {"tools/list": "tools"}
WORDS = {"resources": "resource", "resourceTemplates": "template", "prompts": "prompt"}
BLOCKS = frozenset({"text", "image", "audio", "resource_link", "resource"})


class ResultFilter:
    """A dispatcher around another; `sifting` makes it take bad items out of lists."""

    def __init__(self, inner: Dispatcher[Any]) -> None:
        self._inner = inner
        self.version: str | None = None
        self.sifting = False
        self.left_out: list[str] = []
        """What was taken out, and why, for the warning."""
        self._lists: Mapping[str, str] = LISTS

    @contextmanager
    def sifting_tools(self) -> Generator[None]:
        """Meanwhile take bad tools out of their list, too."""
        before, self.sifting, self._lists = self.sifting, True, LISTS | TOOLS
        try:
            yield
        finally:
            self.sifting, self._lists = before, LISTS

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
        elif method in self._lists:
            self._sift(method, self._lists[method], answer)
        elif method in ("initialize", "server/discover"):
            self._mend_instructions(answer)
        return answer

    def _sift(self, method: str, key: str, answer: dict[str, Any]) -> None:
        if not isinstance(answer.get(key), list):
            return
        items: list[Any] = answer[key]
        if unwritable(items) is not None:
            items = [item for item in map(cleaned_schema, items) if self._is_writable(key, item)]
        if self.sifting:
            page = {name: value for name, value in answer.items() if name != "nextCursor"}
            items = [item for item in items if self._is_valid(method, page, key, item)]
        answer[key] = items

    def _is_writable(self, key: str, item: Any) -> bool:
        fault = unwritable(item)
        if fault is not None:
            self._leave_out(key, item, f"its definition {fault}")
        return fault is None

    def _is_valid(self, method: str, page: dict[str, Any], key: str, item: Any) -> bool:
        assert self.version is not None
        try:
            methods.parse_server_result(method, self.version, page | {key: [item]})
        except (ValidationError, RecursionError) as error:
            self._leave_out(key, item, _reason(error))
            return False
        return True

    def _leave_out(self, key: str, item: Any, reason: str) -> None:
        name = cast("dict[str, Any]", item).get("name") if isinstance(item, dict) else None
        named = f" {cleaned(name)!r}" if isinstance(name, str) else ""
        if key in WORDS:  # tools are judged, and reported, by our own border
            self.left_out.append(f"the {WORDS[key]}{named} was left out: {reason}")

    def _mend_instructions(self, answer: dict[str, Any]) -> None:
        said = answer.get("instructions")
        if said is not None and (not isinstance(said, str) or unwritable(said) is not None):
            answer["instructions"] = cleaned(said) if isinstance(said, str) else None
            self.left_out.append("its instructions are not valid text; what is invalid was ignored")


def _reason(error: Exception) -> str:
    """The first fault in one line."""
    if not isinstance(error, ValidationError):
        return "its definition is nested too deeply"
    first = error.errors(include_input=False, include_url=False)[0]
    # The list and the place in it say nothing of the item.
    place = ".".join(map(str, first["loc"][2:])) or "definition"
    return f"{place}: {first['msg']}"


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
