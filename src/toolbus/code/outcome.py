"""The outcome of a script, as a result that a model or a program reads."""

import base64
import json
from collections.abc import Mapping
from typing import Any, cast

from toolbus.code.journal import JournalEntry, as_json, described
from toolbus.core.text.text import cleaned, cleaned_json
from toolbus.core.values.elicitation import Pending
from toolbus.core.values.records import (
    JSON,
    Audio,
    Budget,
    Embedded,
    Image,
    JSONObject,
    ResourceLink,
    Text,
    ToolResult,
)
from toolbus.schema.values import is_object
from toolbus.shape.budget import character_limit, fitted

_DEEPEST = 100


def for_script(result: ToolResult) -> JSON:
    """The value of a call in a script: structured content, JSON in a text, a text, or a list of blocks."""
    if result.structured is not None:
        return result.structured
    if all(isinstance(block, Text) for block in result.content):
        return _parsed(result.text)
    return [_block(block) for block in result.content]


def _parsed(text: str) -> JSON:
    """An object or a list, if the text is one; numbers and words stay text."""
    if text.lstrip()[:1] not in ("{", "["):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _block(block: Text | Image | Audio | ResourceLink | Embedded) -> JSON:
    match block:
        case Text():
            return {"type": "text", "text": block.text}
        case Image() | Audio():
            kind = "image" if isinstance(block, Image) else "audio"
            return {"type": kind, "mime_type": block.mime_type, "data": _base64(block.data)}
        case ResourceLink():
            return {"type": "link", "uri": block.uri, "name": block.name}
        case Embedded():
            content = {"text": block.text} if block.data is None else {"data": _base64(block.data)}
            return {"type": "resource", "uri": block.uri, "mime_type": block.mime_type, **content}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def from_script(value: Any, depth: int = 0) -> JSON:
    """A value of a script as JSON; TypeError for what JSON does not have."""
    if depth > _DEEPEST:
        raise TypeError("the value has too many levels")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [from_script(one, depth + 1) for one in cast("list[Any]", value)]
    if isinstance(value, Mapping):
        entries = cast("Mapping[Any, Any]", value)
        if all(isinstance(key, str) for key in entries):
            return {key: from_script(one, depth + 1) for key, one in entries.items()}
        raise TypeError("the keys of an object must be texts")
    raise TypeError(f"{type(value).__name__} is not JSON; pass texts, numbers, lists and dicts")


def shown(value: Any) -> JSON:
    """The value of a finished script; what JSON does not have is described."""
    try:
        return from_script(value)
    except TypeError:
        if isinstance(value, set | frozenset):
            return [shown(one) for one in cast("set[Any]", value)]
        if isinstance(value, Mapping):
            return {str(key): shown(one) for key, one in cast("Mapping[Any, Any]", value).items()}
        if isinstance(value, list | tuple):
            return [shown(one) for one in cast("list[Any]", value)]
        return str(value)


def finished(value: Any, printed: str, lost: int, calls: list[JournalEntry], tokens: int) -> ToolResult:
    """The result of a script that ran to its end: what it printed, and the value of its last expression."""
    plain = cleaned_json(shown(value))
    parts = [_printed(printed, lost)]
    if plain is not None:
        parts.append(plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False))
    parts += [f"[{one}, because nothing awaited it]" for one in calls if one.state == "not made"][:1]
    text = "\n".join(part for part in parts if part) or f"The script has ended; it made {len(calls)} calls."
    within = within_budget(text, tokens)
    facts = {"printed": within_budget(_printed(printed, lost), tokens), "calls": as_json(calls)}
    # A value that is too much for a model is not sent beside the text; programs have `value`.
    structured = {"value": plain if within is text else None, **facts}
    return ToolResult(content=(Text(text=within),), structured=structured, value=value)


def returned(value: Any, printed: str, schema: JSONObject | None, tokens: int) -> ToolResult:
    """The result of a script that is a tool: the value of its last expression, or else what it printed."""
    plain = cleaned_json(shown(value))
    if schema is not None and (problem := _misfit(plain, schema)) is not None:
        return ToolResult.failure(f"the result of the script does not fit its output schema: {problem}")
    if plain is None:
        return ToolResult(content=(Text(text=within_budget(cleaned(printed).rstrip(), tokens)),))
    text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
    return ToolResult(content=(Text(text=text),), structured=plain if is_object(plain) else None)


def _misfit(value: JSON, schema: JSONObject) -> str | None:
    """The reason why a value does not fit its schema; None if it does."""
    from toolbus.schema.validator import InvalidSchema, Validator

    try:
        validator = Validator(dict(schema))
    except InvalidSchema as error:
        return f"the schema is invalid: {error}"
    return None if validator.accepts(value) else validator.explanation(value) or "it does not fit"


def failed(error: str, printed: str, calls: list[JournalEntry], tokens: int) -> ToolResult:
    """The result of a script that failed: why, what it printed, and what ran."""
    said = f"Printed before:\n{cleaned(printed).rstrip()}" if printed else ""
    whole = "\n".join(part for part in (cleaned(error), said, described(calls)) if part)
    text = within_budget(whole, tokens)
    facts = {"error": cleaned(error), "printed": cleaned(printed), "calls": as_json(calls)}
    return ToolResult(
        content=(Text(text=text),),
        structured=facts if text is whole else {"calls": facts["calls"]},
        is_error=True,
        tool="run_code",
    )


def suspended(pending: Pending, printed: str, calls: list[JournalEntry]) -> ToolResult:
    """The result of a script that waits for a person."""
    facts = {"printed": cleaned(printed), "calls": as_json(calls)}
    return ToolResult(content=(Text(text=str(pending)),), structured=facts, pending=pending)


def within_budget(text: str, tokens: int) -> str:
    """The text within that many tokens; the same object if it is."""
    limit = character_limit(Budget(tokens=tokens), text)
    return text if limit is None else fitted(text, limit, None)


def _printed(printed: str, lost: int) -> str:
    text = cleaned(printed).rstrip("\n")
    return f"{text}\n[{lost:,} more characters were printed and left out]" if lost else text
