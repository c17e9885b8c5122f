"""What came of a script, as a result that a model or a program reads."""

import json
from typing import Any

from toolbus.code.journal import Entry, as_json, described
from toolbus.code.values import shown
from toolbus.core.text.text import cleaned, cleaned_json
from toolbus.core.values.elicitation import Pending
from toolbus.core.values.records import Budget, Text, ToolResult
from toolbus.shape.budget import character_limit, fitted


def finished(value: Any, printed: str, lost: int, calls: list[Entry], tokens: int) -> ToolResult:
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


def failed(error: str, printed: str, calls: list[Entry], tokens: int) -> ToolResult:
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


def suspended(pending: Pending, printed: str, calls: list[Entry]) -> ToolResult:
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
