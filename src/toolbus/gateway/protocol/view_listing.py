"""The lists of a view as clients see them: JSON, names, and the eras of its servers.

Everything is computed when it is first needed, and again when something has changed.
"""

import time
from collections.abc import Callable
from functools import cached_property
from typing import cast

from toolbus.bus.view import View
from toolbus.core.operation.events import Event
from toolbus.core.values.apps import interface_uri
from toolbus.core.values.catalog import Catalog
from toolbus.core.values.records import (
    JSON,
    Era,
    JSONObject,
    Prompt,
    PromptArgument,
    Resource,
    ResourceTemplate,
    ToolSpec,
)
from toolbus.core.values.skills import Skill, entry_of
from toolbus.gateway.protocol.naming import ResourceOrigin, Uris, prompt_names
from toolbus.gateway.protocol.results import with_ui_uri
from toolbus.gateway.protocol.words import is_object

KINDS = ("tools", "prompts", "resources")
"""The lists whose changes are reported."""


class ListingSnapshot:
    """What a view offers at one time."""

    def __init__(self, view: View, bus: View, catalog: Catalog, version: int) -> None:
        self._view = view
        self._bus = bus
        self.catalog = catalog
        self.version = version
        self._tools: dict[tuple[bool, bool], list[JSONObject]] = {}

    def tools_for(self, *, modern: bool, apps: bool) -> list[JSONObject]:
        """The tools, as their servers sent them unless the config changes that.

        Only clients with `apps` get those for user interfaces, which they show no model.
        """
        if (modern, apps) not in self._tools:
            hidden = (spec for spec in self.catalog if apps and spec.is_app_only)
            listed = [_tool(spec, self.uris) for spec in (*self._view.exposed, *hidden)]
            # Legacy clients know no output but objects.
            self._tools[modern, apps] = listed if modern else [_legacy_tool(tool) for tool in listed]
        return self._tools[modern, apps]

    @cached_property
    def resources(self) -> list[JSONObject]:
        """The resources of all servers."""
        return [_resource(one, self.uris) for one in self._view.resources()]

    @cached_property
    def templates(self) -> list[JSONObject]:
        """The resource templates of all servers."""
        return [_template(one, self.uris) for one in self._view.templates()]

    @cached_property
    def prompts(self) -> list[JSONObject]:
        """The prompts of all servers."""
        return [_prompt(name, one) for name, one in self.prompts_by_name.items()]

    @cached_property
    def prompts_by_name(self) -> dict[str, Prompt]:
        """The prompts by the names that clients see."""
        prompts = self._view.prompts()
        return dict(zip(prompt_names(prompts, self._bus.config), prompts, strict=True))

    @cached_property
    def skills(self) -> dict[str, JSONObject]:
        """The entries of the skills of all servers, by the URIs that clients see."""
        entries = (_skill(one, self.uris) for one in self._view.skills())
        return {str(entry["uri"]): entry for entry in entries}

    @cached_property
    def uris(self) -> Uris:
        """The URIs of the resources, of the files of skills, and of the user interfaces of tools."""

        view = self._view
        resources = [
            *(ResourceOrigin(one.server, one.uri) for one in view.resources()),
            *(ResourceOrigin(one.server, uri) for one in view.skills() for uri in _files(one)),
            *(
                ResourceOrigin(spec.origin.server, uri)
                for spec in self.catalog
                if spec.meta and (uri := interface_uri(spec.meta)) is not None
            ),
        ]
        templates = [ResourceOrigin(one.server, one.uri_template) for one in view.templates()]
        # Only of this view: a URI that is qualified because of another server would tell of that server.
        return Uris(resources, templates, list(view.config.servers), map(_files, view.skills()))

    @cached_property
    def eras(self) -> dict[str, Era | None]:
        """The era that each server speaks; None if it is not connected."""
        return {alias: status.era for alias, status in self._view.servers.items()}

    @cached_property
    def instructions(self) -> str | None:
        """The instructions of all servers in one text."""
        known = self._view.instructions
        if len(known) == 1:
            return next(iter(known.values()))
        return "\n\n".join(f"# {alias}\n{text}" for alias, text in known.items()) or None


class ViewListing:
    """What one view offers, followed while clients use it."""

    def __init__(self, view: View, bus: View, changed: "Callable[[ViewListing, Event], None]") -> None:
        """`changed` is called with the events of the view, except those about calls."""
        self.view = view
        self._bus = bus
        self._version = 0
        self._now: ListingSnapshot | None = None
        self.began = time.monotonic()
        self._given: dict[str, object] | None = {} if view.starting else None
        """The lists that clients got since it began, by kind, None if they differed; if servers start."""
        self._changed = changed
        self._unsubscribe = view.on_event(self._take, calls=False)

    @property
    def now(self) -> ListingSnapshot:
        """What it offers now."""
        catalog, now = self.view.calls.catalog, self._now
        if now is None or now.catalog is not catalog or now.version != self._version:
            now = self._now = ListingSnapshot(self.view, self._bus, catalog, self._version)
        return now

    @property
    def is_starting(self) -> bool:
        """Whether servers have been starting since it began, so that its changes belong together."""
        return self._given is not None and bool(self.view.starting)

    def note_given(self, kind: str) -> None:
        """A client gets a list; remembered while servers start."""
        if self._given is not None:
            now = self._list(kind)
            self._given[kind] = now if self._given.get(kind, now) == now else None

    def changed_lists(self) -> set[str]:
        """The kinds of lists whose change clients should know: not if they have none, or the current one."""
        given, self._given = self._given, {} if self.is_starting else None
        return set(KINDS) if given is None else {kind for kind in given if given[kind] != self._list(kind)}

    def _list(self, kind: str) -> object:
        now = self.now
        match kind:
            case "tools":
                return now.tools_for(modern=True, apps=True)
            case "prompts":
                return now.prompts
            case _:
                return now.resources, now.templates, now.skills

    def _take(self, event: Event) -> None:
        self._version += 1
        self._changed(self, event)

    def close(self) -> None:
        """Follow it no longer."""
        self._unsubscribe()


def _tool(spec: ToolSpec, uris: Uris) -> JSONObject:
    server = spec.origin.server
    meta = spec.meta
    if server in uris.renaming:
        meta = with_ui_uri(meta, lambda uri: uris.public_link(server, uri))
    return _without_nothing(
        {
            "name": spec.name,
            "title": spec.title,
            "description": spec.description or None,
            "inputSchema": spec.input_schema,
            "outputSchema": spec.output_schema,
            "annotations": spec.annotations or None,
            **spec.extras,
            "_meta": meta or None,
        }
    )


def _legacy_tool(tool: JSONObject) -> JSONObject:
    schema: JSON = tool.get("outputSchema")
    if schema is None or (is_object(schema) and schema.get("type") == "object"):
        return tool
    return {key: value for key, value in tool.items() if key != "outputSchema"}


def _resource(one: Resource, uris: Uris) -> JSONObject:
    return _without_nothing(
        {
            "uri": uris.public(one.server, one.uri),
            "name": one.name,
            "title": one.title,
            "description": one.description or None,
            "mimeType": one.mime_type,
            "size": one.size,
            **one.extras,
        }
    )


def _template(one: ResourceTemplate, uris: Uris) -> JSONObject:
    return _without_nothing(
        {
            "uriTemplate": uris.public(one.server, one.uri_template),
            "name": one.name,
            "title": one.title,
            "description": one.description or None,
            "mimeType": one.mime_type,
            **one.extras,
        }
    )


def _skill(one: Skill, uris: Uris) -> JSONObject:
    entry = entry_of(one)
    files = cast("list[JSONObject] | str", entry["resources"])
    if not isinstance(files, str):
        entry["resources"] = [{**file, "uri": uris.public(one.server, str(file["uri"]))} for file in files]
    return {**entry, "uri": uris.public(one.server, one.uri)}


def _files(one: Skill) -> list[str]:
    return [one.uri, *(file.uri for file in one.files or () if file.uri != one.uri)]


def _prompt(name: str, one: Prompt) -> JSONObject:
    return _without_nothing(
        {
            "name": name,
            "title": one.title,
            "description": one.description or None,
            "arguments": [_argument(argument) for argument in one.arguments] or None,
            **one.extras,
        }
    )


def _argument(one: PromptArgument) -> JSONObject:
    return _without_nothing(
        {
            "name": one.name,
            "description": one.description or None,
            "required": one.required,
        }
    )


def _without_nothing(values: JSONObject) -> JSONObject:
    return {key: value for key, value in values.items() if value is not None}
