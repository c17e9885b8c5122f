"""Names of tools and arguments as Python identifiers: the same on every run, and no two alike."""

import builtins
import keyword
import re
from collections.abc import Iterable, Mapping
from hashlib import sha256

_WORD = re.compile(r"[^\W\d]\w*")
_RESERVED = frozenset(dir(builtins)) | {
    *keyword.kwlist,
    *keyword.softkwlist,
    *("Any", "Literal", "NotRequired", "TypedDict", "asyncio"),
}
"""What a script or a stub needs under its own name."""


def identifier(name: str) -> str:
    """The name as an identifier: `get-user` is `get_user`, `class` is `class_`."""
    text = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
    # A stub whose name begins with an underscore would be private to the stubs.
    text = text.lstrip("_") or "tool"
    if text[0].isdigit():
        text = f"tool_{text}"
    return f"{text}_" if text in _RESERVED else text


def identifiers(names: Iterable[str]) -> dict[str, str]:
    """The names by their identifiers; where several would share one, those that differ take a digest."""
    every = list(names)
    exact = {name for name in every if identifier(name) == name}
    found: dict[str, str] = {}
    shared: dict[str, list[str]] = {}
    for name in every:
        shared.setdefault(identifier(name), []).append(name)
    for text, those in shared.items():
        for name in those:
            is_alone = len(those) == 1 or name in exact
            # A digest of the name, not a number, which would depend on the other tools.
            found[text if is_alone else f"{text}_{sha256(name.encode()).hexdigest()[:6]}"] = name
    return found


def words(text: str) -> set[str]:
    """All words of a script that may be names, those in texts and comments included."""
    return set(_WORD.findall(text))


def argument_names(properties: Mapping[str, object]) -> dict[str, str]:
    """The names of arguments by their identifiers; a keyword, or a name that is taken, gets a suffix."""
    found: dict[str, str] = {}
    for name in properties:
        text = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
        text = f"_{text}" if text[0].isdigit() else text
        text = f"{text}_" if keyword.iskeyword(text) else text
        while text in found or (text != name and text in properties):
            text += "_"
        found[text] = name
    return found
