"""The names of prompts and the URIs of resources as clients see them, and back.

Prompts are named as tools are. A URI stays as it is unless two servers have it: then it becomes
`alias+URI`, or `ui://alias/rest` for `ui://rest`, because clients know that scheme; so they do `skill://`.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from toolbus.config import BusConfig
from toolbus.core.values.records import Origin, Prompt, ToolSpec
from toolbus.shape import named

_EXPRESSION = re.compile(r"\{[^{}]*\}")
_KNOWN_SCHEMES = ("ui://", "skill://")


class Located(NamedTuple):
    """A resource, or a template, of a server."""

    server: str
    uri: str
    """The server's own."""


def prompt_names(prompts: Sequence[Prompt], config: BusConfig) -> list[str]:
    """A name for each prompt."""
    specs = [ToolSpec(name=one.name, origin=Origin(one.server, one.name)) for one in prompts]
    name_all = named(config.naming, {alias: server.prefix for alias, server in config.servers.items()})
    return [spec.name for spec in name_all(specs)]


class Uris:
    """The URIs of the resources and templates of some servers."""

    def __init__(
        self,
        resources: Iterable[Located],
        templates: Iterable[Located],
        servers: Sequence[str],
        together: Iterable[Sequence[str]] = (),
    ) -> None:
        """`servers` in the order of the config.

        URIs that belong `together`, those of a skill, keep their relation: if one is not unique, none is.
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
        """As `public`, also for a URI that is not listed and follows a template."""
        if uri in self._shared:
            return _qualified(server, uri)
        fits = any(one.server == server and fits_template(one.uri, uri) for one in self._shared_templates)
        return _qualified(server, uri) if fits and uri not in self._listed else uri

    def template(self, public: str) -> Located | None:
        """The template that clients see as this one."""
        return next((one for shown, one in self._templates if shown == public), None)

    def located(self, public: str) -> list[Located]:
        """Where that resource may be, the best guess first: more than one only if none lists it."""
        if (listed := self._listed.get(public)) is not None:
            return [listed]
        if (qualified := self._unqualified(public)) is not None:
            return [qualified]
        fitting = [one.server for shown, one in self._templates if fits_template(shown, public)]
        likely = [*fitting, *self._schemes.get(_scheme(public), ())]
        return [Located(server, public) for server in dict.fromkeys(likely)]

    def _unqualified(self, public: str) -> Located | None:
        for alias in sorted(self._servers, key=len, reverse=True):
            if public.startswith(f"{alias}+"):
                return Located(alias, public.removeprefix(f"{alias}+"))
            for scheme in _KNOWN_SCHEMES:
                own = f"{scheme}{alias}/"
                if public.startswith(own) and f"{scheme}{public.removeprefix(own)}" in self._shared:
                    return Located(alias, f"{scheme}{public.removeprefix(own)}")
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
