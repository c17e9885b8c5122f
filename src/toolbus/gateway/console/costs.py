"""What the tools of a catalog cost in tokens; counted once for each definition."""

import logging
from collections.abc import Iterable, Mapping

from toolbus.core.records import ToolSpec
from toolbus.shape.cost import definition_tokens

logger = logging.getLogger("toolbus")


class Costs:
    """The tokens of tools, by provider."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[ToolSpec, Mapping[str, int]]] = {}
        """By the identity of a spec, which is kept so that no other object gets it."""

    def of(self, spec: ToolSpec) -> Mapping[str, int]:
        """The tokens by provider; empty if the tool cannot be converted."""
        known = self._known.get(id(spec))
        if known is None:
            known = self._known[id(spec)] = spec, _counted(spec)
        return known[1]

    def highest(self, spec: ToolSpec) -> int | None:
        """The tokens for the provider that needs most; None if they are not known."""
        return max(self.of(spec).values(), default=None)

    def forget_all_but(self, specs: Iterable[ToolSpec]) -> None:
        """Keep only those of a new catalog."""
        present = {id(spec) for spec in specs}
        self._known = {key: known for key, known in self._known.items() if key in present}


def _counted(spec: ToolSpec) -> Mapping[str, int]:
    try:
        return definition_tokens(spec)
    except Exception:  # one tool that cannot be converted must not affect the others
        logger.info("the tokens of %r cannot be counted", spec.name, exc_info=True)
        return {}
