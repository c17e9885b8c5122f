"""Shape the tools of servers for a model, according to the config.

The order is fixed: tools are selected, shortened, cleaned, trusted, overridden and marked; then come the
shapers added in code; naming is last. Cleaning comes after shortening, so that it never takes long.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from glob import escape
from pathlib import Path

from toolbus.call.result_store import READ_RESULT
from toolbus.config import BusConfig
from toolbus.config.settings.override import ToolOverride
from toolbus.core.text.text import cleaned
from toolbus.core.values.freshness import ListKind
from toolbus.core.values.records import RECEIVED, Budget, Change, Inventory, Origin, Quarantined, ToolSpec
from toolbus.schema.node import declared
from toolbus.shape import Shaper, excluding, including, overridden
from toolbus.shape.as_tools import (
    LIST_RESOURCES,
    READ_RESOURCE,
    hidden_uris,
    prompt_tools,
    resource_tools,
    skill_tools,
)
from toolbus.shape.clean import cleaned_texts, is_clean
from toolbus.shape.limit import TextLimits, cut_text, limited
from toolbus.shape.naming import may_name, named
from toolbus.shape.override import Rule, marked, repeatable, trusted
from toolbus.shape.pipeline import LeaveOut, shaped
from toolbus.shape.select import selected, unmatched

# By the shaper in a tool's history.
_WARNINGS = {
    RECEIVED: "invalid parts of its definition were ignored: {}",
    "cleaned_texts": "invisible or control characters were removed from its {}",
    "limited": "too long for a model, shortened: {} (limits.description, limits.definition)",
}
_HIDDEN_IN_INSTRUCTIONS = "invisible or control characters were removed from its instructions"
_LONG_INSTRUCTIONS = "its instructions are too long for a model and were shortened (limits.description)"
# How a warning names a field; the others follow from these.
_FIELD_NAMES = {
    "description": "description",
    "title": "title",
    "input_schema": "arguments",
    "output_schema": "output schema",
    "annotations": "annotations",
}


class CatalogShaper:
    """The shapers of a bus, and the warnings about their results."""

    def __init__(self, config: BusConfig, own: Sequence[Shaper]) -> None:
        self._config = config
        servers = config.servers
        self._prefixes = {alias: server.prefix for alias, server in servers.items()}
        rules = {
            f"{escape(alias)}/{pattern}": _rule(override, config.folder)
            for alias, server in servers.items()
            for pattern, override in server.override.items()
        }
        self._limits = {
            alias: TextLimits(description=server.limits.description, schema=server.limits.definition)
            for alias, server in servers.items()
        }
        self._selecting: list[Shaper] = [
            selected({alias: (server.include, server.exclude) for alias, server in servers.items()}),
            selected({alias: (server.also_include, ()) for alias, server in servers.items()}),
            *(including(*one.include) for one in config.rules if one.include),
            *(excluding(*one.exclude) for one in config.rules if one.exclude),
        ]
        self._reading: list[Shaper] = [limited(self._limits), cleaned_texts()]
        relied_on = {alias for alias, server in servers.items() if server.trust_annotations}
        safe = [f"{alias}/{glob}" for alias, server in servers.items() for glob in server.repeatable]
        marks = {alias: server.mark for alias, server in servers.items()}
        self._shapers: list[Shaper] = [
            *([trusted(relied_on)] if relied_on else []),
            *([repeatable(safe)] if safe else []),
            *([overridden(rules)] if rules else []),
            *([marked(marks)] if any(marks.values()) else []),
            *own,
            named(config.naming, self._prefixes, [tool.name for tool in self.own]),
        ]

    def tools(
        self, inventories: Mapping[str, Inventory], quarantined: dict[str, list[Quarantined]] | None = None
    ) -> list[ToolSpec]:
        """The tools of all servers as a model should see them; `ShaperFailed` if a shaper is broken.

        A tool for which a shaper fails is left out, and added to `quarantined` with the reason.
        """
        bad: dict[str, list[Quarantined]] = {} if quarantined is None else quarantined

        def leave_out(tool: ToolSpec, reason: str) -> None:
            found = Quarantined(tool=tool.origin.tool, reason=cleaned(reason))
            bad.setdefault(tool.origin.server, []).append(found)

        listed = [tool for inventory in inventories.values() for tool in inventory.tools]
        tools = self._readable(shaped(listed, self._selecting, leave_out), leave_out)
        # Patterns only apply to the servers' tools; these were requested by name.
        other = self._readable(self._other(inventories), leave_out)
        return shaped([*tools, *other], self._shapers, leave_out)

    def _readable(self, tools: list[ToolSpec], leave_out: LeaveOut) -> list[ToolSpec]:
        """The tools, those shortened and cleaned that need it."""
        odd = [tool for tool in tools if not is_clean(tool, self._limits[tool.origin.server])]
        if not odd:
            return tools
        fixed = {tool.origin: tool for tool in shaped(odd, self._reading, leave_out)}
        gone = {tool.origin for tool in odd} - fixed.keys()
        return [fixed.get(tool.origin, tool) for tool in tools if tool.origin not in gone]

    def instructions(self, inventories: Mapping[str, Inventory]) -> dict[str, str]:
        """The instructions of the servers that have some, by alias: clean, and of limited length."""
        return {
            alias: cut_text(cleaned(inventory.instructions), self._limits[alias].description)
            for alias, inventory in inventories.items()
            if inventory.instructions
        }

    def _other(self, inventories: Mapping[str, Inventory]) -> list[ToolSpec]:
        """Resources, prompts and skills as tools, if the config asks for them."""
        reading = resource_tools(inventories) if self._config.resource_tools == "server" else []
        loading = skill_tools(inventories) if self._config.skill_tools else []
        return [*reading, *loading, *(prompt_tools(inventories) if self._config.prompt_tools else [])]

    @property
    def kinds(self) -> tuple[ListKind, ...]:
        """The lists that tools are made of."""
        resources = self._config.resource_tools == "server"
        return (
            "tools",
            *(("resources", "templates") if resources else ()),
            *(("skills",) if self._config.skill_tools else ()),
            *(("prompts",) if self._config.prompt_tools else ()),
        )

    @property
    def own(self) -> list[ToolSpec]:
        """The bus's own tools, if the config asks for them."""
        if self._config.resource_tools not in (True, "bus"):
            return []
        # A read goes to the server that the model names.
        all_trusted = all(server.trust_annotations for server in self._config.servers.values())
        return [LIST_RESOURCES, replace(READ_RESOURCE, trusted=all_trusted)]

    def budget(self, origin: Origin) -> Budget:
        """The budget of a tool's results for a model."""
        server = self._config.servers.get(origin.server)
        if server is None:  # our own tool; `read_result` has a limit of its own
            return Budget() if origin == READ_RESULT.origin else self._config.budget
        own = (o.budget for pattern, o in server.override.items() if fnmatchcase(origin.tool, pattern))
        return next((budget for budget in own if budget is not None), server.budget)

    def may_have(self, server: str, name: str) -> bool:
        """Whether a server that is not listed yet may have a tool of that name, or `server/tool`."""
        given = (override.name for override in self._config.servers[server].override.values())
        return (
            name.startswith(f"{server}/")
            or name in given
            or may_name(self._config.naming, self._prefixes, server, name)
        )

    def _override_warnings(
        self, alias: str, tools: Sequence[ToolSpec]
    ) -> Iterator[tuple[str, str | None, str]]:
        """Overrides without effect, most likely typos."""
        for pattern, override in self._config.servers[alias].override.items():
            fitting = [tool for tool in tools if fnmatchcase(tool.origin.tool, pattern)]
            if not fitting:
                yield alias, None, f"override: no tool matches {pattern!r}"
            for name, rule in override.arguments.items():
                known = [tool for tool in fitting if name in declared(tool.input_schema)[0]]
                required = [tool for tool in known if name in declared(tool.input_schema)[1]]
                filled = rule.model_fields_set & {"value", "default"}
                if fitting and not known:
                    yield alias, None, f"override.{pattern}: no tool has an argument {name!r}"
                elif rule.hide and required and not filled:
                    yield alias, None, f"override.{pattern}: {name!r} is required, so it cannot be hidden"

    def _text_warnings(self, alias: str, inventory: Inventory) -> Iterator[str]:
        text = inventory.instructions or ""
        if cleaned(text) is not text:
            yield _HIDDEN_IN_INSTRUCTIONS
        if len(text) > self._limits[alias].description:
            yield _LONG_INSTRUCTIONS
        if self._config.resource_tools and (count := hidden_uris(inventory)):
            yield f"resources not listed for models, because their URIs have hidden characters: {count}"

    def warnings(
        self,
        inventories: Mapping[str, Inventory],
        tools: Sequence[ToolSpec],
        quarantined: Mapping[str, Sequence[Quarantined]],
    ) -> Iterator[tuple[str, str | None, str]]:
        """Warnings for the user: server, tool if it is about one, and the message."""
        for alias, inventory in inventories.items():
            if inventory.tools:
                for pattern in unmatched(inventory.tools, self._config.servers[alias].include):
                    yield alias, None, f"include: no tool matches {pattern!r}"
                yield from self._override_warnings(alias, inventory.tools)
            yield from ((alias, None, message) for message in self._text_warnings(alias, inventory))
        for alias, found in quarantined.items():
            for bad in found:
                yield alias, bad.tool, f"left out: {bad.reason}"
        for tool in tools:
            for change in tool.history:
                if change.shaper in _WARNINGS:
                    yield tool.origin.server, tool.origin.tool, _warning(change)


def _rule(override: ToolOverride, folder: Path | None) -> Rule:
    """An override for shapers, which do not know the folder of the config."""
    result = {} if override.result is None else {"result": override.result.within(folder)}
    return {**override.rule, **result}


def _warning(change: Change) -> str:
    fields = change.fields
    if change.shaper != RECEIVED:
        fields = [_FIELD_NAMES[name] for name in fields if name in _FIELD_NAMES]
    return _WARNINGS[change.shaper].format(", ".join(fields))
