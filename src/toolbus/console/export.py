"""Files that pages export: JSON, and CSV whose texts no spreadsheet runs."""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from toolbus.console.page import Download
from toolbus.core.values.records import JSON

Cell: TypeAlias = str | int | float | bool | None
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""The beginnings of formulas, including full-width signs that spreadsheets accept."""


def exported(name: str, form: str, columns: Sequence[str], rows: Iterable[Mapping[str, Cell]]) -> Download:
    """A file with these rows: JSON if `form` says so, else CSV with these columns."""
    if form == "json":
        return Download(name=f"{name}.json", kind="application/json", content=json_file(list(rows)))
    return Download(name=f"{name}.csv", kind="text/csv; charset=utf-8", content=csv_file(columns, rows))


def json_file(value: JSON) -> bytes:
    return json.dumps(value, ensure_ascii=True, indent=1, default=str).encode() + b"\n"


def csv_file(columns: Sequence[str], rows: Iterable[Mapping[str, Cell]]) -> bytes:
    """A table with a heading; a text that a spreadsheet would run gets an apostrophe in front."""
    written = io.StringIO(newline="")
    writer = csv.writer(written)
    writer.writerow(columns)
    writer.writerows([_harmless(row.get(column)) for column in columns] for row in rows)
    return written.getvalue().encode(errors="replace")


def _harmless(value: Cell) -> Cell:
    if value is None:
        return ""
    # A NUL ends what some programs read of a cell.
    text = value.replace("\0", "\ufffd") if isinstance(value, str) else value
    return f"'{text}" if isinstance(text, str) and text.lstrip(" ").startswith(_FORMULA) else text
