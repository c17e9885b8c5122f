"""What the shell completes: servers of the config, the rest from the last listing.

It starts nothing, asks nothing and resolves nothing. `shells.py` decides which names are safe to print.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import typer

from toolbus.cli.completion.listings import LARGEST, offers


def tool_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Public names that begin so."""
    return [
        name
        for tools in offers(_config_of(ctx), "tools").values()
        for name in tools
        if name.startswith(incomplete)
    ]


def argument_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Arguments of the tool on the line, as far as they are not given yet."""
    name = ctx.params.get("name") or ""
    tools = offers(_config_of(ctx), "tools").values()
    known = [own[name] for own in tools if name in own]
    return _left(known[:1], ctx.params.get("words") or (), incomplete)


def server_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Servers of the config that are on and begin so; the config is only parsed."""
    return _aliases(ctx, incomplete, with_those_off=False)


def all_server_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """The same, with those that are switched off."""
    return _aliases(ctx, incomplete, with_those_off=True)


def _aliases(ctx: typer.Context, incomplete: str, *, with_those_off: bool) -> list[str]:
    from toolbus.config.dialects import container
    from toolbus.config.entry import is_switched_off
    from toolbus.config.location import Location
    from toolbus.config.read import read_document
    from toolbus.core.errors import ConfigError

    file = Path(_config_of(ctx) or "")
    place = Location(file=str(file))
    try:
        if file.stat().st_size > LARGEST:
            return []
        entries = container(read_document(file), place).entries
        return [
            alias
            for alias, entry in entries.items()
            if alias.startswith(incomplete) and (with_those_off or not is_switched_off(entry, place))
        ]
    except (OSError, ConfigError):
        return []


def prompt_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Prompts as `server/name`, or also by the name alone."""
    found = [(alias, name) for alias, own in offers(_config_of(ctx), "prompts").items() for name in own]
    full = [f"{alias}/{name}" for alias, name in found]
    return [name for name in full if name.startswith(incomplete)] or [
        name for _, name in found if name.startswith(incomplete)
    ]


def prompt_arguments(ctx: typer.Context, incomplete: str) -> list[str]:
    """Arguments of the prompt on the line that are not given yet."""
    name: str = ctx.params.get("name") or ""
    known = [
        arguments
        for alias, prompts in offers(_config_of(ctx), "prompts").items()
        for own, arguments in prompts.items()
        if name in (own, f"{alias}/{own}")
    ]
    return _left(known, ctx.params.get("words") or (), incomplete)


def read_words(ctx: typer.Context, incomplete: str) -> list[str]:
    """A server, what can be read there, and what a template needs."""
    listed = offers(_config_of(ctx), "uris")
    first: str | None = ctx.params.get("first")
    given: list[str] = [*([first] if first else []), *(ctx.params.get("words") or ())]
    is_named = bool(given) and given[0] in listed
    if is_named:
        listed, given = {given[0]: listed[given[0]]}, given[1:]
    if given:
        return _left([uris[given[0]] for uris in listed.values() if given[0] in uris], given[1:], incomplete)
    # Without its server, only what no other server has can be read.
    often = Counter(uri for own in listed.values() for uri in own)
    uris = [uri for uri, count in often.items() if uri.startswith(incomplete) and count == 1]
    return ([] if is_named else server_names(ctx, incomplete)) + uris


def editor_names(incomplete: str) -> list[str]:
    """Whose config can be taken over."""
    from toolbus.config.importing.editors import EDITORS

    return [name for name in EDITORS if name.startswith(incomplete)]


def _left(known: Sequence[Sequence[str]], words: Sequence[str], incomplete: str) -> list[str]:
    """The arguments that begin so and are not given yet, of what only one server has."""
    given = {word.partition("=")[0] for word in words}
    arguments = known[0] if len(known) == 1 else ()
    return [f"{name}=" for name in arguments if name.startswith(incomplete) and name not in given]


def _config_of(ctx: typer.Context) -> str | None:
    """The config of the line that is being completed."""
    own: Path | None = ctx.params.get("config")
    outer: Path | None = ctx.parent.params.get("config") if ctx.parent else None
    if named := own or outer:
        return str(named)
    from toolbus.config import find_config
    from toolbus.core.errors import ConfigError

    try:
        return str(find_config())
    except ConfigError:
        return None
