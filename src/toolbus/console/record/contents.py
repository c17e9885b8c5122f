"""Arguments and results as they are kept: as JSON, without secrets, and of bounded size."""

import json
from collections.abc import Mapping

from toolbus.config.location import is_list, is_mapping
from toolbus.config.secrets.redact import head_by_all, names_credential, redacted_by_all
from toolbus.config.secrets.reference import MASK
from toolbus.core.text.encoding import as_sent, contents_json
from toolbus.core.values.records import JSON, ToolResult

LONGEST_ARGUMENTS = 16_000
LONGEST_RESULT = 64_000
"""In characters, about: the rest is left out, and the JSON stays JSON."""
LONGEST_NAME = 200
LEFT_OUT = "(left out)"
_SMALLEST = 8
"""The fewest characters that are subtracted for a value."""


class _Bounded:
    """A copy of a value of bounded size, without what its keys call a credential."""

    def __init__(self, most: int) -> None:
        self._left = most
        self.is_cut = False

    def __call__(self, value: JSON, key: str = "") -> JSON:
        if self._left <= 0:
            self.is_cut = True
            return LEFT_OUT
        self._left -= _SMALLEST
        if isinstance(value, str):
            return self._text(value, key)
        if is_mapping(value):
            return {self._name(name): self(one, name) for name, one in self._taken(value).items()}
        if is_list(value):
            return [self(one, key) for one in value[: 1 + max(0, self._left // _SMALLEST)]]
        return value if isinstance(value, bool | int | float | None) else type(value).__name__

    def _text(self, text: str, key: str) -> str:
        if key != "key" and names_credential(key):
            return MASK
        if len(text) <= self._left:
            self._left -= len(text)
            return text
        self.is_cut = True
        # Without the beginning of a secret where it is cut.
        kept, self._left = head_by_all(text, max(0, self._left)), 0
        return f"{kept}... ({len(text) - len(kept):,} more characters)"

    @staticmethod
    def _name(name: str) -> str:
        return name if len(name) <= LONGEST_NAME else head_by_all(name, LONGEST_NAME)

    def _taken(self, value: Mapping[JSON, JSON]) -> dict[str, JSON]:
        """As many items as there is room for."""
        most = 1 + max(0, self._left // _SMALLEST)
        self.is_cut = self.is_cut or len(value) > most
        return {str(name): one for name, one in list(value.items())[:most]}


def kept_arguments(arguments: Mapping[str, JSON]) -> str | None:
    """Arguments as JSON; None if JSON cannot express them."""
    return _kept(dict(arguments), LONGEST_ARGUMENTS)


def kept_result(result: ToolResult, route: str) -> str | None:
    """A result as JSON, as its server sent it."""
    try:
        sent = contents_json(result) if route == "resources/read" else as_sent(result)
    except (TypeError, ValueError):
        return None
    return _kept(sent, LONGEST_RESULT)


def _kept(value: JSON, most: int) -> str | None:
    try:
        bounded = _Bounded(most)
        shown = redacted_by_all(bounded(value))
        return json.dumps(shown, ensure_ascii=False, default=repr, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError, RuntimeError):  # it may change while it is read
        return None
