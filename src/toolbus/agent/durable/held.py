"""Tools that changed since a run was offered them: held, not swapped, until somebody accepts that."""

from collections.abc import Callable, Mapping
from typing import Protocol

_DIGITS = 16
"""Of a digest, in the record of a run."""


class Noted(Protocol):
    """What is noted of a run beside its journal, for everybody with access to the store."""

    async def note_held(self, held: Mapping[str, str], /) -> None:
        """Show which tools are held, with the digests of their definitions now."""
        ...

    async def accepted(self) -> Mapping[str, str]:
        """The definitions that somebody accepted."""
        ...


class HeldTools:
    """The definitions that one run knows."""

    def __init__(self, run: str, noted: Noted) -> None:
        self._run = run
        self._noted = noted
        self._known: dict[str, str] = {}
        self._accepted: Mapping[str, str] = {}
        self._held: dict[str, str] = {}

    async def begin(self, recorded: Mapping[str, str]) -> None:
        """Start with the definitions that the run was offered, as `short` digests by `server/tool`."""
        self._known = dict(recorded)
        self._accepted = await self._noted.accepted()

    def pin(self, tool: str, definition: str | None) -> None:
        """Remember the definition of a tool that was called, if it is not known."""
        if definition is not None:
            self._known.setdefault(tool, short(definition))

    def reason(self, tool: str, definition: str | None) -> str | None:
        """Why a tool must not be called; None if it may."""
        now = None if definition is None else short(definition)
        if now is None or self._known.get(tool, now) == now or self._accepted.get(tool) == now:
            return None
        self._held[tool] = now
        return (
            f"{tool!r} is held: its definition changed since this run began; "
            f"a person can accept it: toolbus runs resume {self._run} --accept-changes"
        )

    async def refresh(self, reasons: Callable[[], Mapping[str, str]]) -> Mapping[str, str]:
        """The tools that are held now, with the reason; looks whether somebody accepted them meanwhile."""
        before, self._held = self._held, {}
        if not (found := reasons()):
            if before:
                await self._noted.note_held({})
            return {}
        self._accepted = await self._noted.accepted()
        self._held = {}
        found = reasons()
        if self._held != before:
            await self._noted.note_held(self._held)
        return found


def short(digest: str) -> str:
    """The part of a digest that is recorded."""
    return digest.rpartition(":")[2][:_DIGITS]
