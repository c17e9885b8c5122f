"""The lists of a view as clients see them: JSON, names, and the eras of its servers.

Everything is computed when it is first needed, and again when something has changed.
"""

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import NamedTuple, cast

from toolbus.bus.inner import calls_of
from toolbus.bus.view import View
from toolbus.config import BusConfig
from toolbus.core.operation.events import Event
from toolbus.core.values.apps import interface_uri, is_interface, without_interface
from toolbus.core.values.catalog import Catalog
from toolbus.core.values.records import (
    JSON,
    Era,
    JSONObject,
    Origin,
    Prompt,
    Resource,
    ResourceTemplate,
    ToolSpec,
)
from toolbus.core.values.skills import Skill, entry_of
from toolbus.gateway.protocol.words import is_object, with_ui_uri
from toolbus.shape.naming import named

_EXPRESSION = re.compile(r"\{[^{}]*\}")
_KNOWN_SCHEMES = ("ui://", "skill://")
_READ_RESULT = "toolbus/read_result"


class ResourceOrigin(NamedTuple):
    """A resource, or a template, of a server."""

    server: str
    uri: str
    """The server's own."""


def prompt_names(prompts: Sequence[Prompt], config: BusConfig) -> list[str]:
    specs = [ToolSpec(name=one.name, origin=Origin(one.server, one.name)) for one in prompts]
    name_all = named(config.naming, {alias: server.prefix for alias, server in config.servers.items()})
    return [spec.name for spec in name_all(specs)]


class Uris:
    """The URIs of the resources and templates of some servers."""

    def __init__(
        self,
        resources: Iterable[ResourceOrigin],
        templates: Iterable[ResourceOrigin],
        servers: Sequence[str],
        together: Iterable[Sequence[str]] = (),
    ) -> None:
        """`servers` in the order of the config.

        URIs that belong `together`, such as the files of a skill, keep their relation: if one is not unique,
        none is.
        """
        resources, templates = list(resources), list(templates)
        self._servers = servers
        owners: defaultdict[str, set[str]] = defaultdict(set)
        for one in (*resources, *templates):
            owners[one.uri].add(one.server)
        self._shared = {uri for uri, who in owners.items() if len(who) > 1}
        for group in together:
            if not self._shared.isdisjoint(group):
                self._shared.update(group)
        self._listed = {self.public(one.server, one.uri): one for one in resources}
        self._templates = [(self.public(one.server, one.uri), one) for one in templates]
        self._schemes: defaultdict[str, list[str]] = defaultdict(list)
        for alias in servers:
            for one in (*resources, *templates):
                scheme = _scheme(one.uri)
                if one.server == alias and alias not in self._schemes[scheme]:
                    self._schemes[scheme].append(alias)
        self.renaming = frozenset(one.server for one in (*resources, *templates) if one.uri in self._shared)
        """The servers with URIs that clients see differently."""
        self._shared_templates = [one for one in templates if one.uri in self._shared]

    def public(self, server: str, uri: str) -> str:
        """The URI of a resource or template of a server for clients."""
        return _qualified(server, uri) if uri in self._shared else uri

    def public_link(self, server: str, uri: str) -> str:
        """Like `public`, but even for a URI that is not listed and follows a template."""
        if uri in self._shared:
            return _qualified(server, uri)
        fits = any(one.server == server and fits_template(one.uri, uri) for one in self._shared_templates)
        return _qualified(server, uri) if fits and uri not in self._listed else uri

    def template(self, public: str) -> ResourceOrigin | None:
        """The template that clients see as this one."""
        return next((one for shown, one in self._templates if shown == public), None)

    def located(self, public: str) -> list[ResourceOrigin]:
        """The possible places of that resource, the best guess first: more than one only if none lists it."""
        if (listed := self._listed.get(public)) is not None:
            return [listed]
        if (qualified := self._unqualified(public)) is not None:
            return [qualified]
        fitting = [one.server for shown, one in self._templates if fits_template(shown, public)]
        likely = [*fitting, *self._schemes.get(_scheme(public), ())]
        return [ResourceOrigin(server, public) for server in dict.fromkeys(likely)]

    def _unqualified(self, public: str) -> ResourceOrigin | None:
        for alias in sorted(self._servers, key=len, reverse=True):
            if public.startswith(f"{alias}+"):
                return ResourceOrigin(alias, public.removeprefix(f"{alias}+"))
            for scheme in _KNOWN_SCHEMES:
                own = f"{scheme}{alias}/"
                if public.startswith(own) and f"{scheme}{public.removeprefix(own)}" in self._shared:
                    return ResourceOrigin(alias, f"{scheme}{public.removeprefix(own)}")
        return None


def _qualified(server: str, uri: str) -> str:
    for scheme in _KNOWN_SCHEMES:
        if uri.startswith(scheme):
            return f"{scheme}{server}/{uri.removeprefix(scheme)}"
    return f"{server}+{uri}"


def _scheme(uri: str) -> str:
    return uri.partition(":")[0].lower()


def fits_template(template: str, uri: str) -> bool:
    """Whether a URI may come from a template: it has its literal parts, in their order."""
    first, *others = _EXPRESSION.split(template)
    if not others:
        return uri == template
    *middle, last = others
    if not uri.startswith(first):
        return False
    at = len(first)
    for part in middle:
        found = uri.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return len(uri) - len(last) >= at and uri.endswith(last)


KINDS = ("tools", "prompts", "resources")
"""The lists whose changes are reported."""


class ListingSnapshot:
    """The lists of a view at one time."""

    def __init__(self, view: View, bus: View, catalog: Catalog, version: int, alone: str = "") -> None:
        self._view = view
        self._bus = bus
        self._alone = alone
        self.catalog = catalog
        self.version = version
        self._tools: dict[tuple[bool, bool], list[JSONObject]] = {}

    def tools_for(self, *, modern: bool, apps: bool) -> list[JSONObject]:
        """The tools, as their servers sent them unless the config changes that.

        Only clients with `apps` get those for user interfaces, which they show no model, and the metadata
        that leads to these.
        """
        if (modern, apps) not in self._tools:
            hidden = [spec for spec in self.catalog if apps and spec.is_app_only]
            named = {spec.name: spec for spec in (*calls_of(self._view).exposed, *hidden)}
            if self._alone:
                named = {name: spec for name, spec in self.own_tools.items() if apps or not spec.is_app_only}
            listed = [_tool(name, spec, self.uris, apps=apps) for name, spec in named.items()]
            # Legacy clients know no output but objects.
            self._tools[modern, apps] = listed if modern else [_legacy_tool(tool) for tool in listed]
        return self._tools[modern, apps]

    @cached_property
    def own_tools(self) -> dict[str, ToolSpec]:
        """The tools of the server that is served alone, by its own names; all, however many there are.

        `read_result` is among them as long as results are kept, unless the server has a tool of that name.
        """
        own = {one.origin.tool: one for one in self.catalog if one.route == "tools/call"}
        kept = [one for one in self.catalog if one.route == _READ_RESULT]
        return {**{one.name: one for one in kept}, **own}

    def resources_for(self, *, apps: bool) -> list[JSONObject]:
        """The resources; only clients with `apps` get user interfaces."""
        return self._resources if apps else self._plain_resources

    def templates_for(self, *, apps: bool) -> list[JSONObject]:
        """The templates; only clients with `apps` get user interfaces."""
        return self._templates if apps else self._plain_templates

    @cached_property
    def _resources(self) -> list[JSONObject]:
        return [_resource(one, self.uris) for one in self._view.resources()]

    @cached_property
    def _templates(self) -> list[JSONObject]:
        return [_template(one, self.uris) for one in self._view.templates()]

    @cached_property
    def _plain_resources(self) -> list[JSONObject]:
        shown = zip(self._resources, self._view.resources(), strict=True)
        return [one for one, own in shown if not is_interface(own.uri)]

    @cached_property
    def _plain_templates(self) -> list[JSONObject]:
        shown = zip(self._templates, self._view.templates(), strict=True)
        return [one for one, own in shown if not is_interface(own.uri_template)]

    @cached_property
    def prompts(self) -> list[JSONObject]:
        return [_prompt(name, one) for name, one in self.prompts_by_name.items()]

    @cached_property
    def prompts_by_name(self) -> dict[str, Prompt]:
        prompts = self._view.prompts()
        if self._alone:
            return {one.name: one for one in prompts}
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
        known = self._view.instructions
        if len(known) == 1:
            return next(iter(known.values()))
        return "\n\n".join(f"# {alias}\n{text}" for alias, text in known.items()) or None


class ViewListing:
    """The lists of one view, followed while clients use it."""

    def __init__(
        self, view: View, bus: View, changed: "Callable[[ViewListing, Event], None]", alone: str = ""
    ) -> None:
        """`changed` is called with the events of the view, except those about calls."""
        self.view = view
        self.alone = alone
        """The only server of the view, if clients know its tools and prompts by its own names."""
        self._bus = bus
        self._version = 0
        self._now: ListingSnapshot | None = None
        self.began = time.monotonic()
        self._given: dict[str, object] | None = {} if calls_of(view).starting else None
        """The lists that clients got since it began, by kind, None if they differed; if servers start."""
        self._changed = changed
        self._unsubscribe = view.on_event(self._take, calls=False)

    @property
    def now(self) -> ListingSnapshot:
        catalog, now = calls_of(self.view).catalog, self._now
        if now is None or now.catalog is not catalog or now.version != self._version:
            now = self._now = ListingSnapshot(self.view, self._bus, catalog, self._version, self.alone)
        return now

    @property
    def is_starting(self) -> bool:
        """Whether servers have been starting since it began, so that its changes belong together."""
        return self._given is not None and bool(calls_of(self.view).starting)

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
                return now.resources_for(apps=True), now.templates_for(apps=True), now.skills

    def _take(self, event: Event) -> None:
        self._version += 1
        self._changed(self, event)

    def close(self) -> None:
        self._unsubscribe()


def _tool(name: str, spec: ToolSpec, uris: Uris, *, apps: bool) -> JSONObject:
    server = spec.origin.server
    meta = spec.meta if apps else without_interface(spec.meta)
    if apps and server in uris.renaming:
        meta = with_ui_uri(meta, lambda uri: uris.public_link(server, uri))
    tool = _entry(
        spec,
        {"name": name},
        inputSchema=spec.input_schema,
        outputSchema=spec.output_schema,
        annotations=spec.annotations or None,
    )
    return {**tool, "_meta": meta} if meta else tool


def _legacy_tool(tool: JSONObject) -> JSONObject:
    schema: JSON = tool.get("outputSchema")
    if schema is None or (is_object(schema) and schema.get("type") == "object"):
        return tool
    return {key: value for key, value in tool.items() if key != "outputSchema"}


def _resource(one: Resource, uris: Uris) -> JSONObject:
    first = {"uri": uris.public(one.server, one.uri), "name": one.name}
    return _entry(one, first, mimeType=one.mime_type, size=one.size)


def _template(one: ResourceTemplate, uris: Uris) -> JSONObject:
    first = {"uriTemplate": uris.public(one.server, one.uri_template), "name": one.name}
    return _entry(one, first, mimeType=one.mime_type)


def _skill(one: Skill, uris: Uris) -> JSONObject:
    entry = entry_of(one)
    files = cast("list[JSONObject] | str", entry["resources"])
    if not isinstance(files, str):
        entry["resources"] = [{**file, "uri": uris.public(one.server, str(file["uri"]))} for file in files]
    return {**entry, "uri": uris.public(one.server, one.uri)}


def _files(one: Skill) -> list[str]:
    return [one.uri, *(file.uri for file in one.files or () if file.uri != one.uri)]


def _prompt(name: str, one: Prompt) -> JSONObject:
    arguments = [
        _without_nothing(
            {"name": each.name, "description": each.description or None, "required": each.required}
        )
        for each in one.arguments
    ]
    return _entry(one, {"name": name}, arguments=arguments or None)


def _entry(
    one: ToolSpec | Resource | ResourceTemplate | Prompt, first: JSONObject, **more: JSON
) -> JSONObject:
    """An entry of a list: how it is called, what all entries have, and `more` of its kind."""
    texts = {"title": one.title, "description": one.description or None}
    return _without_nothing({**first, **texts, **more, **one.extras})


def _without_nothing(values: JSONObject) -> JSONObject:
    return {key: value for key, value in values.items() if value is not None}
