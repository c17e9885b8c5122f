"""Replace names that a provider rejects with ones that it accepts, the same on every run."""

from collections.abc import Set
from hashlib import sha256

from toolbus.core.values.records import JSON
from toolbus.schema.values import is_array, is_object
from toolbus.shape.dialects.rules import NameRule


def legal_name(name: str, rule: NameRule, taken: Set[str] = frozenset()) -> str:
    """The name if it is legal, else the most similar legal one that is not taken."""
    if rule.legal.fullmatch(name):
        return name
    plain = rule.illegal.sub("_", name)
    if not rule.legal.fullmatch(plain[:1] or "_"):
        plain = f"_{plain}"
    if rule.legal.fullmatch(plain) and plain not in taken:
        return plain
    # Digest of the name, not a counter, so that the order of properties does not matter.
    return f"{plain[: rule.longest - 9]}_{sha256(name.encode(errors='replace')).hexdigest()[:8]}"


class PropertyNames:
    """The provider's names for all properties of one schema; two never become the same."""

    __slots__ = ("_chosen", "_root", "_rule", "_taken")

    def __init__(self, rule: NameRule | None, root: JSON) -> None:
        self._rule = rule
        self._root = root
        self._chosen: dict[str, str] = {}
        self._taken: set[str] | None = None

    def __getitem__(self, name: str) -> str:
        if self._rule is None or self._rule.legal.fullmatch(name):
            return name
        if name not in self._chosen:
            if self._taken is None:
                self._taken = _all_keys(self._root)
            self._chosen[name] = legal_name(name, self._rule, self._taken)
            self._taken.add(self._chosen[name])
        return self._chosen[name]


def _all_keys(root: JSON) -> set[str]:
    found: set[str] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if is_object(node):
            found.update(node)
            waiting.extend(node.values())
        elif is_array(node):
            waiting.extend(node)
    return found
