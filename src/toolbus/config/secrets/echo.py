"""Hide credentials in what a server sends, before anything reads it.

Every message passes here as bytes, so an ordinary one costs only a search for each form of a credential. A
credential is found as it is, as it is escaped in JSON, URLs and HTML, and in base64; also with hidden
characters in it, which are removed from texts for models later.
"""

import base64
import codecs
import json
import os.path
import re
from collections.abc import Iterable
from functools import lru_cache
from html import escape
from urllib.parse import parse_qsl, quote, quote_plus, urlsplit

from toolbus.config.secrets.reference import MASK

SHORTEST_ECHO = 8
"""Shorter credentials are not hidden: they occur in ordinary texts."""

# Names of settings, not of credentials.
_SETTING = re.compile(
    r"(?:^|[-_.])(?:user|username|login|name|host|hostname|port|addr|address|server|domain|url|uri|endpoint|base"
    r"|dir|directory|folder|path|root|home|workspace|file|repo|repository|branch|project|org|team|tenant|owner"
    r"|region|zone|location|database|db|schema|table|bucket|model|version|level|mode|env|environment|stage"
    r"|lang|language|locale|tz|timezone|email|mail|format|id|display|shell|term|editor)s?$",
    re.IGNORECASE,
)
# Ordinary values: a path, a host, an email address, a few words, a version.
_PATH = re.compile(r"(?:~|\.{1,2})?/|[A-Za-z]:[\\/]")
_ORDINARY = re.compile(
    r"[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z]{2,}(?::\d+)?|[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
    r"|\d+(?:\.\d+)*(?::\d+)?|(?=.{,15}$)[A-Za-z]+(?:[ _-][A-Za-z]+)*",
    re.ASCII | re.DOTALL,
)
_RANDOM = re.compile(r"(?=.*\d)(?=.*[a-z])(?=.*[A-Z])[\w-]{16,}|[0-9a-f]{24,}", re.ASCII)
_NUMBER = re.compile(r"[0-9.eE+-]+")
_CONTROLS = bytes([*range(0x20), 0x7F])
_DISGUISED = 128
"""How many characters of a credential are looked for in disguise; a long pattern takes long to compile."""
# What may be hidden between two characters: anything but ASCII, as it is (UTF-8 that was read as Latin-1) or
# as an escape.
_BETWEEN = r"(?:\\u(?!00[2-7])[0-9a-fA-F]{4}|\\b|[\x7f-\xff])*+"


def is_credential(name: str, value: str, *, is_named: bool) -> bool:
    """Whether a value that the config keeps out of sight is a credential, and not just a setting.

    A path or a host in the results of a server must stay readable; `is_named` if its name says credential.
    """
    if len(value) < SHORTEST_ECHO:
        return False
    if "://" in value:
        return not _is_plain_url(value)
    if is_named:
        return not (_PATH.match(value) and os.path.exists(os.path.expanduser(value)))
    is_setting = _SETTING.search(name) or _PATH.match(value) or _ORDINARY.fullmatch(value)
    return is_setting is None


def base64_forms(secret: str) -> dict[str, str]:
    """The secret as it shows in base64, at any position in the data; each with a mask as long as it."""
    data, forms = secret.encode(errors="replace"), dict[str, str]()
    if len(data) < SHORTEST_ECHO:
        return forms
    for before in range(3):
        # Without the characters that other bytes contribute to.
        start, end = -(-before * 8 // 6), (before + len(data)) * 8 // 6
        padded = bytes(before) + data
        mask = ("Kioq" * end)[start:end]  # asterisks
        for encoded in (base64.b64encode(padded), base64.urlsafe_b64encode(padded)):
            forms[encoded.decode()[start:end]] = mask
    return forms


class EchoFilter:
    """Replaces credentials in JSON messages; the messages stay JSON."""

    def __init__(self, secrets: Iterable[str]) -> None:
        values = {
            value
            for secret in secrets
            for value in (secret.strip(), *map(str.strip, secret.splitlines()))
            if len(value) >= SHORTEST_ECHO
        }
        masks = {
            written: mask
            for value in values
            for form, mask in _forms(value).items()
            for written in (_in_json(form), json.dumps(form)[1:-1])
        }
        self._masks = {form: masks[form] for form in sorted(masks, key=lambda form: (-len(form), form))}
        self._forms = tuple(self._masks)
        self._ascii = {value: _visible_ascii(value) for value in sorted(values, key=len, reverse=True)}

    def __call__(self, message: bytes) -> bytes:
        """The message without the credentials."""
        forms = self._forms
        if not forms:
            return message
        # As Latin-1: it is never invalid, and searching in bytes takes longer.
        text = hidden = message.decode("latin-1")
        for form in forms:
            if form in text:
                hidden = self._masked(text)
                break
        if not text.isascii() or ("\\" in text and _may_disguise(text)):
            hidden = self._without_disguised(hidden)
        return message if hidden is text else hidden.encode("latin-1")

    def _masked(self, text: str) -> str:
        for form, mask in self._masks.items():
            if not _NUMBER.fullmatch(form):
                text = text.replace(form, mask)
            elif form in text:
                text = _without_number(text, form)
        return text

    def _without_disguised(self, text: str) -> str:
        plain = codecs.decode(text.encode("latin-1"), "raw_unicode_escape", "replace")
        plain = plain.encode("ascii", "ignore").translate(None, _CONTROLS).decode()
        plain = plain.replace("\\/", "/").replace("\\b", "")
        for value, visible in self._ascii.items():
            if len(visible) >= SHORTEST_ECHO and (visible in plain or _in_json(visible) in plain):
                text = _disguised(value).sub(MASK, text)
        return text


def _may_disguise(text: str) -> bool:
    return "\\u" in text or "\\/" in text or "\\b" in text


def _without_number(text: str, number: str) -> str:
    """The text without a number; as a value, it becomes null, because asterisks would not be JSON.

    Part of a longer number is another number.
    """
    form = re.escape(number)
    text = re.sub(rf"(?<=[:\[,])(\s*){form}(?=\s*[,\]}}])", r"\1null", text)
    return re.sub(rf"(?<![0-9.eE+])(?<![:\[,\s]-){form}(?![0-9eE]|\.\d)", MASK, text)


def _forms(value: str) -> dict[str, str]:
    """The forms in which a text may contain the value, each with what replaces it."""
    quoted = {quote(value, safe=""), quote(value), quote_plus(value)}
    quoted |= {re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), form) for form in quoted}
    inside = {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    inside |= {json.dumps(form)[1:-1] for form in inside}
    return base64_forms(value) | dict.fromkeys({value, escape(value), *quoted, *inside}, MASK)


def _in_json(text: str) -> str:
    """The text in a JSON message that is read as Latin-1."""
    return json.dumps(text, ensure_ascii=False)[1:-1].encode(errors="replace").decode("latin-1")


@lru_cache(maxsize=64)
def _disguised(value: str) -> re.Pattern[str]:
    """Each character as it is or as an escape, with hidden characters in between."""
    return re.compile(_BETWEEN.join(map(_any_spelling, _visible_ascii(value)[:_DISGUISED])))


def _visible_ascii(value: str) -> str:
    return "".join(character for character in value if " " <= character <= "~")


def _any_spelling(character: str) -> str:
    high, low = f"{ord(character):02x}"
    escaped = rf"\\u00{high}{f'[{low}{low.upper()}]' if low.isalpha() else low}"
    plain = {'"': r"\\\"", "\\": r"\\\\", "/": r"\\?/"}.get(character) or re.escape(character)
    return f"(?:{plain}|{escaped})"


def _is_plain_url(value: str) -> bool:
    """Whether it is a URL without anything that looks like a credential."""
    try:
        parts = urlsplit(value)
    except ValueError:
        return False
    words = [*parts.path.split("/"), *(value for _, value in parse_qsl(parts.query)), parts.fragment]
    return "@" not in parts.netloc and not any(map(_RANDOM.fullmatch, words))
