"""Change one value in the text of a TOML document, and keep every other line.

tomlkit parses and writes. Two things are done here. Comments above a table stay there, although tomlkit
treats them as the end of the previous table. Arrays of tables stay where they are, although tomlkit would
merge them. The caller checks the result.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

from toolbus.config.editing.yaml_json import Steps, by_hand
from toolbus.config.location import is_list, is_mapping
from toolbus.core.values.records import JSON

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

_GONE = "\0"
"""A marker in place of a removed value; a TOML document cannot contain it."""


def _edit(change: Callable[..., str]) -> Callable[..., str]:
    """An edit of a text with any line ends, with or without a byte order mark."""

    @wraps(change)
    def edited(text: str, *args: Any) -> str:
        mark = "\ufeff" if text.startswith("\ufeff") else ""
        is_crlf = "\n" not in text.replace("\r\n", "")
        try:
            after = change(text.removeprefix(mark), *args)
        except (ValueError, TypeError, LookupError, AttributeError):  # tomlkit's own errors are ValueErrors
            raise by_hand("its layout cannot be kept") from None
        return mark + (
            after.replace("\r\n", "\n").replace("\n", "\r\n") if is_crlf and "\r" in text else after
        )

    return edited


@_edit
def add(text: str, steps: Steps, pairs: Mapping[str, JSON]) -> str:
    """The text with new pairs in the table at `steps`; a mapping becomes a table at the end of the file."""
    from tomlkit.items import InlineTable

    pieces = _parsed(text)
    holder = next((part for part in _found(pieces, steps) if _takes_pairs(part)), None)
    inline = isinstance(holder, InlineTable) or any(isinstance(step, int) for step in steps)
    at_end: dict[str, JSON] = {}
    for key, value in pairs.items():
        if holder is None or (is_mapping(value) and not inline):
            at_end[key] = value
        else:
            tail = _cut_tail(holder)
            holder.append(key, _inline(value))
            _body(holder).extend(tail)
    after = _joined(pieces)
    if not at_end:
        return after
    gap = "\n" * (2 - after.endswith("\n")) if after.strip() else ""
    return after + gap + document(steps, at_end)


@_edit
def replace(text: str, steps: Steps, value: JSON) -> str:
    """The text with another value at `steps`; a list that only grows keeps its layout."""
    pieces = _parsed(text)
    for holder in _found(pieces, steps[:-1]):
        if steps[-1] in holder:
            old: JSON = holder[steps[-1]]
            if is_list(old) and is_list(value) and value[: len(old)] == old:
                for item in value[len(old) :]:
                    holder[steps[-1]].append(item)
            else:
                holder[steps[-1]] = _inline(value)
            return _joined(pieces)
    raise KeyError(steps[-1])


@_edit
def append(text: str, steps: Steps, value: JSON) -> str:
    """The text with another item at the end of the list at `steps`."""
    pieces = _parsed(text)
    for holder in _found(pieces, steps[:-1]):
        if steps[-1] in holder:
            holder[steps[-1]].append(value)
            return _joined(pieces)
    raise KeyError(steps[-1])


@_edit
def drop(text: str, steps: Steps) -> str:
    """The text without the value at `steps`; comments above it are kept, and the table it was in."""
    pieces = _parsed(text)
    for holder in _found(pieces, steps[:-1]):
        _drop_from(holder, steps[-1])
    before, *rest = _joined(pieces).split(_GONE)
    for after in rest:
        if not before.strip() or before.endswith(("\n\n", "\n\r\n")):
            after = after.lstrip("\r\n")
        before = before.rstrip() + "\n" if not after.strip() and before.strip() else before + after
    if next(_found(_parsed(before), steps[:-1]), None) is None:
        before += document(steps[:-1], {})
    return before


def document(steps: Steps, value: Mapping[str, JSON]) -> str:
    """A document with this one table."""
    import tomlkit

    nested: JSON = value
    for step in reversed(steps):
        nested = {str(step): nested}
    return tomlkit.dumps(nested)


def _parsed(text: str) -> "list[TOMLDocument]":
    """The document; in pieces if tomlkit would change the order of its arrays of tables."""
    import tomlkit

    whole = tomlkit.parse(text)
    if whole.as_string() == text:
        return [whole]
    pieces = [tomlkit.parse(piece) for piece in re.split(r"(?m)^(?=[ \t]*\[\[)", text)]
    if _joined(pieces) != text:
        raise ValueError("tomlkit would change the text")
    return pieces


def _joined(pieces: "list[TOMLDocument]") -> str:
    return "".join(piece.as_string() for piece in pieces)


def _found(pieces: "list[TOMLDocument]", steps: Steps) -> Iterator[Any]:
    if len(pieces) > 1 and any(isinstance(step, int) for step in steps):
        raise ValueError("the tables of an array are in several pieces")
    return chain.from_iterable(_parts(piece, steps) for piece in pieces)


def _inline(value: JSON) -> Any:
    import tomlkit

    if not is_mapping(value):
        return cast(Any, tomlkit.item(value))
    table = tomlkit.inline_table()
    for key, one in value.items():
        table.append(str(key), _inline(one))
    return table


def _body(holder: Any) -> list[tuple[Any, Any]]:
    """The parts of a table or a document, in order: keys with their values, comments, blank lines."""
    return holder.body if hasattr(holder, "body") else holder.value.body


def _parts(holder: Any, steps: Steps) -> Iterator[Any]:
    """Each part of the value at `steps`: the lines of a table may be apart."""
    if not steps:
        yield holder
    elif isinstance(steps[0], int):
        yield from _parts(holder[steps[0]], steps[1:])
    else:
        for key, value in _body(holder):
            if key is not None and key.key == steps[0]:
                yield from _parts(value, steps[1:])


def _takes_pairs(holder: Any) -> bool:
    """Whether it has lines of its own; a table that only headers of its tables name has none."""
    from tomlkit.items import AoT, Table

    if not isinstance(holder, Table) or not holder.is_super_table():
        return True
    return any(key is not None and not isinstance(value, Table | AoT) for key, value in _body(holder))


def _drop_from(holder: Any, step: str | int) -> None:
    from tomlkit.items import InlineTable, Whitespace

    if isinstance(step, int):
        tail = _cut_tail(holder[step])
        del holder[step]
        if tail and step:
            _body(holder[step - 1]).extend(tail)
        elif tail:  # above the table that is the first now
            holder[0].trivia.indent = "".join(item.as_string() for _, item in tail) + holder[0].trivia.indent
    elif isinstance(holder, InlineTable):
        holder.remove(step)
    else:
        body = _body(holder)
        for place, (key, value) in enumerate(body):
            if key is not None and key.key == step:
                tail = "".join(item.as_string() for _, item in _cut_tail(value))
                body[place] = (None, Whitespace(_GONE + tail))


def _cut_tail(item: Any) -> list[tuple[Any, Any]]:
    """Take the comments and blank lines from the end of a table."""
    from tomlkit.items import AoT, Table

    while isinstance(item, AoT):
        item = item[-1]
    if not isinstance(item, Table):
        return []
    body = _body(item)
    if body and isinstance(body[-1][1], Table | AoT):
        return _cut_tail(body[-1][1])
    start = len(body)
    while start and body[start - 1][0] is None:
        start -= 1
    tail = body[start:]
    del body[start:]
    return tail
