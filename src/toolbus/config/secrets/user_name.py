"""The name of a user in the config of a server: part of a path, of a command line, of a URL or of a header.

The name comes from a token or a key, so somebody may have chosen it to reach what is not theirs. A name that
could be more than a name where it stands is refused: that user cannot use the server, all others can.
"""

import os
import re
import unicodedata
from urllib.parse import quote

_TEXTS = ("env.", "headers.", "auth.")
"""Fields whose whole value may be any name."""
_PATHS = ("cwd", "env_file", "sandbox.")
_SEPARATORS = "/\\" if os.name != "nt" else "/\\:"
_SIGNS = "._@+-:|"
"""What a name may have besides letters and digits within a text of which nobody knows who reads it."""
_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_SHOWN = 80


class NotUsable(Exception):
    """The name of a user cannot be used in a field; the text is the reason."""

    def __init__(self, user: str, reason: str) -> None:
        shown = user if len(user) <= _SHOWN else f"{user[:_SHOWN]}..."
        super().__init__(f"the name of the user, {shown!a}, cannot be used here: {reason}")


def placed(user: str, field: str, before: str, after: str) -> str:
    """The name as it stands in a field, between these texts; `NotUsable` if it would be more than a name."""
    if reason := _reason(user, field, before, after):
        raise NotUsable(user, reason)
    return quote(user, safe="@") if field == "url" else user


def _reason(user: str, field: str, before: str, after: str) -> str | None:
    """Why a name cannot be used."""
    if not user.isprintable():
        return "it has control characters or invisible ones"
    is_whole = not before and not after
    if is_whole and field.startswith(_TEXTS):
        return None
    if any(sign in user for sign in _SEPARATORS):
        return "it has a slash or a backslash"
    if user.startswith((".", "~", " ")) or user.endswith((".", " ")):
        return "it begins or ends with a dot, a tilde or a space"
    if unicodedata.normalize("NFC", user) != user:  # for some file systems, it is another name as well
        return "its characters are not in the normal form (NFC)"
    if field.startswith(_PATHS):
        return None
    if field == "url":
        is_host = not re.search(r"://[^/?#]*[/?#]", before)
        return (
            "the host of a URL has letters and digits only"
            if is_host and not _LABEL.fullmatch(user)
            else None
        )
    if user.startswith("-") and (not before or before[-1].isspace()):
        return "it begins with a dash, like an option"
    # A batch file on Windows takes even a whole argument apart.
    return None if is_whole and os.name != "nt" else _reason_within(user, before + after)


def _reason_within(user: str, around: str) -> str | None:
    """Why a name cannot be part of a longer text, which a shell, a driver or a parser may take apart."""
    signs = _SIGNS.replace("|", "") if re.search(r"\s", around) else _SIGNS
    if all(sign.isalnum() or sign in signs or unicodedata.category(sign)[0] == "M" for sign in user):
        return None
    return f"within a longer text, it may have letters, digits and {signs}"
