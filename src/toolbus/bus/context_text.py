"""Join resources to one text for a system prompt, within a budget of tokens."""

import re
from collections.abc import Iterable
from typing import TypeAlias
from urllib.parse import quote

from toolbus.core.text.text import cleaned
from toolbus.core.values.records import Budget, Embedded, Text, ToolResult
from toolbus.shape import rendered_text
from toolbus.shape.budget import estimated_tokens, fitted_blocks
from toolbus.shape.render import without_base64

MAX_NAMED = 5
"""How many of the omitted resources are named."""
NOTE_TOKENS = 100
"""The token limit of the note that names them."""
MIN_PART_TOKENS = 60
"""A part of a resource with fewer tokens is not useful."""

Key: TypeAlias = tuple[str, str]
"""A server and the URI of one of its resources."""


def fitted_text(resources: Iterable[tuple[Key, str]], budget: int) -> tuple[str, list[Key]]:
    """The resources as one text within the budget, and the keys of those that are not complete in it.

    The first ones are complete, so that later entries of the config do not change them; where the budget
    ends one is shortened, and the others are named.
    """
    framed = [(key, _Frame(key, text)) for key, text in resources]
    full = "\n\n".join(frame.full for _, frame in framed)
    if _fits(full, budget):
        return full, []
    shown: list[str] = []
    incomplete: list[Key] = []
    omitted: list[Key] = []
    room = budget - NOTE_TOKENS
    for key, frame in framed:
        part = None if incomplete else frame.fitted(room)
        if part is not frame.full:
            incomplete.append(key)
        if part is None:
            omitted.append(key)
        else:
            shown.append(part)
            room -= estimated_tokens(f"{part}\n\n")
    if omitted:
        shown.append(_note(omitted, budget))
    return "\n\n".join(shown), incomplete


class _Frame:
    """A resource between two tags that its text cannot forge."""

    def __init__(self, key: Key, text: str) -> None:
        server, uri = map(_attribute, key)
        self._head = f'<resource server="{server}" uri="{uri}">'
        self._text = re.sub(r"</(?=resource\s*>)", r"<\\/", cleaned(text).rstrip(), flags=re.IGNORECASE)
        self.full = f"{self._head}\n{self._text}\n</resource>"

    def fitted(self, tokens: int) -> str | None:
        """The resource in at most that many tokens; None if they are too few to be useful."""
        if _fits(self.full, tokens):
            return self.full
        room = tokens - estimated_tokens(f"{self._head}\n\n</resource>")
        if room < MIN_PART_TOKENS:
            return None
        body = ToolResult(content=fitted_blocks((Text(text=self._text),), Budget(tokens=room), None)).text
        return f"{self._head}\n{body}\n</resource>" if _fits(body, room) else None


def _fits(text: str, tokens: int) -> bool:
    # No character counts less than a quarter: longer text need not be counted.
    return len(text) <= 4 * tokens and estimated_tokens(text) <= tokens


def _note(omitted: list[Key], budget: int) -> str:
    note = ""
    for count in range(min(len(omitted), MAX_NAMED), -1, -1):
        names = "; ".join(_attribute(uri) for _, uri in omitted[:count]) or f"{len(omitted):,} resources"
        more = f"; and {len(omitted) - count:,} more" if 0 < count < len(omitted) else ""
        note = f"[left out, beyond {budget:,} tokens: {names}{more}]"
        if _fits(note, NOTE_TOKENS):
            break
    return note


def _attribute(text: str) -> str:
    return re.sub(r'["<>\s]', lambda found: quote(found[0]), cleaned(text))


def readable_text(block: Embedded) -> str:
    """The text of a resource for a model; a blob becomes one line of description."""
    if block.text is not None:
        return without_base64(block.text)
    return rendered_text(ToolResult(content=(block,)))
