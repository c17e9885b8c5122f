"""Full results, stored until the bus closes, so that a model can read the rest of one that was cut.

`READ_RESULT` is the tool for the model; `ResultStore.read` implements it. It always returns a text; only an
argument of the wrong type raises, with a message for the model.
"""

import hashlib
import re
import secrets
from collections import Counter, OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import TypeAlias

from toolbus.core.operation.operation import JOURNAL
from toolbus.core.values.records import JSON, OWN, Origin, ToolSpec

CAPACITY = 50_000_000
"""The number of characters to store at most, of all results together."""
MAX_CHARACTERS = 40_000
"""The number of characters that one read returns at most: the default budget of a result."""
_DEFAULT_LIMIT = 20_000
_MAX_MATCHES = 10
_CONTEXT = 200
"""Characters of context on each side of a match; fewer if two lines are shorter."""

Owner: TypeAlias = tuple[str, ...]
"""The owner of a result, who may read it: the user and session that called the tool."""

READ_RESULT = ToolSpec(
    name="read_result",
    origin=Origin(OWN, "read_result"),
    route="toolbus/read_result",
    title="Read more of a long result",
    description=(
        "Reads a tool result that was too long to be shown whole. Give the id from its note "
        '"[... left out; read_result(...) reads on ...]" and an offset to read on from, or a text to find.'
    ),
    input_schema={
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": "The id of the result, from its note."},
            "offset": {
                "type": "integer",
                "minimum": 0,
                "default": 0,
                "description": "The character to begin at.",
            },
            "limit": {
                "type": "integer",
                "minimum": 1,
                "default": _DEFAULT_LIMIT,
                "description": f"How many characters to read, at most {MAX_CHARACTERS:,}.",
            },
            "find": {
                "type": "string",
                "description": "Show where this text is, from the offset on, in upper or lower case.",
            },
        },
        "required": ["id"],
        "additionalProperties": False,
    },
    annotations={
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": False,
    },
    trusted=True,
)


def _id_of(text: str) -> str:
    """An id that nobody can guess; in a durable run the same again, because its model knows it."""
    if JOURNAL.get() is None:
        return f"r{secrets.token_hex(6)}"
    return f"r{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:12]}"


class ResultStore:
    """The texts of full results, each for its owner alone.

    Beyond the capacity, the oldest of the user who has the most are dropped, and nobody else's.
    """

    def __init__(self, capacity: int = CAPACITY, new_id: Callable[[str], str] = _id_of) -> None:
        self._capacity = capacity
        self._new_id = new_id
        self._texts: OrderedDict[tuple[Owner, str], str] = OrderedDict()
        self._sizes: Counter[Owner] = Counter()
        """The characters of each user, in all sessions."""
        # Long results come from threads.
        self._lock = Lock()

    def keep(self, text: str, owner: Owner = ()) -> str | None:
        """Store a text and return its id; None if there is no room for it."""
        if len(text) > self._capacity:
            return None  # it would only push out all the others
        id_ = self._new_id(text)
        with self._lock:
            self._sizes[_user(owner)] += len(text) - len(self._texts.pop((owner, id_), ""))
            self._texts[owner, id_] = text
            while self._sizes.total() > self._capacity:
                most = max(self._sizes, key=self._sizes.__getitem__)
                oldest = next(key for key in self._texts if _user(key[0]) == most)
                self._sizes[most] -= len(self._texts.pop(oldest))
            return id_ if (owner, id_) in self._texts else None

    # The parameters are those of the tool, so that its arguments can be passed unchanged.
    def read(
        self,
        id: str,  # noqa: A002
        offset: int | None = 0,
        limit: int | None = _DEFAULT_LIMIT,
        find: str | None = None,
        *,
        owner: Owner = (),
    ) -> str:
        """A part of a stored text after a line that names it, or the matches of `find`.

        Raises ValueError if an argument has the wrong type.
        """
        key = _checked_text("id", id)
        start = _checked_number("offset", offset, 0, default=0)
        count = min(_checked_number("limit", limit, 1, default=_DEFAULT_LIMIT), MAX_CHARACTERS)
        text = self._texts.get((owner, key))
        if text is None:
            return self._unknown(owner, key)
        if find is not None and _checked_text("find", find):
            return _found(key, text, find, start, count)
        return _window(key, text, start, count)

    def _unknown(self, owner: Owner, key: str) -> str:
        with self._lock:
            latest = ", ".join([id_ for whose, id_ in self._texts if whose == owner][-5:])
        return f"[unknown result {key[:40]!r}; " + (
            f"the latest are {latest}. Newer results replace old ones: call the tool again, and ask for less]"
            if latest
            else "no results are stored]"
        )


def _user(owner: Owner) -> Owner:
    """The user of an owner, without the session: one who opens many gets no more room."""
    return owner[:-1]


def _window(key: str, text: str, start: int, count: int) -> str:
    if start >= len(text):
        return f"[{key} has {len(text):,} characters; nothing is at offset {start}]"
    end = min(start + count, len(text))
    if end < len(text):
        # At the end of a line, if one is near.
        end = text.rfind("\n", end - count // 10, end) + 1 or end
    on = f'read_result(id="{key}", offset={end}) reads on' if end < len(text) else "this is the end"
    return f"[{key}: characters {start:,} to {end:,} of {len(text):,}; {on}]\n{text[start:end]}"


def _found(key: str, text: str, find: str, start: int, count: int) -> str:
    parts: list[str] = []
    shown = end = length = 0
    rest = ""
    places = re.compile(re.escape(find), re.IGNORECASE).finditer(text, start)
    for place in places:
        if place.end() > end:  # not in the context of the previous match
            low, high = _around(text, *place.span())
            part = f"[offset {place.start()}]\n{text[max(low, end) : high]}"
            length += len(part)
            if parts and (len(parts) == _MAX_MATCHES or length > count):
                more = 1 + sum(1 for _ in places)
                rest = f"\n[and {more:,} more, from offset {place.start()} on]"
                shown += more
                break
            parts.append(part)
            end = high
        shown += 1
    sought = find if len(find) <= 80 else f"{find[:80]}..."
    where = f"{len(text):,} characters" + (f" from offset {start} on" if start else "")
    if not parts:
        return f"[{key}: {sought!r} does not occur in its {where}]"
    header = f"[{key}: {sought!r} is in {shown:,} place{'' if shown == 1 else 's'} of its {where}]"
    return "\n".join([header, *parts]) + rest


def _around(text: str, first: int, last: int) -> tuple[int, int]:
    """The start and end of the context: two lines before and after, fewer if they are long."""
    low, high = max(0, first - _CONTEXT), min(len(text), last + _CONTEXT)
    before = first
    for _ in range(3):
        before = text.rfind("\n", low, before) if before > low else -1
    after = last
    for _ in range(3):
        after = text.find("\n", after, high) + 1 if after else 0
    return (before + 1 if before >= 0 else low), (after - 1 if after else high)


def _checked_text(name: str, value: JSON) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a string, not {value!r:.60}")
    return value


def _checked_number(name: str, value: JSON, least: int, *, default: int) -> int:
    if value is None:
        return default
    # In JSON Schema, 7.0 is an integer and true is not.
    is_whole = isinstance(value, int | float) and not isinstance(value, bool) and value % 1 == 0
    if not is_whole or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r:.60}")
    return int(value)
