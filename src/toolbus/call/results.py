"""Prepare results for a model: clean, and within their budget; the full text can still be read.

A long result takes a while to read, so that happens in a thread, and other calls go on.
"""

import asyncio
from dataclasses import replace

from pydantic_core import to_json

from toolbus.call.kept_files import with_files
from toolbus.call.result_store import CAPACITY, READ_RESULT, Owner, ResultStore
from toolbus.core.operation.operation import Operation
from toolbus.core.text.text import cleaned_json
from toolbus.core.values.records import (
    Budget,
    Embedded,
    JSONObject,
    ResultShape,
    Text,
    ToolResult,
    with_notes,
)
from toolbus.schema.values import entries_of, is_larger
from toolbus.shape.budget import character_limit, fitted_blocks
from toolbus.shape.clean import cleaned_block
from toolbus.shape.render import described_text, rendered, rendered_text
from toolbus.shape.smaller import smaller

MAX_FILES = 20
_KEPT_NOTHING = "a result has none of the paths of its override (result.keep), so all of it is shown"
_LARGE = 50_000
"""Results with more characters than this are read in a thread; blocks and other values add 20 each."""


class Results:
    """Cuts results that are too long, and stores them for `read_result` until the bus closes."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.store = ResultStore(capacity)

    async def for_model(
        self, result: ToolResult, operation: Operation, budget: Budget, *, keep: bool
    ) -> ToolResult:
        """The result of a tool, clean, within its budget, and without base64 in its texts."""
        result = await self.smaller(result, operation, keep=keep)
        origin, tenant = operation.spec.origin, operation.tenant
        if _is_large(result):
            fitting, name, was_clean = await asyncio.to_thread(
                self._for_model, result, operation, budget, keep
            )
        else:
            fitting, name, was_clean = self._for_model(result, operation, budget, keep)
        if tenant is not None and not was_clean:
            tenant.warn(
                origin.server, origin.tool, "invisible or control characters were removed from a result"
            )
        if tenant is not None and name is not None:
            tenant.keep_results()
        return fitting

    def _for_model(
        self, result: ToolResult, operation: Operation, budget: Budget, keep: bool
    ) -> tuple[ToolResult, str | None, bool]:
        """The result for the model, the id of the full text, and whether it had no hidden characters."""
        clean = without_hidden(result)
        fitting, name = self._cut(clean, budget, keep, self._owner(operation))
        return described_text(fitting), name, clean is result

    async def smaller(self, result: ToolResult, operation: Operation, *, keep: bool = True) -> ToolResult:
        """The part of a result that the config keeps; with `keep`, `read_result` reads the whole."""
        shape, tenant = operation.spec.result, operation.tenant
        if shape is None or result.is_error or result.pending is not None:
            return result
        owner = self._owner(operation) if keep else None
        if shape.files is not None or _is_large(result):
            found, problem = await asyncio.to_thread(self._smaller, result, shape, owner)
        else:
            found, problem = self._smaller(result, shape, owner)
        if tenant is not None and problem is not None:
            tenant.warn(operation.spec.origin.server, operation.spec.origin.tool, problem)
        if tenant is not None and _notes(found).get("whole") is not None:
            tenant.keep_results()
        return found

    def _smaller(
        self, result: ToolResult, shape: ResultShape, owner: Owner | None
    ) -> tuple[ToolResult, str | None]:
        """The smaller result, and a problem with it."""
        found, lacks = smaller(result, shape)
        problem = None if lacks or not shape.keep else _KEPT_NOTHING
        name = None
        if lacks and owner is not None:
            name = self.store.keep(rendered_text(without_hidden(result)), owner)
        if name is not None:
            note = Text(text=f'[shortened; read_result(id="{name}") reads the whole result]')
            found = replace(found, content=(*found.content, note))
        if found is not result:
            found = with_notes(found, smaller=True, **({} if name is None else {"whole": name}))
        if shape.files is None:
            return found, problem
        try:
            return with_files(found, shape.files), problem
        except OSError as error:
            return found, f"its binary content could not be kept in {shape.files}: {error.strerror or error}"

    def fitted(
        self, result: ToolResult, budget: Budget, *, keep: bool = True, owner: Owner = ()
    ) -> ToolResult:
        """The same result if it fits; else it is cut, and its meta has the id of the full text.

        Without `keep` it is only cut, for a model without `read_result`; so is one too large to store.
        """
        return self._cut(result, budget, keep, owner)[0]

    def _cut(
        self, result: ToolResult, budget: Budget, keep: bool, owner: Owner
    ) -> tuple[ToolResult, str | None]:
        files = _binary_resources(result)
        rest = replace(result, content=tuple(block for block in result.content if block not in files))
        blocks = rendered(rest, images=True, audio=True)
        text = ToolResult(content=blocks).text
        if character_limit(budget, text) is None:
            if character_limit(budget, result.text) is None:
                return result, None
            text = result.text  # it has base64, which is described here and can be read
        name = self.store.keep(text, owner) if keep else None
        cut = replace(result, content=(*fitted_blocks(blocks, budget, name), *files))
        if name is None:
            return with_notes(cut, characters=len(text)), None
        return with_notes(cut, kept_as=name, characters=len(text)), name

    async def read(self, operation: Operation) -> ToolResult:
        """The route of `read_result`."""
        try:
            text = self.store.read(**operation.arguments, owner=self._owner(operation))
            return ToolResult(content=(Text(text=text),))
        except (ValueError, TypeError) as error:  # the arguments come from a model
            return ToolResult.failure(f"{READ_RESULT.name}: {error}")

    def _owner(self, operation: Operation) -> Owner:
        # Not the caller alone, whom a program may name as it likes.
        user = "" if operation.tenant is None else operation.tenant.user
        return user, operation.caller.user, operation.caller.session


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


def _notes(result: ToolResult) -> JSONObject:
    return entries_of(result.meta.get("toolbus"))


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
