"""The fields of a query or a form, as a browser sends them."""

from collections.abc import Mapping
from urllib.parse import parse_qs

MOST_FIELDS = 1000
"""The fields of a query or a form."""


class Fields:
    """The fields of a query or a form."""

    def __init__(self, encoded: bytes = b"") -> None:
        """ValueError if there are too many, or if it is not text."""
        text = encoded.decode("ascii")
        self._values = parse_qs(text, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")

    @classmethod
    def of(cls, values: Mapping[str, list[str]]) -> "Fields":
        """The fields that were read before."""
        fields = cls()
        fields._values = {**values}
        return fields

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def get(self, name: str, default: str = "") -> str:
        """The value, or the first one of several."""
        return self._values.get(name, [default])[0]

    def all(self, name: str) -> list[str]:
        return self._values.get(name, [])

    @property
    def lists(self) -> Mapping[str, list[str]]:
        return self._values
