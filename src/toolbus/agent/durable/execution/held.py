"""Tools that changed since a run was offered them: held until a person accepts that."""

from collections.abc import Mapping

_DIGITS = 16
"""Of a digest, in the record of a run."""
TEXT = "This tool changed since you last saw it. A call of it waits until a person has accepted the change."
"""What the model reads of a held tool; the new definition may say anything."""


class HeldTools:
    """The definitions that one run knows, as `short` digests by `server/tool`."""

    def __init__(self) -> None:
        self._known: dict[str, set[str]] = {}

    def begin(self, recorded: Mapping[str, str]) -> None:
        """Start with the definitions that the run was offered."""
        self._known = {tool: {definition} for tool, definition in recorded.items()}

    def pin(self, tool: str, definition: str | None) -> None:
        """Remember the definition of a tool that was called, if it is not known."""
        if definition is not None:
            self._known.setdefault(tool, {short(definition)})

    def accept(self, tool: str, changed: str) -> None:
        """Let the tool be called with a definition that `changed` returned, too."""
        self._known[tool].add(changed)

    def changed(self, tool: str, definition: str | None) -> str | None:
        """The short digest of a definition that nobody accepted; None if the tool may be called."""
        now = None if definition is None else short(definition)
        return None if now is None or now in self._known.get(tool, {now}) else now


def short(digest: str) -> str:
    """The part of a digest that is recorded."""
    return digest.rpartition(":")[2][:_DIGITS]
