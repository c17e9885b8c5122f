"""Change one value in the text of a TOML document, and keep every other line.

The standard library cannot write TOML; only a few kinds of lines are needed here. The caller checks the
result.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from toolbus.config.editing.yaml_json import Steps, by_hand
from toolbus.config.location import is_list, is_mapping
from toolbus.core.records import JSON

_Span: TypeAlias = tuple[int, int]
"""The first line, and the line after the last."""


def add(text: str, steps: Steps, pairs: Mapping[str, JSON]) -> str:
    """The text with new pairs in the table at `steps`; a mapping becomes a table at the end of the file."""
    lines = text.splitlines(keepends=True)
    newline = _newline(text)
    plain = [
        f"{_key(key)} = {_inline(value)}{newline}" for key, value in pairs.items() if not is_mapping(value)
    ]
    tables = [_table((*steps, key), value, newline) for key, value in pairs.items() if is_mapping(value)]
    if plain:
        spans = [span for own, span in _sections(lines) if own == steps]
        if not spans:
            raise by_hand("its layout cannot be kept")
        at = _end_of_content(lines, *spans[0])
        lines = [*_ended(lines[:at], newline), *plain, *lines[at:]]
    if tables:
        lines = [*_ended(lines, newline), newline if text.strip() else "", newline.join(tables)]
    return "".join(lines)


def replace(text: str, steps: Steps, value: JSON) -> str:
    """The text with another value at `steps`."""
    lines = text.splitlines(keepends=True)
    for own, (first, last) in _sections(lines):
        span = _line_of(lines, first, last, str(steps[-1])) if own == steps[:-1] else None
        if span is not None:
            rest = re.search(r"\s*(?:#[^\"']*)?$", lines[span[0]]) if span[1] == span[0] + 1 else None
            shown = f"{_key(steps[-1])} = {_inline(value)}{rest[0] if rest else _newline(text)}"
            return "".join([*lines[: span[0]], shown, *lines[span[1] :]])
    raise by_hand("its layout cannot be kept")


def drop(text: str, steps: Steps) -> str:
    """The text without the value at `steps`; comments above it are kept."""
    lines = text.splitlines(keepends=True)
    gone: list[_Span] = []
    before = -1
    for number, (own, (first, last)) in enumerate(_sections(lines)):
        if own[: len(steps)] == steps:
            start = gone.pop()[0] if before == number - 1 else first
            gone.append((start, _end_of_content(lines, first, last)))
            before = number
        elif own == steps[:-1] and (span := _line_of(lines, first, last, str(steps[-1]))) is not None:
            gone.append(span)
    if not gone:
        raise by_hand("its layout cannot be kept")
    for first, last in reversed(gone):
        while first and last < len(lines) and not lines[last].strip() and not lines[first - 1].strip():
            last += 1
        while last == len(lines) and first and not lines[first - 1].strip():
            first -= 1
        del lines[first:last]
    after = "".join(lines)
    holder: JSON = tomllib.loads(after)
    for step in steps[:-1]:
        holder = holder.get(step) if is_mapping(holder) else None
    if holder is None:
        newline = _newline(text)
        after = "".join([*_ended(lines, newline), f"[{'.'.join(map(_key, steps[:-1]))}]{newline}"])
    return after


def document(steps: Steps, value: Mapping[str, JSON]) -> str:
    """A document with this one table."""
    return _table(steps, value, "\n")


def _sections(lines: list[str]) -> Iterator[tuple[Steps, _Span]]:
    """Each table by its steps, the root first. A line of a multi-line string may look like a table header;
    the caller's check detects that.
    """
    starts: list[tuple[Steps, int]] = [((), 0)]
    for number, line in enumerate(lines):
        if re.match(r"\s*\[", line):
            try:
                header: JSON = tomllib.loads(line)
            except tomllib.TOMLDecodeError:
                continue  # a line inside a list
            way: list[str | int] = []
            while is_mapping(header) and header:
                key, header = next(iter(header.items()))
                way.append(key)
            starts.append((tuple(way), number))
    ends = [number for _, number in starts[1:]] + [len(lines)]
    yield from ((way, (first, last)) for (way, first), last in zip(starts, ends, strict=True))


def _line_of(lines: list[str], first: int, last: int, key: str) -> _Span | None:
    """The lines of the key and its value: as many as it takes to parse."""
    for number in range(first, last):
        if re.match(rf"\s*(?:{re.escape(key)}|{re.escape(json.dumps(key))})\s*=", lines[number]):
            for end in range(number + 1, last + 1):
                try:
                    tomllib.loads("".join(lines[number:end]))
                except tomllib.TOMLDecodeError:
                    continue
                return number, end
    return None


def _end_of_content(lines: list[str], first: int, last: int) -> int:
    """The line after the last content; comments after it belong to the next table."""
    while last > first and (not lines[last - 1].strip() or lines[last - 1].lstrip().startswith("#")):
        last -= 1
    return last


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _ended(lines: list[str], newline: str) -> list[str]:
    return [*lines[:-1], lines[-1].rstrip("\r\n") + newline] if lines else []


def _table(steps: Steps, value: Mapping[str, JSON], newline: str) -> str:
    """A table, followed by one for each mapping in it."""
    plain = [f"{_key(key)} = {_inline(one)}" for key, one in value.items() if not is_mapping(one)]
    inner = [_table((*steps, key), one, newline) for key, one in value.items() if is_mapping(one)]
    head = [f"[{'.'.join(map(_key, steps))}]"] if plain or not inner else []
    own = [newline.join([*head, *plain, ""])] if head else []
    return newline.join([*own, *inner])


def _inline(value: JSON) -> str:
    if is_mapping(value):
        return "{" + ", ".join(f"{_key(key)} = {_inline(one)}" for key, one in value.items()) + "}"
    if is_list(value):
        return f"[{', '.join(map(_inline, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _key(key: str | int) -> str:
    text = str(key)
    return text if re.fullmatch(r"[A-Za-z0-9_-]+", text) else json.dumps(text, ensure_ascii=False)
