"""Completion candidates: servers from the config, everything else from the listing cache.

Starts no server, asks nothing, resolves no reference. `shells.py` decides which names are safe to print.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import typer

from toolbus.cli.listing_cache import MAX_BYTES, offers, origins


def tool_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Tool names with this prefix."""
    return [
        name
        for tools in offers(_config_path(ctx), "tools").values()
        for name in tools
        if name.startswith(incomplete)
    ]


def tool_origins(ctx: typer.Context, incomplete: str) -> list[str]:
    """Servers, and their tools as `server/tool`."""
    listed = origins(_config_path(ctx))
    tools = [f"{alias}/{tool}" for alias, names in listed.items() for tool in names]
    return [*server_names(ctx, incomplete), *(name for name in tools if name.startswith(incomplete))]


def policy_targets(ctx: typer.Context, incomplete: str) -> list[str]:
    """What a policy decides about: tools, or with an option `server/uri`, `server/prompt` and requests."""
    from toolbus.config.settings.policy import REQUESTS

    path = _config_path(ctx)
    if ctx.params.get("resource"):
        names = [f"{alias}/{uri}" for alias, own in offers(path, "uris").items() for uri in own]
    elif ctx.params.get("prompt"):
        names = [f"{alias}/{name}" for alias, own in offers(path, "prompts").items() for name in own]
    elif ctx.params.get("request"):
        names = [f"{alias}/{request}" for alias in server_names(ctx, "") for request in REQUESTS]
    elif ctx.params.get("forget") or "/" in incomplete:
        return tool_origins(ctx, incomplete)
    else:
        return tool_names(ctx, incomplete)
    return [name for name in names if name.startswith(incomplete)]


def argument_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Arguments of the tool on the command line that are not given yet."""
    name = ctx.params.get("name") or ""
    tools = offers(_config_path(ctx), "tools").values()
    known = [own[name] for own in tools if name in own]
    return _remaining(known[:1], ctx.params.get("pairs") or (), incomplete)


def server_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Enabled servers in the config with this prefix."""
    return _matching_servers(ctx, incomplete, include_disabled=False)


def all_server_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """All servers in the config with this prefix, including disabled ones."""
    return _matching_servers(ctx, incomplete, include_disabled=True)


def _matching_servers(ctx: typer.Context, incomplete: str, *, include_disabled: bool) -> list[str]:
    from toolbus.config.hosts.dialects import container
    from toolbus.config.hosts.entry import is_switched_off
    from toolbus.config.hosts.read import read_document
    from toolbus.config.location import Location
    from toolbus.core.values.errors import ConfigError

    file = Path(_config_path(ctx) or "")
    place = Location(file=str(file))
    try:
        if file.stat().st_size > MAX_BYTES:
            return []
        entries = container(read_document(file), place).entries
        return [
            alias
            for alias, entry in entries.items()
            if alias.startswith(incomplete) and (include_disabled or not is_switched_off(entry, place))
        ]
    except (OSError, ConfigError):
        return []


def prompt_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Prompts as `server/name`, or else by name."""
    found = [(alias, name) for alias, own in offers(_config_path(ctx), "prompts").items() for name in own]
    full = [f"{alias}/{name}" for alias, name in found]
    return [name for name in full if name.startswith(incomplete)] or [
        name for _, name in found if name.startswith(incomplete)
    ]


def prompt_arguments(ctx: typer.Context, incomplete: str) -> list[str]:
    """Arguments of the prompt on the command line that are not given yet."""
    name: str = ctx.params.get("name") or ""
    known = [
        arguments
        for alias, prompts in offers(_config_path(ctx), "prompts").items()
        for own, arguments in prompts.items()
        if name in (own, f"{alias}/{own}")
    ]
    return _remaining(known, ctx.params.get("pairs") or (), incomplete)


def read_arguments(ctx: typer.Context, incomplete: str) -> list[str]:
    """Servers, their URIs, and the variables of a template."""
    listed = offers(_config_path(ctx), "uris")
    first: str | None = ctx.params.get("first")
    given: list[str] = [*([first] if first else []), *(ctx.params.get("pairs") or ())]
    is_named = bool(given) and given[0] in listed
    if is_named:
        listed, given = {given[0]: listed[given[0]]}, given[1:]
    if given:
        return _remaining(
            [uris[given[0]] for uris in listed.values() if given[0] in uris], given[1:], incomplete
        )
    # Without a server, offer only URIs that a single server has.
    counts = Counter(uri for own in listed.values() for uri in own)
    uris = [uri for uri, count in counts.items() if uri.startswith(incomplete) and count == 1]
    return ([] if is_named else server_names(ctx, incomplete)) + uris


def editor_names(incomplete: str) -> list[str]:
    """Editors whose config can be imported."""
    from toolbus.config.hosts.editors import EDITORS

    return [name for name in EDITORS if name.startswith(incomplete)]


def _remaining(known: Sequence[Sequence[str]], pairs: Sequence[str], incomplete: str) -> list[str]:
    """Arguments with this prefix that are not given yet; none if the name is ambiguous."""
    given = {word.partition("=")[0] for word in pairs}
    arguments = known[0] if len(known) == 1 else ()
    return [f"{name}=" for name in arguments if name.startswith(incomplete) and name not in given]


def _config_path(ctx: typer.Context) -> str | None:
    """The config that the command line refers to."""
    own: Path | None = ctx.params.get("config")
    outer: Path | None = ctx.parent.params.get("config") if ctx.parent else None
    if named := own or outer:
        return str(named)
    from toolbus.config import find_config
    from toolbus.core.values.errors import ConfigError

    try:
        return str(find_config())
    except ConfigError:
        return None
