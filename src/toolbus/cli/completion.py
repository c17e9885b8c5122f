"""What the shell completes: servers of the config, the rest from the last listing.

Nothing is started for a name. Only the values of an argument are asked for: the server itself knows them.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import typer

from toolbus.cli.listings import offers

Choices = list[tuple[str, str]]


def tool_names(ctx: typer.Context, incomplete: str) -> Choices:
    """Public names that begin so."""
    return [
        (name, tool["about"])
        for tools in offers(_config_of(ctx), "tools").values()
        for name, tool in tools.items()
        if name.startswith(incomplete)
    ]


def argument_names(ctx: typer.Context, incomplete: str) -> Choices:
    """Arguments of the tool on the line, as far as they are not given yet."""
    name = ctx.params.get("name") or ""
    tools = offers(_config_of(ctx), "tools").values()
    known = next((own[name]["arguments"] for own in tools if name in own), ())
    return _left(known, ctx.params.get("words") or (), incomplete)


def server_names(ctx: typer.Context, incomplete: str) -> Choices:
    """Servers of the config that begin so."""
    from toolbus.config import find_config, load_config
    from toolbus.errors import ConfigError

    try:
        config = load_config(_config_of(ctx) or find_config())
    except ConfigError:
        return []
    return [
        (alias, server.transport) for alias, server in config.servers.items() if alias.startswith(incomplete)
    ]


def prompt_names(ctx: typer.Context, incomplete: str) -> Choices:
    """Prompts as `server/name`, or also by the name alone."""
    listed = offers(_config_of(ctx), "prompts")
    found = [(alias, name, prompt["about"]) for alias, own in listed.items() for name, prompt in own.items()]
    full = [(f"{alias}/{name}", about) for alias, name, about in found]
    return [(name, about) for name, about in full if name.startswith(incomplete)] or [
        (name, about) for _, name, about in found if name.startswith(incomplete)
    ]


def prompt_arguments(ctx: typer.Context, incomplete: str) -> Choices:
    """Arguments of the prompt on the line that are not given yet; after the `=`, what it may be."""
    name: str = ctx.params.get("name") or ""
    whose = [
        (alias, own, prompt["arguments"])
        for alias, prompts in offers(_config_of(ctx), "prompts").items()
        for own, prompt in prompts.items()
        if name in (own, f"{alias}/{own}")
    ]
    return _argument(ctx, whose, ctx.params.get("words") or (), incomplete)


def read_words(ctx: typer.Context, incomplete: str) -> Choices:
    """A server, what can be read there, and what a template needs; after the `=`, what that may be."""
    listed = offers(_config_of(ctx), "uris")
    first: str | None = ctx.params.get("first")
    given: list[str] = [*([first] if first else []), *(ctx.params.get("words") or ())]
    is_named = bool(given) and given[0] in listed
    if is_named:
        listed, given = {given[0]: listed[given[0]]}, given[1:]
    if given:
        whose = [
            (alias, given[0], uris[given[0]]["arguments"])
            for alias, uris in listed.items()
            if given[0] in uris
        ]
        return _argument(ctx, whose, given[1:], incomplete)
    # Without its server, only what no other server has can be read.
    often = Counter(uri for own in listed.values() for uri in own)
    uris = [
        (uri, offer["about"])
        for own in listed.values()
        for uri, offer in own.items()
        if uri.startswith(incomplete) and often[uri] == 1
    ]
    return ([] if is_named else server_names(ctx, incomplete)) + uris


def editor_names(incomplete: str) -> Choices:
    """Whose config can be taken over."""
    from toolbus.config.editors import EDITORS

    return [(name, "") for name in EDITORS if name.startswith(incomplete)]


def _left(arguments: Sequence[str], words: Sequence[str], incomplete: str) -> Choices:
    """The arguments that begin so, and are not given yet."""
    given = {word.partition("=")[0] for word in words}
    return [(f"{name}=", "") for name in arguments if name.startswith(incomplete) and name not in given]


def _argument(
    ctx: typer.Context,
    whose: Sequence[tuple[str, str, Sequence[str]]],
    words: Sequence[str],
    incomplete: str,
) -> Choices:
    """The next argument of what only one server has: its name, or what its server says that it may be."""
    if len(whose) != 1:
        return []
    ((server, name, arguments),) = whose
    argument, equals, begun = incomplete.partition("=")
    if not equals:
        return _left(arguments, words, incomplete)
    from toolbus.cli.suggested import Wanted, suggested

    known = dict(word.split("=", 1) for word in words if "=" in word)
    wanted = Wanted(server=server, name=name, argument=argument, begun=begun, known=known)
    return [(f"{argument}={value}", "") for value in suggested(_config_of(ctx), wanted)]


def _config_of(ctx: typer.Context) -> str | None:
    """The config of the line that is being completed."""
    own: Path | None = ctx.params.get("config")
    outer: Path | None = ctx.parent.params.get("config") if ctx.parent else None
    if named := own or outer:
        return str(named)
    from toolbus.config import find_config
    from toolbus.errors import ConfigError

    try:
        return str(find_config())
    except ConfigError:
        return None
