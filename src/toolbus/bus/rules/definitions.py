"""The digests of the servers' own definitions, as in the lockfile: before anything was renamed or cut."""

from collections.abc import Callable, Mapping

from toolbus.bus.catalog.live_catalog import LiveCatalog
from toolbus.core.values.records import Inventory, ToolSpec
from toolbus.lock.definitions import any_digest, prompt_definition, tool_definition
from toolbus.shape import prompt_name


class Definitions:
    """The digests of what the servers offer now; each is made when it is first needed."""

    def __init__(self, catalog: LiveCatalog, inventories: Callable[[], Mapping[str, Inventory]]) -> None:
        self._catalog = catalog
        self._inventories = inventories
        self._version = -1
        self._known: dict[tuple[str, str, str], str | None] = {}

    def of(self, spec: ToolSpec) -> str | None:
        """The digest of what a tool of the catalog calls."""
        origin = spec.origin
        match spec.route:
            case "tools/call":
                return self.tool(origin.server, origin.tool)
            case "prompts/get":
                return self.prompt(origin.server, prompt_name(spec))
            case _:
                return None

    def tool(self, server: str, name: str) -> str | None:
        """The digest of a tool, by the server's own name; None if there is none."""
        return self._digest(("tool", server, name))

    def prompt(self, server: str, name: str) -> str | None:
        """The digest of a prompt."""
        return self._digest(("prompt", server, name))

    def _digest(self, key: tuple[str, str, str]) -> str | None:
        if self._version != self._catalog.version:  # some server offers something else now
            self._known, self._version = {}, self._catalog.version
        if key not in self._known:
            self._known[key] = self._find(*key)
        return self._known[key]

    def _find(self, kind: str, server: str, name: str) -> str | None:
        inventory = self._inventories().get(server, Inventory())
        found = (
            (tool_definition(tool) for tool in inventory.tools if tool.origin.tool == name)
            if kind == "tool"
            else (prompt_definition(prompt) for prompt in inventory.prompts if prompt.name == name)
        )
        return next((any_digest(definition) for definition in found), None)
