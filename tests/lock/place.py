"""A config with one server whose offer a test changes, and its lockfile."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import warm
from tests.inside.core import Inventory, Prompt, PromptArgument, ResourceTemplate, ToolSpec, tool_spec
from tests.inside.lock import NAME, LockedServer, Lockfile, snapshot, write_lock
from toolbus import Toolbus
from toolbus.config import load_config

Definition = dict[str, Any]
Offer = dict[str, Any]
OFFERING = str(Path(__file__).with_name("offering.py"))

READ: Definition = {
    "name": "read",
    "title": "Read a file",
    "description": "Read a file.\n\nIt has to exist.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where it is."},
            "mode": {"enum": ["text", "bytes"], "default": "text"},
            "lines": {
                "type": "object",
                "properties": {"first": {"type": "integer"}, "last": {"type": "integer"}},
                "required": ["first", "last"],
            },
        },
        "required": ["path", "mode"],
    },
    "outputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    "annotations": {
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": False,
    },
    "execution": {"taskSupport": "optional"},
    "icons": [{"src": "https://example.com/read.png", "mimeType": "image/png"}],
    "_meta": {"ui": {"resourceUri": "ui://files/read"}, "example.com/build": 1},
}
WRITE: Definition = {
    "name": "write",
    "description": "Write a file.",
    "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}},
}
STAT: Definition = {"name": "stat", "description": "Describe a file.", "inputSchema": {"type": "object"}}
GREET: Definition = {
    "name": "greet",
    "description": "Greet somebody.",
    "arguments": [{"name": "whom", "description": "Their name.", "required": True}],
}
NOTES: Definition = {
    "uriTemplate": "note://{name}",
    "name": "notes",
    "description": "A note.",
    "mimeType": "text/plain",
}
OFFER: Offer = {
    "tools": [READ, WRITE, STAT],
    "prompts": [GREET],
    "templates": [NOTES],
    "instructions": "Read before you write.",
}


@dataclass
class Place:
    """A folder with `toolbus.json`, `offer.json` of the server `files`, and the lockfile."""

    folder: Path
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    entry: dict[str, Any] = field(default_factory=dict[str, Any])
    more: dict[str, Any] = field(default_factory=dict[str, Any])
    """More servers."""

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self.offer(OFFER)
        self.configure()

    @property
    def config(self) -> Path:
        """The config."""
        return self.folder / "toolbus.json"

    @property
    def lock(self) -> Path:
        """The lockfile."""
        return self.folder / NAME

    @property
    def calls(self) -> list[str]:
        """The calls that reached the server."""
        file = self.folder / "offer.json.calls"
        return file.read_text().split() if file.exists() else []

    @property
    def starts(self) -> int:
        """The number of times the server was started."""
        file = self.folder / "offer.json.starts"
        return len(file.read_text()) if file.exists() else 0

    def server(self, **more: Any) -> dict[str, Any]:
        """The entry of the server."""
        return {"command": warm.python(), "args": [OFFERING, str(self.folder / "offer.json")], **more}

    def configure(self, **entry: Any) -> None:
        """Write the config, with these keys in the entry of the server."""
        servers = {"files": self.server(**{**self.entry, **entry}), **self.more}
        self.config.write_text(json.dumps({"servers": servers, **self.settings}))

    def offer(self, offer: Mapping[str, Any]) -> None:
        """Change the server's offer from now on."""
        draft = self.folder / "offer.draft"
        draft.write_text(json.dumps(offer))
        draft.rename(self.folder / "offer.json")

    def approve(self, offer: Mapping[str, Any] = OFFER) -> None:
        """Write the lockfile, as `toolbus lock` would with a server that offers this."""
        config = load_config(self.config)
        inventory = inventory_of("files", offer)
        own = snapshot(config.servers["files"], config.folder, inventory, None).locked
        others = {alias: self._nothing(alias) for alias in self.more}
        write_lock(Lockfile(path=self.lock, servers={"files": own, **others}))

    def _nothing(self, alias: str) -> LockedServer:
        config = load_config(self.config)
        return snapshot(config.servers[alias], config.folder, Inventory(), None).locked


def inventory_of(alias: str, offer: Mapping[str, Any]) -> Inventory:
    """The inventory of a server with this offer."""
    tools = [tool_spec(alias, tool, sys.maxsize) for tool in offer.get("tools", [])]
    return Inventory(
        tools=tuple(tool for tool in tools if isinstance(tool, ToolSpec)),
        prompts=tuple(_prompt(alias, one) for one in offer.get("prompts", [])),
        templates=tuple(_template(alias, one) for one in offer.get("templates", [])),
        instructions=offer.get("instructions"),
    )


def _prompt(alias: str, one: Definition) -> Prompt:
    arguments = tuple(PromptArgument(**argument) for argument in one.get("arguments", []))
    return Prompt(
        server=alias,
        name=one["name"],
        title=one.get("title"),
        description=one.get("description", ""),
        arguments=arguments,
    )


def _template(alias: str, one: Definition) -> ResourceTemplate:
    return ResourceTemplate(
        server=alias,
        uri_template=one["uriTemplate"],
        name=one["name"],
        title=one.get("title"),
        description=one.get("description", ""),
        mime_type=one.get("mimeType"),
    )


def names(bus: Toolbus) -> list[str]:
    """The server's own names of the tools in the catalog."""
    return [spec.origin.tool for spec in bus.catalog]
