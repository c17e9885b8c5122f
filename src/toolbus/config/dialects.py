"""Find the servers in a document, wherever the host it was written for keeps them.

A dialect is a row in a table. The entries themselves are read in `toolbus.config.entry`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from toolbus.config.context import is_context
from toolbus.config.entry import is_server, unwrapped
from toolbus.config.place import Place, is_list, is_mapping, near_miss
from toolbus.records import JSON

CONTAINERS: tuple[tuple[str, ...], ...] = (
    ("servers",),  # ours; VS Code's mcp.json
    ("mcpServers",),  # Claude Desktop, Claude Code, Cursor, Windsurf, Cline, Gemini CLI, FastMCP, AIDK
    ("mcp", "servers"),  # VS Code's settings.json
    ("mcp_servers",),  # squidbot
    ("tools", "mcp_servers"),  # squidbot
    ("services", "mcp"),  # Axle
    ("config", "servers"),  # assistant4's manifest
)

SETTINGS = (
    *("naming", "timeouts", "enabled_servers", "tool_allowlist"),
    *("include", "exclude", "mark", "repair", "budget"),
    *("resource_tools", "prompt_tools", "roots"),
    *("context", "context_budget"),
)
"""What is said for all servers; honoured beside every container."""

# In these files every key beside the servers is ours, or wrong.
_OURS = (("servers",), ("config", "servers"))
# VS Code's own keys beside `servers`; `$schema` is for editors.
_BESIDE_SERVERS = ("inputs", "sandbox", "$schema")

_OTHERS = ", ".join(".".join(path) for path in CONTAINERS[1:])
_EXPECTED = "expected 'servers: {NAME: {command: ...}}', or one of " + _OTHERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """The entries of a document by alias, in their order, and what it says for all servers."""

    entries: Mapping[str, JSON]
    settings: Mapping[str, JSON]


def container(document: Mapping[JSON, JSON], place: Place) -> Container:
    """The servers of the document; ConfigError when there is no container, or more than one."""
    found = list(_containers(document))
    if not found and "serverName" in document:  # AIDK: the document is the one server
        return Container(entries=_aliased([document], "server", place), settings={})
    if not found:
        wrong = next((hint for key in document if (hint := near_miss(key, _names()))), "")
        raise place.error(f"no servers found; {_EXPECTED}{wrong}")
    if len(found) > 1:
        both = " and ".join(repr(".".join(path)) for path, _ in found)
        raise place.error(f"more than one list of servers: {both}; keep one")
    path, holder = found[0]
    if path == ("servers",):
        _refuse_unknown_keys(document, place)
    settings = settings_in(document, holder)
    if path not in _OURS:
        settings = without_foreign(settings)
    return Container(entries=_aliased(holder[path[-1]], ".".join(path), place), settings=settings)


def with_container(document: Mapping[JSON, JSON]) -> Mapping[JSON, JSON]:
    """The same; code may leave out the container around its servers, of which there may be none."""
    if has_container(document) or not all(_is_aliased(*pair) for pair in document.items()):
        return document
    return {"servers": document}


def settings_in(*levels: Mapping[JSON, JSON]) -> dict[str, JSON]:
    """What the mappings say for all servers; the last one counts most."""
    return {name: level[name] for level in levels for name in SETTINGS if name in level}


def without_foreign(settings: Mapping[str, JSON]) -> dict[str, JSON]:
    """The same without what only looks like ours: Gemini CLI and Continue have a `context` of their own."""
    return {key: value for key, value in settings.items() if key != "context" or is_context(value)}


def entry_list(entries: JSON, place: Place) -> Container:
    """The same for a bare list of entries."""
    return Container(entries=_aliased(entries, "servers", place), settings={})


def has_container(document: Mapping[JSON, JSON]) -> bool:
    """Whether servers are listed somewhere in the document."""
    return any(True for _ in _containers(document))


def alias_of(entry: JSON) -> JSON:
    """The name that an entry gives itself, or None."""
    if not is_mapping(entry):
        return None
    return next((entry[key] for key in ("alias", "name", "serverName") if entry.get(key) is not None), None)


def _containers(document: Mapping[JSON, JSON]) -> Iterator[tuple[tuple[str, ...], Mapping[JSON, JSON]]]:
    """Each container that the document has, with the mapping that holds it."""
    for path in CONTAINERS:
        holder: JSON = document
        for step in path[:-1]:
            holder = holder.get(step) if is_mapping(holder) else None
        if is_mapping(holder) and path[-1] in holder:
            yield path, holder


def _is_aliased(alias: JSON, entry: JSON) -> bool:
    # A URL under `url` is a server that has no alias.
    return is_server(entry) and not (isinstance(entry, str) and is_server({alias: entry}))


def _names() -> list[str]:
    return [path[-1] for path in CONTAINERS if len(path) == 1]


def _refuse_unknown_keys(document: Mapping[JSON, JSON], place: Place) -> None:
    """In our own file a key nobody knows is a typing error; in a host's file it is the host's."""
    known = ("servers", *SETTINGS, *_BESIDE_SERVERS)
    for key in document:
        # `x-` is the usual prefix for one's own keys, such as the anchors of a YAML file.
        if key not in known and not str(key).startswith("x-"):
            raise place.unknown_key(key, known)


def _aliased(entries: JSON, key: str, place: Place) -> dict[str, JSON]:
    """The entries by alias; ConfigError if one has none or two have the same."""
    if is_mapping(entries):
        pairs = [(alias, unwrapped(entry)) for alias, entry in entries.items()]
    elif is_list(entries):
        pairs = [(alias_of(entry), entry) for entry in map(unwrapped, entries)]
    else:
        raise place.error("expected a mapping of servers, or a list of them with alias or name", key)
    result: dict[str, JSON] = {}
    for index, (alias, entry) in enumerate(pairs):
        if not isinstance(alias, str) or not alias.strip():
            where = f"{key}[{index}]" if is_list(entries) else key
            raise place.error("a server needs an alias: a non-empty string", where)
        if alias in result:
            raise place.error(f"two servers have the alias {alias!r}; rename one", key)
        own = entry.get("alias") if is_mapping(entry) else None
        if own is not None and own != alias:
            raise place.error(f"{alias!r} calls itself otherwise; keep one alias", f"{key}.{alias}.alias")
        result[alias] = entry
    return result
