"""What the tools of a catalog cost in tokens; counted once for each definition, and not in the event loop."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from hashlib import sha256

from pydantic_core import to_json

from toolbus.core.values.records import ToolSpec
from toolbus.shape.cost import definition_tokens

logger = logging.getLogger("toolbus")

_MOST_KNOWN = 20_000
"""Definitions whose tokens are remembered."""


class Costs:
    """The tokens of tools, by provider."""

    def __init__(self) -> None:
        self._known: dict[bytes, Mapping[str, int]] = {}
        """By the digest of all that is counted: a server that lists the same tools again has other specs."""
        self._counting = asyncio.Lock()

    async def of(self, specs: Sequence[ToolSpec]) -> dict[str, Mapping[str, int]]:
        """The tokens by tool and provider; none for a tool that cannot be converted.

        They are counted in one thread, however many pages ask for them.
        """
        async with self._counting:
            return await asyncio.to_thread(lambda: {spec.name: self._tokens(spec) for spec in specs})

    async def highest(self, specs: Sequence[ToolSpec]) -> dict[str, int]:
        """The tokens of tools for the provider that needs most; without those that are not known."""
        found = await self.of(specs)
        return {name: max(tokens.values()) for name, tokens in found.items() if tokens}

    def _tokens(self, spec: ToolSpec) -> Mapping[str, int]:
        counted = (spec.name, spec.title, spec.description, spec.input_schema, spec.options)
        digest = sha256(to_json(counted, inf_nan_mode="constants", fallback=repr)).digest()
        if digest not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[digest] = _counted(spec)
        return self._known[digest]


def _counted(spec: ToolSpec) -> Mapping[str, int]:
    try:
        return definition_tokens(spec)
    except Exception:  # one tool that cannot be converted must not affect the others
        logger.info("the tokens of %r cannot be counted", spec.name, exc_info=True)
        return {}
