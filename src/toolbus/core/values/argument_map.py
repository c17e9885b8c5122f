"""How the arguments that a model writes become those of the server."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from toolbus.core.values.originals import with_originals
from toolbus.schema.values import JSON, JSONObject

EMPTY: JSONObject = {}
"""Shared empty object; do not mutate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentMap:
    """Maps the model's arguments to the server's."""

    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    """The model's name to the server's."""
    defaults: JSONObject = field(default_factory=lambda: EMPTY)
    """Sent unless the model sets them, by the server's name."""
    fixed: JSONObject = field(default_factory=lambda: EMPTY)
    """Always sent, whatever the model sets."""
    hidden: frozenset[str] = frozenset()
    """Arguments that the model cannot set, by the server's name."""
    originals: Mapping[str, str] = field(default_factory=dict[str, str])
    """The server's own names and listed values, also inside arguments, by those that the model sees."""
    schema: JSONObject = field(default_factory=lambda: EMPTY)
    """The schema that declares the originals."""

    def to_server(self, arguments: JSONObject) -> dict[str, JSON]:
        """The arguments for the server."""
        given = {
            self.renamed.get(name, name): value
            for name, value in arguments.items()
            if name in self.renamed or name not in self.hidden
        }
        # Models send null for omitted arguments.
        absent = {name: value for name, value in self.defaults.items() if given.get(name) is None}
        mapped = {**given, **absent, **self.fixed}
        return with_originals(mapped, self.schema, self.originals) if self.originals else mapped
