"""Prepare results for a model: clean, and within their budget; the full text can still be read.

A long result takes a while to read, so that happens in a thread, and other calls go on.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from pydantic_core import to_json

from toolbus.call.result_store import CAPACITY, READ_RESULT, Owner, ResultStore
from toolbus.core.operation.operation import Operation
from toolbus.core.text.text import cleaned_json
from toolbus.core.values.records import Budget, Embedded, Text, ToolResult
from toolbus.schema.values import is_larger
from toolbus.shape import cleaned_block
from toolbus.shape.budget import character_limit, fitted_blocks
from toolbus.shape.render import described_text, rendered

MAX_FILES = 20
_LARGE = 50_000
"""Characters of a result that are read in a thread; blocks and other values count for 20."""
Warn: TypeAlias = Callable[[str, str | None, str], None]
"""Emits a warning: server, tool, message."""


class Results:
    """Cuts results that are too long, and stores them for `read_result` until the bus closes."""

    def __init__(
        self,
        warn: Warn | None = None,
        on_first_kept: Callable[[], None] | None = None,
        capacity: int = CAPACITY,
        *,
        store: ResultStore | None = None,
        user: str = "",
    ) -> None:
        """`warn` reports a result that was cleaned; `on_first_kept` is called once one is stored.

        Several users may share a `store`: each reads only the results of this `user`.
        """
        self.store = ResultStore(capacity) if store is None else store
        self._user = user
        self._warn = warn
        self._on_first_kept = on_first_kept
        self.has_kept = False

    async def for_model(
        self, result: ToolResult, operation: Operation, budget: Budget, *, keep: bool
    ) -> ToolResult:
        """The result of a tool, clean, within its budget, and without base64 in its texts."""
        origin = operation.spec.origin
        had_kept = self.has_kept
        if _is_large(result):
            fitting, was_clean = await asyncio.to_thread(self._for_model, result, operation, budget, keep)
        else:
            fitting, was_clean = self._for_model(result, operation, budget, keep)
        if not was_clean and self._warn is not None:
            self._warn(
                origin.server, origin.tool, "invisible or control characters were removed from a result"
            )
        if self.has_kept is not had_kept and self._on_first_kept is not None:
            self._on_first_kept()
        return fitting

    def _for_model(
        self, result: ToolResult, operation: Operation, budget: Budget, keep: bool
    ) -> tuple[ToolResult, bool]:
        """The result for the model, and whether it had no hidden characters."""
        clean = without_hidden(result)
        fitting = self.fitted(clean, budget, keep=keep, owner=self._owner(operation))
        return described_text(fitting), clean is result

    def fitted(
        self, result: ToolResult, budget: Budget, *, keep: bool = True, owner: Owner = ()
    ) -> ToolResult:
        """The same result if it fits; else it is cut, and its meta has the id of the full text.

        Without `keep` it is only cut, for a model without `read_result`; so is one too large to store.
        """
        files = _binary_resources(result)
        rest = replace(result, content=tuple(block for block in result.content if block not in files))
        blocks = rendered(rest, images=True, audio=True)
        text = ToolResult(content=blocks).text
        if character_limit(budget, text) is None:
            if character_limit(budget, result.text) is None:
                return result
            text = result.text  # it has base64, which is described here and can be read
        name = self.store.keep(text, owner) if keep else None
        self.has_kept = self.has_kept or name is not None
        cut = replace(result, content=(*fitted_blocks(blocks, budget, name), *files))
        return (
            cut.with_notes(characters=len(text))
            if name is None
            else cut.with_notes(kept_as=name, characters=len(text))
        )

    async def read(self, operation: Operation) -> ToolResult:
        """The route of `read_result`."""
        try:
            text = self.store.read(**operation.arguments, owner=self._owner(operation))
            return ToolResult(content=(Text(text=text),))
        except (ValueError, TypeError) as error:  # the arguments come from a model
            return ToolResult.failure(f"{READ_RESULT.name}: {error}")

    def _owner(self, operation: Operation) -> Owner:
        # Not the caller alone, whom a program may name as it likes.
        return self._user, operation.caller.user, operation.caller.session


def _binary_resources(result: ToolResult) -> tuple[Embedded, ...]:
    """Binary resources, kept whole; none if there are too many."""
    found = tuple(
        block
        for block in result.content
        if isinstance(block, Embedded)
        and block.data is not None
        and not (block.mime_type or "").startswith(("image/", "audio/"))
    )
    return found if len(found) <= MAX_FILES else ()


def _is_large(result: ToolResult) -> bool:
    structured = result.structured
    if len(result.content) * 20 > _LARGE:
        return True
    size = 0
    for block in result.content:
        if isinstance(block, Text | Embedded):
            size += len(block.text or "")
    if structured is None or size > _LARGE:
        return size > _LARGE
    try:
        return len(to_json(structured, inf_nan_mode="constants")) > _LARGE
    except ValueError:  # a lone surrogate, or a hook's own value
        return is_larger(structured, _LARGE // 20)


def without_hidden(result: ToolResult) -> ToolResult:
    """The result without invisible and control characters; the same object if it has none."""
    content = tuple(cleaned_block(block) for block in result.content)
    structured = cleaned_json(result.structured)
    if structured is result.structured and all(a is b for a, b in zip(content, result.content, strict=True)):
        return result
    return replace(result, content=content, structured=structured)
