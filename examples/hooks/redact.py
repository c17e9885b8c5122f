"""A hook: hides fields and e-mail addresses in the results of servers."""

import dataclasses
import re
from typing import Any

from toolbus import Operation, ToolResult
from toolbus.records import Text

ADDRESS = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+")


class Redact:
    def __init__(self, fields: list[str]) -> None:
        self._fields = fields

    async def __call__(self, call: Operation, following: Any) -> ToolResult:
        result: ToolResult = await following(call)
        content = tuple(map(without_addresses, result.content))
        structured = result.structured and self._hidden(result.structured)
        return dataclasses.replace(result, content=content, structured=structured)

    def _hidden(self, values: dict[str, Any]) -> dict[str, Any]:
        return {key: "***" if key in self._fields else value for key, value in values.items()}


def without_addresses(block: Any) -> Any:
    if not isinstance(block, Text):
        return block
    return dataclasses.replace(block, text=ADDRESS.sub("***", block.text))
