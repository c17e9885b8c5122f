"""A function of the user as an encoder."""

import asyncio
import inspect
import weakref
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from toolbus.search.encoders.encoder import EncodingFailed, Vectors

EncodingFunction: TypeAlias = Callable[[list[str]], Vectors | Awaitable[Vectors]]
"""Takes texts and returns a vector for each; may be async."""


class FunctionEncoder:
    """Calls the function in the thread that makes vectors, an async one in a loop of its own there.

    Its vectors are kept under its attribute `name`; without one, nobody knows whether it is still the same.
    """

    local = False

    def __init__(self, function: EncodingFunction) -> None:
        self._function = function
        given: Any = getattr(function, "name", None)
        self.kept_as = f"function {given}" if isinstance(given, str) and given else ""
        self.name = given if self.kept_as else getattr(function, "__name__", type(function).__name__)
        self._runner: asyncio.Runner | None = None

    def encode(self, texts: Sequence[str]) -> Vectors:
        """What the function returns; `EncodingFailed` with the kind of error if it raises."""
        try:
            found = self._function(list(texts))
            return self._awaited(found) if inspect.isawaitable(found) else found
        except Exception as error:  # the user's code
            raise EncodingFailed(f"encoder {self.name!r} failed: {type(error).__name__}: {error}") from error

    def _awaited(self, found: Awaitable[Vectors]) -> Vectors:
        async def waited() -> Vectors:
            return await found

        # One loop for all calls, because clients of services stay connected to theirs.
        if self._runner is None:
            self._runner = asyncio.Runner()
            weakref.finalize(self, self._runner.close)
        return self._runner.run(waited())
