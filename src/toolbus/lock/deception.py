"""Signs of deception in definitions: look-alike names, hidden or injected instructions.

They are warnings for people who review, never a reason to block: plain descriptions may contain any of them.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from toolbus.core.text.lookalikes import look, looks
from toolbus.core.text.text import cleaned, strings
from toolbus.lock.definitions import KINDS
from toolbus.lock.file import LockedServer

_SCRIPTS = (
    *("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "HEBREW", "ARABIC"),
    *("FULLWIDTH", "MATHEMATICAL"),
)
"""Scripts whose letters look like Latin ones; others, such as Japanese next to Latin, are ordinary."""
_LINE_ENDS = re.compile(r"\r\n?|[\v\f]")
_OTHERS = r"(?:previous|prior|preceding|above|earlier|other|all|any|your|system|safety)"
_SECRET_FILES = (
    *(r"\.ssh", r"\.aws", r"\.gnupg", r"\.kube", r"\.netrc", r"\.npmrc", r"\.pypirc", r"\.pgpass", r"\.env"),
    *(r"\.git-credentials", r"\.bash_history", r"\.docker/config\.json", r"\.cursor/mcp\.json"),
)
_INSTRUCTIONS: Mapping[str, re.Pattern[str]] = {
    "asks to ignore other instructions": re.compile(
        rf"\b(?:ignore|disregard|forget|override|bypass)\s+(?:\w+\s+){{0,3}}?{_OTHERS}\s+(?:\w+\s+){{0,2}}?"
        r"(?:instructions?|prompts?|rules?|guidelines|messages|polic(?:y|ies))\b",
        re.IGNORECASE,
    ),
    "asks to hide something from the user": re.compile(
        r"\b(?:do\s+not|don['\u2019]?t|never|without)\s+(?:\w+\s+){0,2}?"
        r"(?:tell|mention|inform|notify|reveal|show|ask|alert)(?:ing|ying)?\b[^.]{0,60}\b(?:user|human|person)\b"
        r"|\b(?:hide|conceal|keep)\b[^.]{0,40}\b(?:secret\s+)?from\s+the\s+(?:user|human|person)\b",
        re.IGNORECASE,
    ),
    "claims authority": re.compile(
        r"<\s*/?\s*(?:important|system|secret|instructions?|admin|critical)(?![\w-])[^>]{0,100}>|\[/?(?:system|inst)\]|<\|\w+\|>",
        re.IGNORECASE,
    ),
    "names files that hold secrets": re.compile(
        rf"(?:(?<![\w.])(?:{'|'.join(_SECRET_FILES)})(?![\w-])|\bid_(?:rsa|ed25519)\b|/etc/(?:passwd|shadow)\b)",
        re.IGNORECASE,
    ),
    "contains a comment that is not shown as text": re.compile(r"<!--[^>]{0,200}>?"),
}
_LEAST_NAME = 6
"""Shorter names are ordinary words."""
_MOST_TWINS = 3
"""Names that a warning about a name lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspicion:
    """A sign of deception, for a person to judge."""

    server: str
    tool: str
    """The name of the tool, prompt or template; empty for the instructions of the server."""
    reason: str


def suspicions(servers: Mapping[str, LockedServer]) -> list[Suspicion]:
    """The signs of deception in what these servers offer."""
    names = {
        alias: {kind: list(server.definitions[kind]) for kind in KINDS} for alias, server in servers.items()
    }
    tools = {alias: kinds["tools"] for alias, kinds in names.items()}
    return list(
        dict.fromkeys(
            [
                *_mixed_names(
                    (alias, name) for alias, kinds in names.items() for own in kinds.values() for name in own
                ),
                *_similar_names(tools),
                *_texts(servers, tools),
            ]
        )
    )


def _mixed_names(names: Iterable[tuple[str, str]]) -> Iterator[Suspicion]:
    for alias, name in names:
        if (reason := _mixed(name)) is not None:
            yield Suspicion(server=alias, tool=name, reason=reason)
        elif _has_hidden(name):
            yield Suspicion(server=alias, tool=name, reason="its name contains invisible characters")


def _mixed(name: str) -> str | None:
    """The deception in a word of a name; a name may have words in several scripts."""
    for word in re.split(r"[\W\d_]+", name):
        scripts = _scripts(word)
        if len(scripts) > 1:
            found = " and ".join(sorted(script.title() for script in scripts))
            return f"its name {name!a} mixes letters of {found}"
        if scripts - {"LATIN"} and look(word).isascii():
            return f"its name {name!a} looks Latin, but is written in {next(iter(scripts)).title()}"
    return None


def _similar_names(tools: Mapping[str, list[str]]) -> Iterator[Suspicion]:
    """Names that are different, and look the same."""
    alike: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for alias, names in tools.items():
        for name in names:
            alike[_skeleton(name)].append((alias, name))
    for same in alike.values():
        for alias, name in same if len(same) > 1 else ():
            others = islice((f"{other}/{twin}" for other, twin in same if twin != name), _MOST_TWINS)
            if named := ", ".join(others):
                more = ", and others" if len(same) > _MOST_TWINS + 1 else ""
                yield Suspicion(server=alias, tool=name, reason=f"its name looks like {named}{more}")


def _texts(servers: Mapping[str, LockedServer], tools: Mapping[str, list[str]]) -> Iterator[Suspicion]:
    bare = {alias: [(name, _bare(name)) for name in names] for alias, names in tools.items()}
    for alias, server in servers.items():
        own = {_bare(name) for kind in KINDS for name in server.definitions[kind]}
        own |= {_bare(alias) + name for name in own}
        others = (pair for other, pairs in bare.items() if other != alias for pair in pairs)
        foreign = _any_of(name for name, plain in others if plain not in own)
        for kind in KINDS:
            for name, definition in server.definitions[kind].items():
                text = "\n".join(strings(definition))
                yield from _in_text(alias, name, text, foreign, own)
        yield from _in_text(alias, "", server.instructions, foreign, own)


def _in_text(
    server: str, tool: str, text: str, foreign: re.Pattern[str] | None, own: Collection[str]
) -> Iterator[Suspicion]:
    if _has_hidden(text):
        yield Suspicion(server=server, tool=tool, reason="its text contains invisible characters")
    for reason, pattern in _INSTRUCTIONS.items():
        if found := pattern.search(text):
            quote = " ".join(cleaned(found.group()).split())
            shown = quote if len(quote) <= 60 else f"{quote[:57]}..."
            yield Suspicion(server=server, tool=tool, reason=f"its text {reason}: {shown!r}")
    # `files.read_file` is a tool of the server `files`, even if another server has a `read_file`.
    mentions = () if foreign is None else foreign.finditer(text)
    if (other := next((one[1] for one in mentions if _bare(one.group()) not in own), None)) is not None:
        yield Suspicion(
            server=server, tool=tool, reason=f"its text mentions a tool of another server: {other!r}"
        )


def _any_of(names: Iterable[str]) -> re.Pattern[str] | None:
    """A pattern for these names as whole words, if they are unlike ordinary words."""
    words = {name for name in names if len(name) >= _LEAST_NAME and re.search(r"[_\-A-Z]", name[1:])}
    if not words:
        return None
    named = "|".join(map(re.escape, sorted(words)))
    # With what it is qualified by, as in `server.tool`.
    return re.compile(rf"(?<![\w-])(?:[\w-]{{1,64}}[./:]){{0,3}}({named})(?![\w-])")


def _bare(name: str) -> str:
    """A name without the signs between its words."""
    return "".join(filter(str.isalnum, name)).casefold()


def _has_hidden(text: str) -> bool:
    """Whether a text has characters that people do not see."""
    plain = _LINE_ENDS.sub("\n", text)
    return cleaned(plain) != plain


def _scripts(text: str) -> set[str]:
    names = (unicodedata.name(letter, "").split(" ")[0] for letter in text if letter.isalpha())
    return {name for name in names if name in _SCRIPTS}


def _skeleton(name: str) -> str:
    """The appearance of a name, with any sign between its words."""
    return looks(name)[2].replace("-", "_")
