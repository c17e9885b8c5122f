"""Give every tool a name that is legal, unique, and the same on every run.

A legal name is one that every provider accepts: 1 to 64 characters of `[A-Za-z0-9_-]`. Names are never
parsed: a call uses the tool's origin.

A name must not depend on which servers are up, or prompts that quote it would break. So conflicts
between servers are resolved from the config alone: a name belongs to the server with the longest
matching prefix (`google_drive_search` to `google_drive`, not to `google`), and a tool of any other
server with that name gets a digest of its origin. A name set by a shaper is used as it is, before all
others. The bus's own tools keep their names: no server's tool gets one of them.
"""

import re
from collections.abc import Collection, Mapping
from hashlib import sha256

from toolbus.core.records import OWN, Origin, ToolSpec
from toolbus.shape.pipeline import Shaper

MAX_LENGTH = 64
# Reserved from the start: it joins the catalog late, and must not rename another tool then.
_ALWAYS_RESERVED = frozenset({"read_result"})
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")


def named(template: str, prefixes: Mapping[str, str | None], reserved: Collection[str] = ()) -> Shaper:
    """A shaper that names tools after `template`: "auto", or a text with `{server}` and `{tool}`.

    `prefixes` holds every server of the config in its order, with the prefix to use instead of the
    alias, if there is one. With an empty prefix, tools keep the server's names. `reserved` are the names of
    the bus's own tools.
    """
    words = {alias: _legal(alias if prefix is None else prefix) for alias, prefix in prefixes.items()}
    starts = {alias: _prefix_of(template, word) for alias, word in words.items()}
    known = set(starts.values())
    lengths = sorted({len(start) for start in known}, reverse=True)
    order = {alias: place for place, alias in enumerate(words)}
    # Of aliases that are the same once they are legal, the first keeps the names. Servers that share a
    # configured prefix share its names, as with a template without `{server}`.
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
            is_renamed = tool.name != own
            name = (
                _legal(tool.name) or "_"
                if is_renamed
                else _legal(template_name(template, words[server], own)) or "_"
            )
            owner = next((name[:length] for length in lengths if name[:length] in known), "")
            is_duplicate = prefixes[server] is None and first.get(words[server], server) != server
            is_foreign = not is_renamed and (is_duplicate or len(starts[server]) < len(owner))
            # The owner of a name comes first; then tools that already had it; then config order and
            # name, never order of arrival.
            claims.append(
                (not is_renamed, is_foreign, _legal(own) != own, name != own, order[server], own, name, tool)
            )
        taken = {*_ALWAYS_RESERVED, *reserved, *names.values()}
        for _, is_foreign, *_, preferred, tool in sorted(claims, key=lambda claim: claim[:6]):
            name = _fitted(preferred, tool.origin, distinct=is_foreign)
            while name in taken:
                name = _fitted(name, tool.origin, distinct=True)
            taken.add(name)
            names[tool.origin] = name
        return [tool.renamed(names[tool.origin]) for tool in tools]

    return name_all


def prefixed(prefix: str) -> Shaper:
    """A shaper that renames tools to `{prefix}_{tool}`."""
    start = f"{prefix}_" if prefix else ""

    def name_all(tools: list[ToolSpec]) -> list[ToolSpec]:
        bare = [
            tool if tool.origin.server == OWN else tool.renamed(f"{start}{_own_name(tool)}") for tool in tools
        ]
        return named("{tool}", {tool.origin.server: "" for tool in tools})(bare)

    return name_all


def _own_name(tool: ToolSpec) -> str:
    """The server's name of the tool, or the one set by a shaper."""
    given = any("name" in change.fields for change in tool.history)
    return tool.name if given else tool.origin.tool


def may_name(template: str, prefixes: Mapping[str, str | None], server: str, name: str) -> bool:
    """Whether a tool of that server could get that name; for servers that have not been listed yet."""
    prefix = prefixes[server]
    return name.startswith(_prefix_of(template, _legal(server if prefix is None else prefix)))


def _legal(text: str) -> str:
    return _ILLEGAL.sub("_", text)


def template_name(template: str, word: str, tool: str) -> str:
    """The name according to the template, legal or not; `word` stands for the server."""
    if template == "auto":
        prefix = f"{word}_" if word else ""
        # git's `git_log` already names its server.
        return tool if tool.startswith(prefix) else prefix + tool
    return template.replace("{server}", word).replace("{tool}", tool)


def _prefix_of(template: str, word: str) -> str:
    """The prefix of all names of a server."""
    if template == "auto":
        return f"{word}_" if word else ""
    return _legal(template.split("{tool}")[0].replace("{server}", word))


def _fitted(name: str, origin: Origin, *, distinct: bool) -> str:
    if len(name) <= MAX_LENGTH and not distinct:
        return name
    # Digest of the origin, not a counter: a counter would rename every later
    # tool when one server is added, and break prompts that quote the name.
    digest = sha256(f"{origin.server}\0{origin.tool}\0{name if distinct else ''}".encode()).hexdigest()[:8]
    return f"{name[: MAX_LENGTH - 9]}_{digest}"
