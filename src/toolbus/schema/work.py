"""How much work a schema may make, counted in steps, never in seconds: the same on every machine.

A step is a JSON value that is read, compared or written, or a few characters of text. References, `allOf` and
alternatives can multiply a small schema into a huge one, so a reader gets steps in proportion to the size of
the schema. Real schemas take a small part of them.
"""

import json

from toolbus.schema.keywords import part_kind
from toolbus.schema.values import JSON, Node, is_array, is_object

LEAST_STEPS = 10_000
"""For any schema."""
STEPS_PER_VALUE = 10
"""And for each value of the schema."""
_TEXT = 16
"""Characters that count as much as a value."""
_LARGEST = 20_000
"""The most that a value counts: a program may put the same object into a schema any number of times."""


class TooMuchWork(Exception):
    """A schema takes more steps than it may."""


class Work:
    """The steps that reading one schema may still take."""

    __slots__ = ("_sizes", "left", "most")

    def __init__(self, schema: JSON) -> None:
        """Allow steps in proportion to the size of a schema."""
        self.most = self.left = LEAST_STEPS + STEPS_PER_VALUE * size_of(schema)
        self._sizes: dict[int, tuple[Node, int]] = {}
        """Of nodes, by identity; they are kept, so that no other object gets it."""

    def allows(self, steps: int) -> bool:
        """Take so many steps; False if there are not enough left."""
        self.left -= steps
        return self.left >= 0

    def spend(self, steps: int) -> None:
        """Take so many steps; TooMuchWork if there are not enough left."""
        self.left -= steps
        if self.left < 0:
            raise TooMuchWork(f"it takes more than {self.most:,} steps to read")

    def spend_text(self, *lengths: int) -> None:
        """Take the steps of texts with these lengths."""
        self.spend(1 + sum(lengths) // _TEXT)

    def read(self, node: Node) -> None:
        """Take the steps of a node, without the schemas inside it."""
        known = self._sizes.get(id(node))
        if known is None:
            known = self._sizes[id(node)] = node, _own_size(node)
        self.spend(known[1])

    def written(self, value: JSON) -> str:
        """The value as JSON text, the same for equal values."""
        try:
            text = json.dumps(value, sort_keys=True)
        except RecursionError:  # nested too deeply to compare: it equals only itself
            text = f"{id(value)}"
        self.spend_text(len(text))
        return text

    def same(self, a: JSON, b: JSON) -> bool:
        """Whether two values are the same JSON; unlike `==`, keeps `true` and `1` apart."""
        if a is b:
            return True
        if type(a) is not type(b):
            return False
        return a == b if isinstance(a, str) else self.written(a) == self.written(b)


def size_of(value: JSON) -> int:
    """How many values a JSON value has, itself included, up to a limit; long texts count more."""
    size, waiting = 0, [value]
    while waiting and size < _LARGEST:
        item = waiting.pop()
        size += 1
        if isinstance(item, str):
            size += len(item) // _TEXT
        elif is_object(item):
            size += sum(map(len, item)) // _TEXT
            waiting.extend(item.values())
        elif is_array(item):
            waiting.extend(item)
    return min(size, _LARGEST)


def _own_size(node: Node) -> int:
    size = 1 + len(node)
    for key, value in node.items():
        kind = part_kind(key, value)
        if kind is None:
            size += size_of(value)
        elif kind != "one":
            size += len(value) + (sum(map(len, value)) // _TEXT if kind == "named" else 0)
    return size
