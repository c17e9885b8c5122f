"""Give every tool a name that is legal, unique, and the same on every run.

A legal name is one that every provider accepts: 1 to 64 characters of `[A-Za-z0-9_-]`. Names are never
parsed: a call uses the tool's origin.

A name must not depend on which servers are up, or prompts that quote it would break. So conflicts between
servers are resolved from the config alone. A name belongs to the server with the longest matching prefix:
`google_drive_search` to `google_drive`, not to `google`. A tool of any other server with that name gets a
digest of its origin. With "auto", even `google-search` and `googleSearch` have the prefix `google`. A name
set by a shaper is used as it is and takes precedence. The bus's own tools keep their names: no server's tool
gets one of them.
"""

import re
from collections.abc import Collection, Mapping
from hashlib import sha256

from toolbus.core.values.records import OWN, Origin, ToolSpec
from toolbus.shape.pipeline import Shaper

MAX_LENGTH = 64
# Reserved from the start: they join late, or in some views, and must not rename another tool then.
_ALWAYS_RESERVED = frozenset({"read_result", "search_tools", "call_tool", "call_read_tool", "run_code"})
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
    is_prefix = _names_server if template == "auto" else str.startswith
    order = {alias: place for place, alias in enumerate(words)}
    # Of aliases that are the same once they are legal, the first keeps the names. Servers that share a
    # configured prefix share its names, as with a template without `{server}`.
    first: dict[str, str] = {}
    for alias, prefix in prefixes.items():
        if prefix is None and (template == "auto" or "{server}" in template):
            first.setdefault(words[alias], alias)
    is_duplicate = {
        alias: prefix is None and first.get(words[alias], alias) != alias
        for alias, prefix in prefixes.items()
    }

    def wanted_by(tool: ToolSpec) -> tuple[str, bool]:
        """The name of a tool if no other tool wants it, and whether it belongs to another server."""
        server, own = tool.origin.server, tool.origin.tool
        if tool.name != own:  # a shaper set it
            return _legal(tool.name) or "_", False
        name = _legal(template_name(template, words[server], own)) or "_"
        owners = (name[:length] for length in lengths if name[:length] in known)
        owner = next((start for start in owners if is_prefix(name, start)), "")
        return name, is_duplicate[server] or len(starts[server]) < len(owner)

    def name_all(tools: list[ToolSpec]) -> list[ToolSpec]:
        taken = {*_ALWAYS_RESERVED, *reserved, *(tool.name for tool in tools if tool.origin.server == OWN)}
        others = [tool for tool in tools if tool.origin.server != OWN]
        wanted = [wanted_by(tool) for tool in others]
        free = {name for name, is_foreign in wanted if not is_foreign and len(name) <= MAX_LENGTH} - taken
        if len(free) == len(others):  # the usual case: every tool gets the name that it wants
            names = [name for name, _ in wanted]
        else:
            names = _distributed(others, wanted, order, taken)
        named_tools = map(ToolSpec.renamed, others, names)
        return [tool if tool.origin.server == OWN else next(named_tools) for tool in tools]

    return name_all


def _distributed(
    tools: list[ToolSpec], wanted: list[tuple[str, bool]], order: Mapping[str, int], taken: set[str]
) -> list[str]:
    """A name for each tool where some want the same one."""

    def rank(index: int) -> tuple[bool, bool, bool, bool, int, str]:
        # The owner of a name comes first; then tools that already had it; then config order and
        # name, never order of arrival.
        (name, is_foreign), origin = wanted[index], tools[index].origin
        is_renamed, is_legal = tools[index].name != origin.tool, _legal(origin.tool) == origin.tool
        return (
            not is_renamed,
            is_foreign,
            not is_legal,
            name != origin.tool,
            order[origin.server],
            origin.tool,
        )

    names = [""] * len(tools)
    for index in sorted(range(len(tools)), key=rank):
        (preferred, is_foreign), origin = wanted[index], tools[index].origin
        name = _fitted(preferred, origin, distinct=is_foreign)
        while name in taken:
            name = _fitted(name, origin, distinct=True)
        taken.add(name)
        names[index] = name
    return names


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
    start = _prefix_of(template, _legal(server if prefix is None else prefix))
    return _names_server(name, start) if template == "auto" else name.startswith(start)


def _legal(text: str) -> str:
    return _ILLEGAL.sub("_", text)


def template_name(template: str, word: str, tool: str) -> str:
    """The name according to the template, legal or not; `word` stands for the server."""
    if template == "auto":
        # git's `git_log` already names its server.
        return tool if _names_server(_legal(tool), word) else f"{word}_{tool}"
    return template.replace("{server}", word).replace("{tool}", tool)


def _names_server(name: str, word: str) -> bool:
    """Whether a legal name begins with the name of a server, as a word: `git_log`, `git-log` or `gitLog`."""
    last, following = word[-1:], name[len(word) : len(word) + 1]
    is_word = following in ("_", "-") or (following.isupper() and not last.isupper())
    return not word or (name.startswith(word) and is_word)


def _prefix_of(template: str, word: str) -> str:
    if template == "auto":
        return word
    return _legal(template.split("{tool}")[0].replace("{server}", word))


def _fitted(name: str, origin: Origin, *, distinct: bool) -> str:
    if len(name) <= MAX_LENGTH and not distinct:
        return name
    # Digest of the origin, not a counter: a counter would rename every later
    # tool when one server is added, and break prompts that quote the name.
    digest = sha256(f"{origin.server}\0{origin.tool}\0{name if distinct else ''}".encode()).hexdigest()[:8]
    return f"{name[: MAX_LENGTH - 9]}_{digest}"
