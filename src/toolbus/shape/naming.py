"""Give every tool a name that is legal, unique, and the same on every run.

Legal is what every provider takes: 1 to 64 characters of `[A-Za-z0-9_-]`. The name is never
parsed: a call follows the tool's origin.

Which servers happen to be up must not change a name, or prompts that quote it would break. So a
clash between servers is settled from the config alone: a name belongs to the server with the
longest prefix that fits it (`google_drive_search` to `google_drive`, not to `google`), and a tool
of any other server that spells it takes a digest of its origin. A name that a shaper gave is taken
to the letter, before all others. The bus's own tools keep their names: no tool of a server gets one.
"""

import re
from collections.abc import Collection, Mapping
from hashlib import sha256

from toolbus.core.records import OWN, Origin, ToolSpec
from toolbus.shape.pipeline import Shaper

LONGEST = 64
# ResultStore free from the start: it joins the catalog late, and no other tool is to be renamed by that.
_ALWAYS_RESERVED = frozenset({"read_result"})
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")


def named(template: str, prefixes: Mapping[str, str | None], reserved: Collection[str] = ()) -> Shaper:
    """A shaper that names tools after `template`: "auto", or a text with `{server}` and `{tool}`.

    `prefixes` holds every server of the config in its order, with the prefix to use instead of the
    alias, if it has one. An empty prefix gives the server's own names. `reserved` are names of the bus's
    own tools.
    """
    words = {alias: _legal(alias if prefix is None else prefix) for alias, prefix in prefixes.items()}
    spaces = {alias: _space(template, word) for alias, word in words.items()}
    known = set(spaces.values())
    lengths = sorted({len(space) for space in known}, reverse=True)
    order = {alias: place for place, alias in enumerate(words)}
    # Aliases that become one when they are made legal: the first keeps the names. Two servers that are
    # given one prefix on purpose share its names, as those of a template without `{server}` do.
    first: dict[str, str] = {}
    for alias, prefix in prefixes.items():
        if prefix is None and (template == "auto" or "{server}" in template):
            first.setdefault(words[alias], alias)

    def name_all(tools: list[ToolSpec]) -> list[ToolSpec]:
        claims: list[tuple[bool, bool, bool, bool, int, str, str, ToolSpec]] = []
        names = {tool.origin: tool.name for tool in tools if tool.origin.server == OWN}
        for tool in tools:
            if tool.origin in names:
                continue
            server, own = tool.origin.server, tool.origin.tool
            given = tool.name != own
            name = _legal(tool.name) or "_" if given else _wanted(template, words[server], tool.origin)
            owner = next((name[:length] for length in lengths if name[:length] in known), "")
            twin = prefixes[server] is None and first.get(words[server], server) != server
            stranger = not given and (twin or len(spaces[server]) < len(owner))
            # The rightful owner of a name first; then tools that had it already; then by the order
            # of the config and the name, never by the order of arrival.
            claims.append(
                (not given, stranger, _legal(own) != own, name != own, order[server], own, name, tool)
            )
        taken = {*_ALWAYS_RESERVED, *reserved, *names.values()}
        for _, stranger, *_, wanted, tool in sorted(claims, key=lambda claim: claim[:6]):
            name = _fitted(wanted, tool.origin, distinct=stranger)
            while name in taken:
                name = _fitted(name, tool.origin, distinct=True)
            taken.add(name)
            names[tool.origin] = name
        return [tool.under(names[tool.origin]) for tool in tools]

    return name_all


def prefixed(prefix: str) -> Shaper:
    """A shaper that names tools, which may have been named before, `{prefix}_{tool}`."""
    start = f"{prefix}_" if prefix else ""

    def name_all(tools: list[ToolSpec]) -> list[ToolSpec]:
        bare = [
            tool if tool.origin.server == OWN else tool.under(f"{start}{_own_name(tool)}") for tool in tools
        ]
        return named("{tool}", {tool.origin.server: "" for tool in tools})(bare)

    return name_all


def _own_name(tool: ToolSpec) -> str:
    """The server's name of the tool, or the one that a shaper gave it."""
    given = any("name" in change.fields for change in tool.history)
    return tool.name if given else tool.origin.tool


def may_name(template: str, prefixes: Mapping[str, str | None], server: str, name: str) -> bool:
    """Whether a tool of that server might be called so; for servers that are not listed yet."""
    prefix = prefixes[server]
    return name.startswith(_space(template, _legal(server if prefix is None else prefix)))


def _legal(text: str) -> str:
    return _ILLEGAL.sub("_", text)


def spelt(template: str, word: str, tool: str) -> str:
    """The name that the template alone gives, legal or not; `word` stands for the server."""
    if template == "auto":
        prefix = f"{word}_" if word else ""
        # git's `git_log` says whose it is already.
        return tool if tool.startswith(prefix) else prefix + tool
    return template.replace("{server}", word).replace("{tool}", tool)


def _wanted(template: str, word: str, origin: Origin) -> str:
    return _legal(spelt(template, word, origin.tool)) or "_"


def _space(template: str, word: str) -> str:
    """What every name of a server begins with."""
    if template == "auto":
        return f"{word}_" if word else ""
    return _legal(template.split("{tool}")[0].replace("{server}", word))


def _fitted(name: str, origin: Origin, *, distinct: bool) -> str:
    if len(name) <= LONGEST and not distinct:
        return name
    # Digest of the origin, not a counter: a counter would rename every later
    # tool when one server is added, and break prompts that quote the name.
    digest = sha256(f"{origin.server}\0{origin.tool}\0{name if distinct else ''}".encode()).hexdigest()[:8]
    return f"{name[: LONGEST - 9]}_{digest}"
