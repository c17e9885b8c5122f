"""Make a result smaller for a model: the fields that the config keeps, and records as a table.

A path names keys, separated by dots, and passes through lists: `labels.name` is the name of each label. It
begins at the result; if that is an object without any of the named keys, at the values in it.
"""

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from toolbus.core.values.records import JSON, Block, ResultShape, Text, ToolResult
from toolbus.schema.values import entries_of, is_array, is_object, items_of
from toolbus.shape.budget import estimated_tokens, parsed_json

Path: TypeAlias = tuple[str, ...]
_TABLE_SHARE = 0.9
"""The most that a table may take of the tokens of its records, or they stay as they are."""
_ANY = "*"


def smaller(result: ToolResult, shape: ResultShape) -> tuple[ToolResult, bool]:
    """The result with smaller texts, and whether something is missing; the same object if nothing is to do.

    The structured content stays: it is for programs.
    """
    values = [parsed_json(block.text) for block in result.content if isinstance(block, Text)]
    structured = result.structured
    inner = structured["result"] if list(entries_of(structured)) == ["result"] else structured
    if structured is not None and values in ([], [structured], [inner], inner):
        return _with_text(result, inner, shape)
    if len(values) > 1 and None not in values:  # a record each
        return _with_text(result, values, shape)
    return _each_smaller(result, shape)


def _each_smaller(result: ToolResult, shape: ResultShape) -> tuple[ToolResult, bool]:
    """Each text by itself; only those that are JSON change."""
    content: list[Block] = []
    lacks = False
    for block in result.content:
        value = parsed_json(block.text) if isinstance(block, Text) else None
        if value is None or not isinstance(block, Text):
            content.append(block)
            continue
        text, less = _written(value, shape)
        lacks = lacks or less
        content.append(block if text is None else replace(block, text=text))
    is_same = all(a is b for a, b in zip(content, result.content, strict=True))
    return (result, False) if is_same else (replace(result, content=tuple(content)), lacks)


def _with_text(result: ToolResult, value: JSON, shape: ResultShape) -> tuple[ToolResult, bool]:
    text, lacks = _written(value, shape)
    if text is None:
        return result, False
    others = (block for block in result.content if not isinstance(block, Text))
    return replace(result, content=(Text(text=text), *others)), lacks


def _written(value: JSON, shape: ResultShape) -> tuple[str | None, bool]:
    """The value as a smaller text, and whether something was left out; None if it stays as it is."""
    try:
        found = projected(value, shape.keep) if shape.keep else value
        text = _tabular(found) if shape.table else None
    except RecursionError:
        return None, False
    if text is None:
        return (None if found is value else _compact(found)), found is not value
    return text, found is not value


# Projection


def projected(value: JSON, keep: Sequence[str]) -> JSON:
    """The value with these paths only; the same object if it has none of them."""
    paths = [tuple(path.split(".")) for path in keep]
    if _has_any(value, paths):
        return _kept(value, paths)
    entries = entries_of(value)
    inside = {key: _kept(child, paths) if _has_any(child, paths) else child for key, child in entries.items()}
    return value if all(inside[key] is entries[key] for key in entries) else inside


def _has_any(value: JSON, paths: Sequence[Path]) -> bool:
    """Whether an object, or one in a list, has a key that a path begins with."""
    if is_array(value):
        return any(is_object(item) and _has_any(item, paths) for item in value)
    return any(path[0] == _ANY or path[0] in value for path in paths) if is_object(value) else False


def _kept(value: JSON, paths: Sequence[Path]) -> JSON:
    if is_array(value):
        return [_kept(item, paths) for item in value]
    if not is_object(value):
        return value
    found: dict[str, JSON] = {}
    for key, child in value.items():
        rests = [path[1:] for path in paths if path[0] in (key, _ANY)]
        if rests:
            found[key] = child if not all(rests) else _kept(child, rests)
    return found


# Tables


def _tabular(value: JSON) -> str | None:
    """The records in a value as tables, and the rest as JSON before them; None if that is not smaller."""
    if is_array(value):
        return table(value)
    entries = entries_of(value)
    tables = {key: text for key, child in entries.items() if (text := table(items_of(child))) is not None}
    if not tables:
        return None
    rest = {key: child for key, child in entries.items() if key not in tables}
    lines = [_compact(rest)] if rest else []
    return "\n".join([*lines, *(f"{key}:\n{text}" for key, text in tables.items())])


def table(records: Sequence[JSON]) -> str | None:
    """Flat records as CSV with a header; None if they are not flat, or if JSON takes about as little."""
    rows = [row for record in records if (row := _row(record))]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    if len(rows) < max(2, len(records)):
        return None
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([row.get(column, "") for column in columns] for row in rows)
    text = out.getvalue().rstrip("\n")
    return text if estimated_tokens(text) <= _TABLE_SHARE * estimated_tokens(_compact([*records])) else None


def _row(record: JSON) -> dict[str, str] | None:
    """The cells of a record; None if one would not be flat."""
    cells: dict[str, str] = {}
    for column, cell in _cells(entries_of(record), ""):
        if cell is None or column in cells:
            return None
        cells[column] = cell
    return cells


def _cells(entries: Mapping[str, JSON], prefix: str) -> Iterator[tuple[str, str | None]]:
    for key, value in entries.items():
        column = f"{prefix}{key}"
        if is_object(value) and value:
            yield from _cells(value, f"{column}.")
        elif is_array(value):
            yield _list_cell(column, value)
        else:
            yield column, _scalar(value)


def _list_cell(column: str, items: Sequence[JSON]) -> tuple[str, str | None]:
    """A list of plain values, or of records that have one plain value each."""
    names = {tuple(entries_of(item)) for item in items}
    if len(names) == 1 and len(name := names.pop()) == 1:
        column, items = f"{column}.{name[0]}", [item[name[0]] for item in items]
    if any(is_object(item) or is_array(item) for item in items):
        return column, None
    texts = [_scalar(item) for item in items]
    return column, None if any(", " in text for text in texts) else ", ".join(texts)


def _scalar(value: JSON) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None or value == {} else _compact(value)


def _compact(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
