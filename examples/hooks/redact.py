"""A hook: hides fields in the results of servers, and what looks like an e-mail address."""

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
        return dataclasses.replace(result, content=content, structured=self._hidden(result.structured))

    def _hidden(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._hidden(one) for one in value]
        if isinstance(value, dict):
            return {key: "***" if key in self._fields else self._hidden(one) for key, one in value.items()}
        return value


def without_addresses(block: Any) -> Any:
    if not isinstance(block, Text):
        return block
    return dataclasses.replace(block, text=ADDRESS.sub("***", block.text))
