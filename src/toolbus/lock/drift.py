"""Compare what a server offers with what was approved, and hold what differs."""

import shlex
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from toolbus.config.limits import Limits
from toolbus.core.records import Inventory, JSONObject, ToolSpec
from toolbus.lock.canonical import NotCanonical
from toolbus.lock.definitions import (
    Kind,
    changed_fields,
    definition_digest,
    definitions,
    text_digest,
)
from toolbus.lock.file import NAME, LockedServer

HeldKind: TypeAlias = Literal["tool", "prompt", "template", "instructions", "launch"]
SINGULAR: dict[Kind, HeldKind] = {"tools": "tool", "prompts": "prompt", "templates": "template"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Something that differs from the lock, and is left out until it is approved."""

    server: str
    kind: HeldKind
    name: str
    """The server's own name for it."""
    reason: str
    fields: tuple[str, ...] = ()
    """The fields of its definition that changed; empty if it is new."""

    @property
    def key(self) -> str:
        """`server/tool`; for anything else also its kind: `server/prompt/name`, `server/instructions`."""
        if self.kind == "tool":
            return f"{self.server}/{self.name}"
        return "/".join(filter(None, [self.server, self.kind, self.name]))

    def __str__(self) -> str:
        return f"{self.key}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """What a server offers, compared with what was approved."""

    approved: Inventory
    held: tuple[Held, ...] = ()
    absent: tuple[str, ...] = ()
    """Approved tools that it does not list: removed, or hidden from this user."""


class Reviewer:
    """Compares the inventories of one server with what was approved of it; None if it is not in the lock."""

    def __init__(self, server: str, locked: LockedServer | None, limits: Limits) -> None:
        self._server = server
        self._locked = LockedServer(launch={}) if locked is None else locked
        self._digests = self._locked.digests()
        self.known = self._locked.inventory(server, limits)
        """What was approved."""
        self._tools = {tool.origin.tool: tool for tool in self.known.tools}

    def review(self, inventory: Inventory) -> Review:
        """The inventory without what differs, and what differs."""
        held: list[Held] = []
        names: dict[Kind, set[str]] = {}
        for kind, found in definitions(inventory).items():
            differences = {name: self._difference(kind, name, one) for name, one in found.items()}
            held += filter(None, differences.values())
            names[kind] = {name for name, difference in differences.items() if difference is None}
        instructions = inventory.instructions
        if instructions and text_digest(instructions) != self._digests["instructions"]:
            change = "they changed" if self._locked.instructions else "they are new"
            held.append(self._held("instructions", "", change))
            instructions = None
        listed = {tool.origin.tool for tool in inventory.tools}
        return Review(
            approved=replace(
                inventory,
                tools=tuple(self._approved(t) for t in inventory.tools if t.origin.tool in names["tools"]),
                prompts=tuple(one for one in inventory.prompts if one.name in names["prompts"]),
                templates=tuple(one for one in inventory.templates if one.uri_template in names["templates"]),
                instructions=instructions,
            ),
            held=tuple(held),
            absent=tuple(sorted(self._tools.keys() - listed)),
        )

    def _approved(self, tool: ToolSpec) -> ToolSpec:
        """The tool as it was locked, with the order of its arguments: prompts stay the same all the time."""
        known = self._tools[tool.origin.tool]
        return known if tool.meta == known.meta else replace(known, meta=tool.meta)

    def _difference(self, kind: Kind, name: str, definition: JSONObject) -> Held | None:
        locked = self._locked.definitions[kind].get(name)
        try:
            if locked is None:
                return self._held(SINGULAR[kind], name, "it is new")
            if definition_digest(definition) == self._digests[kind][name]:
                return None
            fields = changed_fields(locked, definition)
        except NotCanonical as error:
            return self._held(SINGULAR[kind], name, f"it cannot be locked: its definition {error}")
        return self._held(SINGULAR[kind], name, f"its {' and '.join(fields)} changed", fields)

    def _held(self, kind: HeldKind, name: str, change: str, fields: tuple[str, ...] = ()) -> Held:
        reason = held_reason(self._server, change, name if kind == "tool" else "")
        return Held(server=self._server, kind=kind, name=name, reason=reason, fields=fields)


def held_reason(server: str, change: str, tool: str = "") -> str:
    """Why something is held, and the next step."""
    target = shlex.quote(f"{server}/{tool}" if tool else server)
    steps = f"review it: toolbus diff {shlex.quote(server)}, accept it: toolbus approve {target}"
    return f"{change} since {NAME} was written; {steps}"
