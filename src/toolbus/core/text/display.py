"""The display of results, tools and names of hosts; a server's text is never interpreted."""

import json
import re
import shlex
from base64 import b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

from toolbus.core.text.text import cleaned

PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Images that a notebook shows; not SVG, because it can contain scripts."""
_TEXT = 60
_SIGNATURE = 90
_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
_PASSWORDS = re.compile(r"(://[^/@:\s]*:)[^@\s]*(?=@)|([?&]\w*password=)[^&\s]*", re.IGNORECASE)


def shortened(text: str, longest: int = _TEXT) -> str:
    """The text on one line, truncated if it is too long."""
    line = " ".join(cleaned(text[: 4 * longest]).split())
    return line if len(line) <= longest and len(text) <= 4 * longest else f"{line[: longest - 3].rstrip()}..."


def without_passwords(text: str) -> str:
    """The text, with the passwords of the URLs in it hidden."""
    return _PASSWORDS.sub(lambda found: f"{found[1] or found[2]}***", text)


def counted(number: int, what: str, several: str = "") -> str:
    """`1 tool`, `2 tools`; `several` is a plural without a plain s."""
    return f"{number} {what}" if number == 1 else f"{number} {several or f'{what}s'}"


def signature(name: str, arguments: Mapping[str, Any], required: Sequence[Any]) -> str:
    """A tool as a call: `search(query, limit=10)`; `arguments` are schemas by name."""
    needed = [argument for argument in arguments if argument in required]
    optional = [
        f"{argument}={_default(schema)}" for argument, schema in arguments.items() if argument not in required
    ]
    return f"{cleaned(name)}({shortened(', '.join([*needed, *optional]), _SIGNATURE)})"


def _default(schema: Any) -> str:
    value = schema.get("default") if isinstance(schema, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]  JSON
    if isinstance(value, str):
        return repr(shortened(value, 20))
    return shortened(repr(value), 20)  # pyright: ignore[reportUnknownArgumentType]  JSON


def result_line(text: str, structured: Any, others: Sequence[str], state: str) -> str:
    """A result on one line; `others` are the kinds of its blocks that are not text."""
    summary = repr(shortened(text)) if text else ""
    if not summary and structured is not None:
        summary = shortened(json.dumps(structured, ensure_ascii=False, default=str))
    kinds = ", ".join(counted(number, kind) for kind, number in Counter(others).items())
    return f"<ToolResult {' '.join(filter(None, [summary, kinds and f'[{kinds}]', state])) or 'empty'}>"


def mime_bundle(text: str, plain: str, pictures: Sequence[tuple[str, bytes]]) -> dict[str, str]:
    """The text and the images for a notebook; `plain` is shown if there is no text."""
    text = cleaned(text)
    shown = [(mime, b64encode(data).decode()) for mime, data in pictures if mime in PICTURES]
    bundle = {"text/plain": text or plain, **dict(reversed(shown))}  # the first of each type wins
    if len(shown) > 1 or (shown and text):
        images = "".join(f'<img src="data:{mime};base64,{data}">' for mime, data in shown)
        bundle["text/html"] = f"<pre>{escape(text)}</pre>{images}"
    return bundle


def login_line(server: str, user: str = "", scopes: str = "") -> str:
    """The command with which a person signs in."""
    words = ["toolbus", "login", server]
    words += ["--user", user] if user else []
    words += ["--scopes", scopes] if scopes else []
    return shlex.join(words)


def in_seconds(seconds: float) -> str:
    """The duration for a message: `5 s`, not `4.99999 s`."""
    return f"{round(seconds, 2) or seconds:g} s"


def duration(seconds: float) -> str:
    """A duration for people: `0.4 ms`, `35 ms`, `1.2 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`."""
    if seconds < 0.01:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for (unit, size), (smaller, part) in pairwise(_UNITS):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"


def over_limit(size: int) -> str:
    """That something exceeds `limits.message`: `is larger than 64 MiB (limits.message)`."""
    shown = f"{size / 2**20:g} MiB" if size >= 2**20 else f"{size:,} bytes"
    return f"is larger than {shown} (limits.message)"


INVALID = "its host is not a valid name; write it in ASCII (xn--...)"


def ascii_host(host: str) -> str:
    """The host in ASCII and lower case; ValueError if it has no such form.

    By IDNA 2008, as in browsers: `faß.de` is `xn--fa-hia.de`. The codec of Python follows the standard of
    2003 and makes it `fass.de`, which belongs to somebody else.
    """
    if host.isascii():
        return host.lower()
    import idna  # only for those who need it

    try:
        return idna.encode(host.lower(), uts46=True).decode("ascii")
    except idna.IDNAError:
        raise ValueError(INVALID) from None


def ascii_authority(authority: str) -> str:
    """The same for a host that may have a user in front and a port behind; ASCII stays as it is."""
    if authority.isascii():
        return authority
    user, at, place = authority.rpartition("@")
    host, colon, port = place.partition(":")
    return f"{user}{at}{ascii_host(host)}{colon}{port}"


def ascii_url(url: str) -> str:
    """The URL with its host in ASCII; ValueError if it has no such form, or is not a URL."""
    if url.isascii():
        return url
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ValueError("it is not a valid URL") from None  # the message would quote a password
    if parts.scheme not in ("http", "https"):
        return url
    return parts._replace(netloc=ascii_authority(parts.netloc)).geturl()


def host_problem(url: str) -> str | None:
    """The reason why the host of a URL cannot be written in ASCII."""
    try:
        ascii_url(url)
    except ValueError as error:
        return str(error)
    return None
