"""Shorten a long result to its budget: a note says how much is left out, and JSON stays JSON.

Text keeps its head and its tail. JSON keeps its structure: short values stay whole, long ones share the
rest. The note also says how to read the rest with `read_result`. Time is linear in the text.
"""

import json
import math
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from typing import TypeAlias, TypeGuard

from toolbus.core.text.text import cleaned_json
from toolbus.core.values.records import JSON, Audio, Budget, Image, Text, ToolResult

MINIMUM = Budget.SMALLEST
"""The smallest budget, in characters; smaller ones are raised to it. The note alone takes half of it."""

_Blocks: TypeAlias = tuple[Text | Image | Audio, ...]
_Container: TypeAlias = dict[str, JSON] | list[JSON]

_WEIGHTS = [  # groups of bytes, and how many quarters of a token each byte counts
    (bytes(code for code in range(128) if not (chr(code).isalpha() or chr(code) in " \n")), 2),
    (bytes([*b" \n", *(code for code in range(128) if chr(code).isalpha())]), 1),
    (bytes(range(0xC2, 0xE0)), 2),
    (bytes(range(0xE0, 0xF0)), 4),
    (bytes(range(0xF0, 0xF5)), 8),
]
_BEGINS_JSON = re.compile(r"\s*[\[{]")
_FENCE = re.compile(r"^ {0,3}(?:`{3,}|~{3,}).*$", re.MULTILINE)
_DEPTH = 50


def estimated_tokens(text: str) -> int:
    """An estimate of a model's tokens for the text.

    A Latin letter or blank takes a quarter of a token, a digit or sign a half. In other scripts, a letter
    takes a half (Cyrillic, Arabic) or one (Chinese, Hindi); an emoji takes two. For English, code, JSON and
    logs, the estimate is 0.8 to 1.2 times the count of cl100k, o200k and the tokenizer of Claude 2. For other
    scripts it is half to twice that count, and for Hindi up to three times the count of the newest
    tokenizers.
    """
    data = text.encode("utf-8", "surrogatepass")
    return -(-sum((len(data) - len(data.translate(None, kind))) * weight for kind, weight in _WEIGHTS) // 4)


def character_limit(budget: Budget, text: str) -> int | None:
    """The number of characters to which the text must be shortened; None if it is within the budget."""
    limits: list[int] = []
    if budget.characters is not None and len(text) > budget.characters:
        limits.append(budget.characters)
    tokens = budget.tokens
    # No character counts less than a quarter: longer text need not be counted.
    if tokens is not None and (len(text) > 4 * tokens or estimated_tokens(text) > tokens):
        most = min(len(text), 4 * tokens)
        counts = range(most + 1)
        limits.append(bisect_right(counts, tokens, key=lambda n: estimated_tokens(_ends(text, n))) - 1)
    return max(MINIMUM, min(limits)) if limits else None


def fitted(text: str, characters: int, kept_as: str | None, *, start: int = 0) -> str:
    """The text in at most that many characters; the same object if it fits.

    `kept_as` is the id under which `read_result` finds the full text, `start` the offset of this text in it.
    """
    characters = max(characters, MINIMUM)
    if len(text) <= characters:
        return text
    value = parsed_json(text)
    if value is None:
        return _head_and_tail(text, characters, kept_as, start)
    if _size(value, characters) <= characters:
        return _compact(value)  # only the whitespace was too much
    return _noted_json(text, value, characters, kept_as, start)


def fitted_blocks(blocks: _Blocks, budget: Budget, kept_as: str | None) -> _Blocks:
    """The blocks with all their text within the budget: short ones whole, the others share the rest.

    `kept_as` is the id of `ToolResult(content=blocks).text`.
    """
    limit = character_limit(budget, ToolResult(content=blocks).text)
    fitting = blocks
    while limit is not None:
        fitting = _divided(blocks, limit, kept_as)
        text = ToolResult(content=fitting).text
        if limit <= MINIMUM or budget.tokens is None or character_limit(budget, text) is None:
            break
        # Shortened JSON has more tokens per character than its ends had.
        limit = max(MINIMUM, min(limit * 9 // 10, limit * budget.tokens // estimated_tokens(text)))
    return fitting


def _divided(blocks: _Blocks, limit: int, kept_as: str | None) -> _Blocks:
    lengths = [len(block.text) for block in blocks if isinstance(block, Text)]
    needs = [min(length, MINIMUM) + 1 for length in lengths]
    count, needed, room = len(needs), sum(needs), limit
    if needed > limit:
        all_of_it = sum(lengths) + count
        room -= len(_marker(all_of_it, 0, kept_as, all_of_it))  # in place of the last blocks
        while needed > room:
            count -= 1
            needed -= needs[count]
    shares = fair_shares(lengths[:count], room - count)
    shown: list[Text | Image | Audio] = []
    start = place = 0
    for block in blocks:
        if not isinstance(block, Text):
            shown.append(block)
            continue
        if place < count:
            text = fitted(block.text, shares[place], kept_as, start=start)
            same = text is block.text
            shown.append(block if same else Text(text=text, annotations=block.annotations, meta=block.meta))
        elif place == count:
            missing = sum(lengths[count:]) + len(lengths) - count - 1
            shown.append(Text(text=_marker(missing, 0, kept_as, start)))
        place += 1
        start += len(block.text) + 1
    return tuple(shown)


def fair_shares(needs: Sequence[int], room: int) -> list[int]:
    """The share of the room for each one: small ones all they need, the others equal parts of the rest."""
    shares = [0] * len(needs)
    for rank, index in enumerate(sorted(range(len(needs)), key=needs.__getitem__)):
        shares[index] = min(needs[index], room // (len(needs) - rank))
        room -= shares[index]
    return shares


def _ends(text: str, count: int) -> str:
    return text[: count * 3 // 4] + text[len(text) - count // 4 :]


def _head_and_tail(text: str, characters: int, kept_as: str | None, start: int) -> str:
    length = len(text)
    room = characters - len(_marker(length, length, kept_as, start + length)) - 2
    head = room * 3 // 4
    tail = length - room // 4
    near = head - max(head // 8, min(head // 2, 80))
    head = text.rfind("\n", near, head) + 1 or text.rfind(" ", near, head) + 1 or head
    near = tail + max((length - tail) // 8, min((length - tail) // 2, 80))
    tail = text.find("\n", tail - 1, near) + 1 or text.find(" ", tail - 1, near) + 1 or tail
    head, tail = _between(text, head, -1), _between(text, tail, 1)
    marker = _marker(tail - head, text.count("\n", head, tail), kept_as, start + head)
    gap = "" if head == 0 or text[head - 1] == "\n" else "\n"
    return f"{text[:head]}{gap}{marker}\n{text[tail:]}"


def _marker(missing: int, lines: int, kept_as: str | None, offset: int) -> str:
    amount = f"{missing:,} characters" + (f" ({lines:,} lines)" if lines > 1 else "")
    way = f'; read_result(id="{kept_as}", offset={offset}) reads on' if kept_as else ""
    return f"[... {amount} left out{way} ...]"


def _between(text: str, at: int, step: int) -> int:
    """The next position, going by `step`, outside any multi-character symbol or code fence."""
    for _ in range(64):  # accents can be stacked without end
        if not (0 < at < len(text) and _is_joined(text[at - 1], text[at])):
            break
        at += step
    for fence in _FENCE.finditer(text, max(0, at - 200), at + 200):
        if fence.start() < at < fence.end():
            return fence.start() if step < 0 else min(fence.end() + 1, len(text))
    return at


def _is_joined(before: str, after: str) -> bool:
    return (
        before in "\u200c\u200d"
        or after in "\u200c\u200d"
        or unicodedata.category(after).startswith("M")
        or "\U0001f3fb" <= after <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= after <= "\U000e007f"  # tags of a flag
        or ("\U0001f1e6" <= before <= "\U0001f1ff" and "\U0001f1e6" <= after <= "\U0001f1ff")
        or ("\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff")
        or before + after == "\r\n"
    )


def parsed_json(text: str) -> JSON:
    """The value of a text that is a JSON object or array; None for any other."""
    if not _BEGINS_JSON.match(text):
        return None
    try:
        value = json.loads(text, parse_float=_number, parse_constant=str)
    except (ValueError, RecursionError):
        return None
    # Written again, an escaped character would be hidden.
    return cleaned_json(value) if "\\u" in text else value


def _number(literal: str) -> float | str:
    """The number, or its literal if a float cannot hold it: "Infinity" is not JSON."""
    number = float(literal)
    return number if math.isfinite(number) else literal


def _compact(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _size(value: JSON, cap: int, depth: int = 0) -> int:
    """The length as compact JSON; above the cap, only some number above it."""
    if isinstance(value, str):
        return len(value) + 2 if len(value) > cap else len(_compact(value))
    if not _is_container(value):
        return len(repr(value))
    if depth >= _DEPTH:
        return cap + 1
    total = max(2, len(value) + 1)
    for child in value:
        if total > cap:
            break
        if isinstance(value, dict):
            total += len(_compact(child)) + 1 + _size(value[child], cap - total, depth + 1)
        else:
            total += _size(child, cap - total, depth + 1)
    return total


def _is_container(value: JSON) -> TypeGuard[_Container]:
    return isinstance(value, dict | list)


def _noted_json(text: str, value: JSON, characters: int, kept_as: str | None, start: int) -> str:
    label = ""
    if isinstance(value, dict):
        key = "_left_out"
        while key in value:
            key += "_"
        label = f'"{key}":'
    way = f"; read_result(id='{kept_as}', offset={start}) reads the whole" if kept_as else ""

    def note(shown: int) -> str:
        missing = max(0, len(text) - shown)
        return f'{label}"about {missing:,} of {len(text):,} characters left out{way}"'

    body = _cut(value, characters - len(note(0)) - 1, 0)
    return f"{body[:-1]},{note(len(body))}{body[-1]}"


def _cut(value: JSON, room: int, depth: int) -> str:
    """The value as JSON of at most that many characters (at least five)."""
    if _size(value, room, depth) <= room:
        return _compact(value)
    if isinstance(value, str):
        return _cut_string(value, room)
    return _cut_container(value, room, depth) if _is_container(value) else '"..."'


def _cut_string(text: str, room: int) -> str:
    def note(missing: int) -> str:
        return f"... [{missing:,} more characters]" if room >= 80 else "..."

    keep = room - 2 - len(note(len(text)))
    head = text[:keep]
    if len(_compact(head)) - 2 > keep:  # escapes take more than one character
        keep = bisect_right(range(keep + 1), keep, key=lambda count: len(_compact(head[:count])) - 2) - 1
    keep = _between(text, keep, -1)
    return _compact(text[:keep] + note(len(text) - keep))


def _cut_container(value: _Container, room: int, depth: int) -> str:
    note = len(_more(value, 0)) + 1
    if depth >= _DEPTH or room < note + 2:
        stub = f'"{len(value):,} {"keys" if isinstance(value, dict) else "items"} ..."'
        return stub if len(stub) <= room else '"..."'
    inner = room - 2
    kept = _first_children(value, inner, note, depth)
    if len(kept) < len(value):
        inner -= note
    inner -= sum(len(label) + 1 for label, _, _ in kept)
    shares = fair_shares([size for _, _, size in kept], inner)
    parts = [
        label + _cut(item, share, depth + 1) for (label, item, _), share in zip(kept, shares, strict=True)
    ]
    if len(kept) < len(value):
        parts.append(_more(value, len(kept)))
    joined = ",".join(parts)
    return f"{{{joined}}}" if isinstance(value, dict) else f"[{joined}]"


def _more(value: _Container, shown: int) -> str:
    """The entry that replaces those that are not shown."""
    count = f"{len(value) - shown:,}"
    return f'"... {count} more keys":"left out"' if isinstance(value, dict) else f'"... {count} more items"'


def _first_children(value: _Container, room: int, note: int, depth: int) -> list[tuple[str, JSON, int]]:
    """Label, value and size of the first children that can be shown at a useful length, with a note."""
    # A key is useful in a few characters; half a list item is not.
    least = max(40, room // 400) if isinstance(value, dict) else max(min(200, room // 3), room // 40)
    kept: list[tuple[str, JSON, int]] = []
    used = total = 0
    cap = room
    for child in value:
        label, item = (f"{_key(child)}:", value[child]) if isinstance(value, dict) else ("", child)
        size = _size(item, cap, depth + 1)
        kept.append((label, item, size))
        used += len(label) + 1 + min(size, least)
        if used > room:
            break
        total += min(size, cap)
        if total > 2 * room:  # then none gets half the cap: no need to measure the others further
            cap //= 2
            total = sum(min(size, cap) for _, _, size in kept)
    else:
        return kept
    while used > room - note:
        label, _, size = kept.pop()
        used -= len(label) + 1 + min(size, least)
    return kept


def _key(key: str) -> str:
    return _compact(key) if len(key) <= 100 else _cut_string(key, 100)
