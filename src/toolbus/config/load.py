"""Load a file, a mapping or a list, in any dialect, into a complete and consistent BusConfig.

An invalid entry does not affect the other servers: `config_in` keeps it with its mistake. `load_config`
raises for any mistake; a bus continues with the valid servers (`usable_config`).
"""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from toolbus.config.find import local_beside, user_config_file
from toolbus.config.hosts.dialects import (
    Container,
    alias_of,
    container,
    entry_list,
    has_container,
    with_container,
)
from toolbus.config.hosts.entry import (
    Defaults,
    invalid_config,
    is_server_object,
    is_switched_off,
    long_form,
    server_config,
    unwrapped,
)
from toolbus.config.layers import (
    ConfigFile,
    ConfigFiles,
    inherited,
    is_off,
    lookalike,
    loosened,
    narrowed,
    of_user,
    profiles_with,
    tools_with,
)
from toolbus.config.location import Location, Mistakes, is_list, is_mapping, joined, near_miss
from toolbus.config.model import BusConfig, ServerConfig
from toolbus.config.script_tools.entry import SCRIPTS, ScriptEntries, ScriptEntry
from toolbus.config.settings.policy import check_aliases
from toolbus.config.settings.store import tokens_within
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON

ConfigSource: TypeAlias = str | Path | Mapping[str, JSON] | Sequence[JSON] | BusConfig


def load_config(source: ConfigSource) -> BusConfig:
    """Load the config from a path, a mapping or a list of server entries; ConfigError lists the mistakes.

    Disabled servers are left out and not checked further. A BusConfig is returned unchanged.
    """
    return source if isinstance(source, BusConfig) else require_valid(_read(source))


def usable_config(source: ConfigSource) -> BusConfig:
    """Load the config, keeping an invalid server with its `mistake`, unless all of them are invalid."""
    return source if isinstance(source, BusConfig) else require_usable(_read(source))


def require_valid(config: BusConfig) -> BusConfig:
    """Return the config; raise a ConfigError that lists the mistakes of its servers, if any."""
    Mistakes(_mistakes(config)).raise_any()
    return config


def require_usable(config: BusConfig) -> BusConfig:
    """Return the config; raise the same ConfigError only if every server is invalid."""
    servers = config.servers.values()
    return require_valid(config) if all(server.mistake for server in servers) else config


def _mistakes(config: BusConfig) -> Iterator[ConfigError]:
    for server in config.servers.values():
        if server.mistake is not None:
            yield from server.mistake.mistakes


def _read(source: ConfigSource) -> BusConfig:
    if isinstance(source, str) and re.match(r"https?://", source):
        raise ConfigError("expected a config, not a URL; name the server: {'NAME': 'https://...'}")
    if isinstance(source, str | Path):
        path = Path(os.path.expanduser(source))
        local = local_beside(path)
        return config_of(ConfigFile.read(path), *([] if local is None else [ConfigFile.read(local)]))
    if is_mapping(source):
        return config_in(with_container(source))
    if is_list(source):
        alone = ConfigFiles(layers=[ConfigFile(document={"servers": {}})])
        return _bus_config(entry_list(source, Location()), alone, None)
    raise ConfigError(f"expected a path, a mapping or a list of servers, not {type(source).__name__}")


def config_in(document: Mapping[JSON, JSON], path: Path | None = None) -> BusConfig:
    """The config in a document, which was read from the file at `path`, if any.

    A server with an invalid entry is included, with its `mistake`. Mistakes outside the entries raise
    ConfigError.
    """
    return config_of(ConfigFile(document=document, path=path))


def config_of(*files: ConfigFile) -> BusConfig:
    """The config in a file and the local file beside it, and in the user's own config if it extends that."""
    layers = ConfigFiles(layers=files)
    own = user_config_file() if layers.extends else None
    return _bus_config(layers.container, layers, None if own is None else _read(own))


def load_server(source: object, *, alias: str | None = None, bus: BusConfig | None = None) -> ServerConfig:
    """One server from a URL, a mapping in any dialect, or an in-process server object.

    Its alias is the given one, else the one in the mapping, else `mcp`. Settings it does not have come from
    the `bus` it is for.
    """
    source = unwrapped(source)
    if isinstance(source, ServerConfig):
        name = source.alias if alias is None else alias
        return server_config(
            name, source, location=Location(server=name), defaults=_defaults(bus or BusConfig())
        )
    entry: JSON = source
    defaults = _defaults(bus or BusConfig())
    if is_mapping(source) and has_container(source):
        found = container(source, Location())
        Mistakes([*found.mistakes, *found.misnamed.values()]).raise_any()
        if len(found.entries) != 1:
            raise ConfigError(f"expected one server, found {len(found.entries)}; use load_config for several")
        name, entry = next(iter(found.entries.items()))
        defaults = replace(defaults, foreign=found.foreign, warnings=found.warnings)
    elif is_mapping(source) or isinstance(source, str) or is_server_object(source):
        name = alias_of(source)
    else:
        raise ConfigError(f"expected a URL, a mapping or an MCP server object, not {type(source).__name__}")
    name = alias if alias is not None else "mcp" if name is None else name
    if not isinstance(name, str) or not name.strip():
        raise ConfigError("a server needs an alias: a non-empty string", key="alias")
    return server_config(name, entry, location=Location(server=name), defaults=defaults)


def _defaults(bus: BusConfig) -> Defaults:
    return Defaults(
        timeouts=bus.timeouts,
        limits=bus.limits,
        mark=bus.mark,
        repair=bus.repair,
        redact=bus.redact,
        sandbox=bus.sandbox,
        budget=bus.budget,
        folder=bus.folder,
    )


def with_profile(config: BusConfig, name: str | None) -> BusConfig:
    """The config with the servers of a profile only; ConfigError if there is no such profile.

    Its tools are selected by the bus, which knows their names.
    """
    if name is None or name == config.profile:
        return config
    if config.profile is not None:
        raise ConfigError(f"uses the profile {config.profile!r} already", file=config.file, key="profiles")
    profile = config.profiles.get(name)
    if profile is None:
        known = near_miss(name, config.profiles) or f"; profiles: {', '.join(config.profiles) or 'none'}"
        raise ConfigError(f"no profile is named {name!r}{known}", file=config.file, key="profiles")
    aliases = {*config.servers, *config.off}
    inside = aliases if profile.servers is None else aliases.intersection(profile.servers)
    update = {
        "servers": {alias: server for alias, server in config.servers.items() if alias in inside},
        "off": {alias: server for alias, server in config.off.items() if alias in inside},
        "disabled": tuple(alias for alias in config.disabled if alias in inside),
        "context": tuple(source for source in config.context if source.server in inside),
        "profile": name,
        "outside": tuple(alias for alias in (*config.servers, *config.off) if alias not in inside),
    }
    return config.model_copy(update=update)


def setting(key: str, value: JSON) -> Any:
    """The value of one of the keys beside `servers`, as a file has it; ConfigError if it is invalid."""
    return getattr(BusConfig(**{key: value}), key)


def _bus_config(found: Container, layers: ConfigFiles, user: BusConfig | None) -> BusConfig:
    location, path = layers.location(), layers.layers[0].path
    folder = None if path is None else path.absolute().parent
    mistakes = Mistakes(found.mistakes)
    settings = {key: value for key, value in found.settings.items() if value is not None}
    if user is not None:
        settings |= inherited(user, settings)
        with mistakes.collected():
            settings["profiles"] = profiles_with(user, settings.get("profiles"), location)
        with mistakes.collected():
            settings["tools"] = tools_with(user, settings.get("tools"), location)
    if "hooks" in found.settings:
        settings["hooks"] = layers.stations(mistakes)
    entries = {**dict.fromkeys(() if user is None else user.servers), **found.entries}
    if settings.get("tools"):
        if entries.get(SCRIPTS) is not None:
            mistakes.append(_named_like_scripts(layers.location(SCRIPTS)))
        entries = {**{alias: one for alias, one in entries.items() if alias != SCRIPTS}, SCRIPTS: None}
    aliases = [*entries, *found.misnamed]
    wanted, lists, bus, notes = aliases, dict[JSON, JSON](), BusConfig(), list[str]()
    with mistakes.collected():
        lists = {**location.mapping(settings.pop("tool_allowlist", {}), "tool_allowlist")}
        _known_servers(lists, aliases, "tool_allowlist", location)
    with mistakes.collected():
        enabled = location.names(settings.pop("enabled_servers", aliases), "enabled_servers")
        _known_servers(enabled, aliases, "enabled_servers", location)
        enabled = {*enabled, SCRIPTS} if settings.get("tools") else enabled
        wanted = [alias for alias in aliases if alias in enabled]
    try:
        settings, notes = BusConfig.renamed(settings)
        bus = BusConfig(**settings)
    except ConfigError as error:
        mistakes += location.relocated(error, lambda key: key).mistakes
        wrong = {(mistake.key or "").partition(".")[0].partition("[")[0] for mistake in error.mistakes}
        bus = BusConfig(**{key: value for key, value in settings.items() if key not in wrong})
    own = found.settings.get("profiles")
    named = _named(bus, aliases, own if is_mapping(own) else {})
    mistakes += [location.error(_no_server(name, aliases), key) for key, name in named]
    bus = _with_whole_paths(bus, location.file, folder).model_copy(update={"base": user})
    mistakes += [] if user is None else loosened(user, found.settings, bus, location)
    removed = [alias for alias, entry in found.entries.items() if entry is None and layers.is_layered]
    entries = {alias: entries.get(alias) for alias in aliases if alias not in removed}
    if bus.tools:
        entries[SCRIPTS] = _entry_of(bus.tools)
    elif settings.get("tools"):
        del entries[SCRIPTS]  # the mistake in them is enough
    found = replace(found, warnings=(*found.warnings, *notes))
    servers, off = _servers(entries, wanted, lists, found, layers, bus)
    with mistakes.collected():
        if bus.policy:
            check_aliases(servers, location)
    switches = {"disabled": tuple(off), "off": off, "order": tuple(entries) if off else ()}
    context = tuple(source for source in bus.context if source.server not in removed)
    bus = bus.model_copy(update={"servers": servers, "context": context, **switches})
    if mistakes:
        raise joined([*mistakes, *_mistakes(bus)])
    return bus


def _entry_of(tools: Mapping[str, ScriptEntry]) -> JSON:
    """The scripts of a config as one server; it is the last one, so no tool of another one is renamed."""
    scripts = ScriptEntries(tuple(tools.items()))
    return {"server": scripts, "prefix": "", "trust_annotations": True, "era": "modern"}


def _named_like_scripts(location: Location) -> ConfigError:
    return location.error(f"is the name of the scripts in {SCRIPTS}; choose another alias", "alias")


def _servers(
    entries: Mapping[str, JSON],
    wanted: Collection[str],
    lists: Mapping[JSON, JSON],
    found: Container,
    layers: ConfigFiles,
    bus: BusConfig,
) -> "tuple[dict[str, ServerConfig], dict[str, _Entry]]":
    """The servers, each that is invalid with its `mistake`; and the entries of the disabled ones."""
    defaults = replace(_defaults(bus), foreign=found.foreign, warnings=found.warnings)
    servers: dict[str, ServerConfig] = {}
    off: dict[str, _Entry] = {}
    for alias, entry in entries.items():
        is_local = alias in found.local
        read = _Entry(
            entry=entry,
            allowlist=lists.get(alias),
            location=layers.location(alias),
            defaults=_defaults(bus) if is_local else defaults,
            file=str(layers.layers[-1].path) if is_local else None,
            user=bus.user,
        )
        try:
            if alias in found.misnamed and alias in wanted:
                raise found.misnamed[alias]
            if alias not in wanted or read.is_off:
                off[alias] = read
            else:
                servers[alias] = read()
        except ConfigError as error:
            servers[alias] = invalid_config(alias, entry, error)
    return servers, off


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """The entry of a server; a disabled one is only read when the program enables it."""

    entry: JSON
    allowlist: JSON | None
    location: Location
    defaults: Defaults
    file: str | None
    """The local file, if the entry is in there."""
    user: BusConfig | None
    """The user's own config, if this one extends it."""

    @property
    def alias(self) -> str:
        assert self.location.server is not None
        return self.location.server

    @property
    def is_off(self) -> bool:
        """Whether it is disabled, here or in the user's own config."""
        if self.user is not None and of_user(self.alias, self.entry, self.user):
            return is_off(self.alias, self.entry, self.user, self.location)
        return is_switched_off(self.entry, self.location)

    def __call__(self) -> ServerConfig:
        alias, entry, user = self.alias, self.entry, self.user
        if self.allowlist is not None:
            entry = _with_allowlist(entry, self.allowlist, self.location)
        if user is not None and of_user(alias, entry, user):
            return narrowed(alias, entry, user, self.location)
        if user is not None and (like := lookalike(alias, user, self.location)) is not None:
            raise like
        read = server_config(alias, entry, location=self.location, defaults=self.defaults)
        now = {} if read.enabled else {"enabled": True}
        now |= {} if self.file is None else {"file": self.file}
        return read.model_copy(update=now) if now else read


def _named(bus: BusConfig, aliases: Sequence[str], own: Mapping[JSON, JSON]) -> Iterator[tuple[str, str]]:
    """The servers that settings name and that do not exist, each with the key; `own` are the own profiles."""
    profiles = [name for name in bus.profiles if name in own]
    named = [(f"context[{index}].server", [source.server]) for index, source in enumerate(bus.context)]
    views = {} if bus.serve is None else bus.serve.views
    named += [(f"profiles.{name}.servers", [*(bus.profiles[name].servers or ())]) for name in profiles]
    named += [(f"serve.views.{name}.servers", [*(view.servers or ())]) for name, view in views.items()]
    for key, names in named:
        yield from ((key, name) for name in names if name not in aliases)


def _with_whole_paths(bus: BusConfig, file: str | None, folder: Path | None) -> BusConfig:
    """The config as it is in that file; relative paths of its settings are relative to the folder."""
    own = {
        "tokens": tokens_within(bus.tokens, folder),
        "tools": {name: entry.within(file, folder) for name, entry in bus.tools.items()},
        "audit": bus.audit and bus.audit.within(folder),
        "serve": bus.serve and bus.serve.within(folder),
        "registry": _registry_within(bus.registry, folder),
    }
    return bus.model_copy(update={"file": file, "folder": folder, **own})


def _registry_within(registry: str, folder: Path | None) -> str:
    """A registry; a file by its whole path."""
    return registry if "://" in registry else os.path.join(folder or "", os.path.expanduser(registry))


def _known_servers(names: Iterable[object], aliases: Sequence[str], key: str, location: Location) -> None:
    """ConfigError for a name that no server has: a misspelled one would allow all tools of a server."""
    for name in names:
        if name not in aliases:
            raise location.error(_no_server(name, aliases), key)


def _with_allowlist(entry: JSON, names: JSON, location: Location) -> JSON:
    full = long_form({} if entry is None else entry, location)
    if "tool_allowlist" in full:
        raise location.error("is set for the server and for all servers; keep one", "tool_allowlist")
    return {**full, "tool_allowlist": names}


def _no_server(name: object, known: Sequence[str]) -> str:
    return f"no server has the alias {name!r}{near_miss(name, known)}"
