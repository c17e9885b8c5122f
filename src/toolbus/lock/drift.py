"""Compare the definitions of a server with the approved ones, and hold changes."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, TypeAlias

from toolbus.config.settings.limits import ServerLimits
from toolbus.core.text.canonical import NotCanonical
from toolbus.core.values.records import Inventory, JSONObject, ToolSpec
from toolbus.lock.definitions import (
    Kind,
    changed_fields,
    definition_digest,
    definitions,
    encodable,
    text_digest,
    unlockable,
)
from toolbus.lock.file import NAME, LockedServer

HeldKind: TypeAlias = Literal["tool", "prompt", "template", "skill", "instructions", "launch"]
SINGULAR: dict[Kind, HeldKind] = {
    "tools": "tool",
    "prompts": "prompt",
    "templates": "template",
    "skills": "skill",
}
KIND_OF: Mapping[str, Kind] = {singular: kind for kind, singular in SINGULAR.items()}
_STEPS = "; review it: "
NOT_AS_LOCKED = f"not as in {NAME}"
"""The text of a warning about a difference in the mode `warn`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTool:
    """Something that differs from the lock, and is left out until it is approved."""

    server: str
    kind: HeldKind
    name: str
    """The server's own name for it."""
    reason: str
    fields: tuple[str, ...] = ()
    """The fields of its definition that changed; empty if it is new."""
    digest: str = field(default="", repr=False)
    """The digest of the current definition: another change is held and reported again."""

    @property
    def key(self) -> str:
        """`server/tool`; for anything else `server: prompt name`, `server: instructions`."""
        return label_of(self.server, self.kind, self.name)

    @property
    def change(self) -> str:
        """The reason without the commands to run."""
        return self.reason.partition(_STEPS)[0]

    def __str__(self) -> str:
        return f"{self.key}: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class Review:
    """The inventory of a server, compared with the approved one."""

    approved: Inventory
    held: tuple[HeldTool, ...] = ()

    @cached_property
    def _allowed(self) -> dict[str, frozenset[str]]:
        """The tools and prompts that are offered and approved, by the server's own names."""
        return {
            "tool": frozenset(tool.origin.tool for tool in self.approved.tools),
            "prompt": frozenset(prompt.name for prompt in self.approved.prompts),
            "skill": frozenset(skill.uri for skill in self.approved.skills),
        }

    def why_held(self, kind: Literal["tool", "prompt", "skill"], name: str) -> str | None:
        """The reason why something must not be used; None if it may."""
        if name in self._allowed[kind]:
            return None
        reasons = (one.reason for one in self.held if (one.kind, one.name) == (kind, name))
        gone = f"it is in {NAME}, but its server does not list it"
        return next(
            reasons, gone if kind != "skill" else "its server does not list it: it cannot be approved"
        )


class Reviewer:
    """Compares the inventories of one server with its approved inventory."""

    def __init__(self, server: str, locked: LockedServer, limits: ServerLimits) -> None:
        self._server = server
        self._locked = locked
        self.known = locked.inventory(server, limits)
        """The approved inventory."""
        self._tools = {tool.origin.tool: tool for tool in self.known.tools}

    def review(self, inventory: Inventory) -> Review:
        """The inventory without the differing definitions, and those definitions as held."""
        held: list[HeldTool] = []
        same: dict[Kind, set[str]] = {}
        for kind, found in definitions(inventory).items():
            differences = {name: self._difference(kind, name, one) for name, one in found.items()}
            held += filter(None, differences.values())
            same[kind] = {name for name, difference in differences.items() if difference is None}
        if (changed := self._changed_instructions(inventory.instructions)) is not None:
            held.append(changed)
        # As they were approved, to the letter: what does not count as a change must not reach a model either.
        known = self.known
        approved = replace(
            inventory,
            tools=tuple(
                self._approved(tool) for tool in inventory.tools if tool.origin.tool in same["tools"]
            ),
            prompts=tuple(one for one in known.prompts if one.name in same["prompts"]),
            templates=tuple(one for one in known.templates if one.uri_template in same["templates"]),
            skills=tuple(one for one in known.skills if one.uri in same["skills"]),
            instructions=known.instructions if inventory.instructions and changed is None else None,
        )
        return Review(approved=approved, held=tuple(held))

    def _approved(self, tool: ToolSpec) -> ToolSpec:
        """The tool as it was locked, but for the metadata that a lock does not cover."""
        known = self._tools[tool.origin.tool]
        return known if tool.meta == known.meta else replace(known, meta=tool.meta)

    def _difference(self, kind: Kind, name: str, definition: JSONObject) -> HeldTool | None:
        singular = SINGULAR[kind]
        if (fault := unlockable(definition)) is not None:
            return HeldTool(server=self._server, kind=singular, name=name, reason=fault)
        try:
            now = definition_digest(definition)
        except NotCanonical as error:
            reason = f"its definition {error}, so it cannot be locked; report it to the server's author"
            return HeldTool(server=self._server, kind=singular, name=name, reason=reason)
        locked = self._locked.definitions[kind].get(name)
        if locked is None:
            return self._held(singular, name, "it is new", now)
        if now == self._locked.digests[kind][name]:
            return None
        fields = changed_fields(locked, definition)
        *others, last = fields
        changed = f"{', '.join(others)} and {last}" if others else last
        return self._held(singular, name, f"its {changed} changed", now, fields)

    def _changed_instructions(self, instructions: str | None) -> HeldTool | None:
        if not instructions:
            return None
        now = text_digest(encodable(instructions))
        if now == self._locked.digests["instructions"]:
            return None
        change = "they changed" if self._locked.instructions else "they are new"
        return self._held("instructions", "", change, now)

    def _held(
        self, kind: HeldKind, name: str, change: str, digest: str, fields: tuple[str, ...] = ()
    ) -> HeldTool:
        since = f"{change} since {NAME} was written"
        reason = held_reason(self._server, since, name if kind == "tool" else "")
        return HeldTool(
            server=self._server, kind=kind, name=name, reason=reason, fields=fields, digest=digest
        )


def held_reason(server: str, change: str, tool: str = "") -> str:
    target = shlex.quote(f"{server}/{tool}" if tool else server)
    steps = f"toolbus lock diff {shlex.quote(server)}, accept it: toolbus lock approve {target}"
    return f"{change}{_STEPS}{steps}"


def label_of(server: str, kind: str, name: str = "") -> str:
    """`files/read` for a tool, else `files: prompt review` or `files: instructions`."""
    return f"{server}/{name}" if kind == "tool" else f"{server}: {kind}{name and f' {name}'}"
