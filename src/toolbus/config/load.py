"""From a file, a mapping or a list, in any dialect, to a BusConfig that is complete and consistent."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from toolbus.config.context import context_budget, context_sources
from toolbus.config.dialects import Container, alias_of, container, entry_list, has_container, with_container
from toolbus.config.entry import (
    Defaults,
    checked_timeouts,
    is_server_object,
    is_switched_off,
    long_form,
    server_config,
    unwrapped,
)
from toolbus.config.model import BusConfig, ServerConfig
from toolbus.config.override import budget
from toolbus.config.place import Place, is_list, is_mapping, near_miss
from toolbus.config.read import read_document
from toolbus.errors import ConfigError
from toolbus.records import JSON

FILE_NAMES = ("toolbus.yaml", "toolbus.yml", "toolbus.json", "toolbus.toml", ".mcp.json", "mcp.json")
"""Where a config is looked for in a folder; the first that exists is taken."""


def load_config(source: "str | Path | Mapping[str, JSON] | Sequence[JSON] | BusConfig") -> BusConfig:
    """The config that a path, a mapping or a list of server entries holds; ConfigError says what is wrong.

    Servers that are switched off are left out, and not checked further. A BusConfig is returned as it is.
    """
    if isinstance(source, BusConfig):
        return source
    if isinstance(source, str | Path):
        path = Path(source).expanduser()
        return config_in(read_document(path), path)
    if is_mapping(source):
        return config_in(with_container(source))
    if is_list(source):
        return _bus_config(entry_list(source, Place()), Place(), None)
    raise ConfigError(f"expected a path, a mapping or a list of servers, not {type(source).__name__}")


def config_in(document: Mapping[JSON, JSON], path: Path | None = None) -> BusConfig:
    """The config that a document holds, which was read from the file at `path`, if from any."""
    place = Place(file=None if path is None else str(path))
    return _bus_config(container(document, place), place, None if path is None else path.absolute().parent)


def named_config() -> Path | None:
    """The file that `$TOOLBUS_CONFIG` names, if it is set; ConfigError if there is no such file."""
    if not (named := os.environ.get("TOOLBUS_CONFIG")):
        return None
    path = Path(named).expanduser()
    if not path.is_file():
        raise ConfigError("no such file; correct or unset $TOOLBUS_CONFIG", file=str(path))
    return path


def find_config(folder: Path | None = None) -> Path:
    """The config to use: `$TOOLBUS_CONFIG`, else the first known file name in the folder, by default cwd."""
    if (named := named_config()) is not None:
        return named
    folder = Path.cwd() if folder is None else folder
    for name in FILE_NAMES:
        if (folder / name).is_file():
            return folder / name
    looked = ", ".join(("$TOOLBUS_CONFIG", *FILE_NAMES))
    raise ConfigError(
        f"no config in {str(folder)!r}: looked for {looked}; create toolbus.yaml or name a file"
    )


def load_server(source: object, *, alias: str | None = None, bus: BusConfig | None = None) -> ServerConfig:
    """One server from a URL, a mapping in any dialect, or a server object of this process.

    Its alias is the one given, else the one in the mapping, else `mcp`. The timeouts of the `bus` it
    is for stand where it has none of its own.
    """
    source = unwrapped(source)
    if isinstance(source, ServerConfig):
        return source if alias is None else server_config(alias, source, place=Place(server=alias))
    entry: JSON = source
    if is_mapping(source) and has_container(source):
        entries = container(source, Place()).entries
        if len(entries) != 1:
            raise ConfigError(f"expected one server, found {len(entries)}; use load_config for several")
        name, entry = next(iter(entries.items()))
    elif is_mapping(source) or isinstance(source, str) or is_server_object(source):
        name = alias_of(source)
    else:
        raise ConfigError(f"expected a URL, a mapping or an MCP server object, not {type(source).__name__}")
    name = alias if alias is not None else "mcp" if name is None else name
    if not isinstance(name, str) or not name.strip():
        raise ConfigError("a server needs an alias: a non-empty string", key="alias")
    return server_config(
        name, entry, place=Place(server=name), defaults=None if bus is None else _defaults(bus)
    )


def _defaults(bus: BusConfig) -> Defaults:
    return Defaults(
        timeouts=bus.timeouts, mark=bus.mark, repair=bus.repair, budget=bus.budget, folder=bus.folder
    )


def _bus_config(found: Container, place: Place, folder: Path | None) -> BusConfig:
    settings = {key: value for key, value in found.settings.items() if value is not None}
    entries = _with_allowlists(found.entries, settings.pop("tool_allowlist", {}), place)
    wanted = _wanted(entries, settings.pop("enabled_servers", None), place)
    settings["timeouts"] = checked_timeouts(settings.get("timeouts", {}), place)
    if "budget" in settings:
        settings["budget"] = budget(settings["budget"], place)
    if "context_budget" in settings:
        settings["context_budget"] = context_budget(settings["context_budget"], place)
    context = context_sources(settings.pop("context", ()), place, entries)
    try:
        bus = BusConfig(**settings, file=place.file, folder=folder)
    except ConfigError as error:
        raise place.error(error.problem, error.key) from None
    servers: dict[str, ServerConfig] = {}
    for alias in wanted:
        here = Place(file=place.file, server=alias)
        if not is_switched_off(entries[alias], here):
            servers[alias] = server_config(alias, entries[alias], place=here, defaults=_defaults(bus))
    # Of a server that is switched off there is nothing to read.
    wanted_context = tuple(source for source in context if source.server in servers)
    return bus.model_copy(update={"servers": servers, "context": wanted_context})


def _wanted(entries: Mapping[str, JSON], enabled: JSON, place: Place) -> list[str]:
    """The aliases to load, in the order of the config."""
    if enabled is None:
        return list(entries)
    names = place.names(enabled, "enabled_servers")
    _refuse_unknown_aliases(names, entries, "enabled_servers", place)
    return [alias for alias in entries if alias in names]


def _with_allowlists(entries: Mapping[str, JSON], allowlists: JSON, place: Place) -> dict[str, JSON]:
    """The entries, each with its list of `tool_allowlist`."""
    lists = place.mapping(allowlists, "tool_allowlist")
    # A misspelt alias would leave all tools of the server open.
    _refuse_unknown_aliases(lists, entries, "tool_allowlist", place)
    result = dict(entries)
    for alias, names in lists.items():
        here = Place(file=place.file, server=alias)
        entry = long_form(result[alias], here)
        if "tool_allowlist" in entry:
            raise here.error("is given for the server and for all of them; keep one", "tool_allowlist")
        result[alias] = {**entry, "tool_allowlist": names}
    return result


def _refuse_unknown_aliases(
    names: Iterable[object], known: Mapping[str, JSON], key: str, place: Place
) -> None:
    for name in names:
        if name not in known:
            raise place.error(f"no server has the alias {name!r}{near_miss(name, known)}", key)
