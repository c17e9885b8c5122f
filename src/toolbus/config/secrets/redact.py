"""Keep secrets out of what people read, and hide credentials in what a server sends.

Every message of a server passes here as bytes, so an ordinary one costs only a search for each form of a
credential. A credential is found in plain text, escaped as in JSON, URLs and HTML, and in base64. It is even
found with hidden characters inside, which are removed later from texts for models.
"""

import base64
import codecs
import json
import os.path
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from html import escape
from threading import Lock
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit
from weakref import WeakSet

from toolbus.config.secrets.reference import MASK
from toolbus.core.text.display import ascii_authority
from toolbus.core.text.text import rewritten_json
from toolbus.core.values.records import JSON

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
"""The number of characters of a credential that are searched for in disguise; a long pattern compiles slowly.
"""
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


_CREDENTIAL = re.compile(
    r"token|secret|passw|passphrase|pwd|credential|auth(?!or(?!iz))|api[-_]?key|access[-_]?key|private|cookie|bearer"
    r"|session|signature|(?:^|[-_.])(?:key|sig|pat|jwt|dsn)(?:$|[-_.])",
    re.IGNORECASE,
)
_HOST = re.compile(r"(?:\[[^\]]*\]|[^:\[\]]*)(?::(?:\d*|\*+))?")
_SCHEME = re.compile(r"(?:Bearer|Basic|Token|Digest|ApiKey)\s+(.+)", re.IGNORECASE | re.DOTALL)

SHORTEST_SECRET = 4
"""Shorter values are not replaced in texts, because they occur everywhere by chance."""
UNMISTAKABLE = 8
"""The length below which a secret, such as 8080 or main, is replaced only as a whole word or number.

A text full of `***` helps nobody.
"""
LEARNED = 64
"""The maximum number of secrets that a connection can learn: tokens are renewed often, and old ones expire.
"""
# Not after a letter or digit, unless that is the end of an escape: `%3Dabcd`, or `\nabcd` in JSON.
_ALONE_BEFORE = r"(?:(?<![^\W_])|(?<=%[0-9A-Fa-f]{2})|(?<=\\[a-z]))"
_ALONE_AFTER = r"(?![^\W_])"


# Prefixes that issuers publish so that leaked keys can be found.
ISSUED_KEY = re.compile(
    r"(?<![\w$-])(?:"
    r"(?:sk|rk|pk)[-_](?=[\w-]*\d)[\w-]{16,}|gh[oprsu]_\w{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}"
    r"|xox[abeprs]-[\w-]{10,}|A[KS]IA[A-Z0-9]{12,}|AIza[\w-]{30,}|(?:hf|gsk|ntn|npm)_\w{20,}|dapi[0-9a-f]{32}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*|(?<=Bearer )(?=\S*\d)[\w.~+/=-]{8,}"
    r")"
)
_PROXY_NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
PROXIES = (*_PROXY_NAMES, *map(str.lower, _PROXY_NAMES))
"""Variables that every server process gets: behind a proxy, downloads fail without them."""


def names_credential(key: str) -> bool:
    """Whether a variable, header or query key of that name usually holds a credential."""
    return _CREDENTIAL.search(key) is not None


def shown_url(url: str) -> str:
    """The URL for messages: user info and query values are `***`, the fragment is left out."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return MASK
    _, at, host = parts.netloc.rpartition("@")
    if not _HOST.fullmatch(host):  # most likely a password with a slash in it
        return MASK
    with suppress(ValueError):
        host = ascii_authority(host)  # as it is reached, so that no name looks like another
    netloc = f"{MASK}@{host}" if at else host
    query = "&".join(f"{name}={MASK}" if is_pair else MASK for name, is_pair in _query_names(parts.query))
    scheme = f"{parts.scheme}://" if parts.scheme or parts.netloc else ""
    return f"{scheme}{netloc}{parts.path}" + (f"?{query}" if query else "")


def url_secrets(url: str) -> Iterator[str]:
    """The credentials in a URL: its user info, plain and encoded, and query values with telling keys."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return
    userinfo, at, _ = parts.netloc.rpartition("@")
    if at:
        user, _, password = userinfo.partition(":")
        yield from (userinfo, unquote(password) or unquote(user))
        yield base64.b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()
    for name, value in parse_qsl(parts.query):
        if names_credential(name):
            yield value


def proxy_secrets(variables: Mapping[str, str]) -> Iterator[str]:
    """The credentials of the proxies that these variables name, with or without a scheme."""
    for name in PROXIES:
        value = variables.get(name, "")
        yield from url_secrets(value if "://" in value else f"//{value}")


def spellings(secrets: Iterable[str]) -> tuple[str, ...]:
    """Every form in which the secrets may turn up in a text, longest first."""
    forms: set[str] = set()
    for secret in secrets:
        # A log is read line by line, so each line of a key file has to be known by itself.
        for value in {secret, secret.strip(), *secret.splitlines()}:
            forms |= {value, quote(value, safe=""), quote(value), quote_plus(value), json.dumps(value)[1:-1]}
            forms |= base64_forms(value).keys()
        if scheme := _SCHEME.fullmatch(secret):
            forms.add(scheme[1].strip())
    return tuple(sorted((form for form in forms if len(form) >= SHORTEST_SECRET), key=lambda f: (-len(f), f)))


def redacted(text: str, secrets: tuple[str, ...]) -> str:
    """The text with every one of the secrets replaced by `***`; `secrets` come from `spellings`."""
    return _pattern(secrets).sub(MASK, text) if secrets else text


def redacted_json(value: JSON, secrets: tuple[str, ...]) -> JSON:
    """The value with the secrets replaced in its strings and keys, so that it stays JSON.

    A number goes if all of it is a secret, and a long one: 8080 is most likely a port.
    """

    def hidden(scalar: JSON) -> JSON:
        if isinstance(scalar, str):
            return redacted(scalar, secrets)
        is_number = isinstance(scalar, int | float) and not isinstance(scalar, bool)
        is_secret = is_number and len(spelt := json.dumps(scalar)) >= UNMISTAKABLE and spelt in secrets
        return MASK if is_secret else scalar

    return rewritten_json(value, hidden) if secrets else value


class Redactor:
    """Replaces the secrets of one server by `***`, also those that it learns later.

    In texts for people it replaces all of them; in what the server sends, `echoes`: see `EchoFilter`.
    """

    def __init__(self, secrets: Iterable[str] = (), *, echoes: Iterable[str] | None = ()) -> None:
        """`echoes` are the secrets that the server's messages must not contain; None to let all pass."""
        self._secrets = frozenset(secrets)
        self._echoes = None if echoes is None else frozenset(map(_without_scheme, echoes))
        self._learned: tuple[str, ...] = ()
        self._prepare()
        with _guard:
            _redactors.add(self)

    def learn(self, secret: str) -> None:
        """Replace this secret too from now on, until many others were learned after it."""
        if secret not in self._secrets and secret not in self._learned:
            self._learned = (*self._learned, secret)[-LEARNED:]
            self._prepare()

    def _prepare(self) -> None:
        self._spellings = spellings([*self._secrets, *self._learned])
        self._longest = max(map(len, self._spellings), default=0)
        echoes = None if self._echoes is None else self._echoes.union(map(_without_scheme, self._learned))
        self._hide = EchoFilter(echoes) if echoes else None
        self._hide_all: EchoFilter | None = None

    @property
    def longest(self) -> int:
        """The characters of its longest secret, however it is written."""
        return self._longest

    def __call__(self, text: str) -> str:
        """The text without the secrets."""
        return redacted(text, self._spellings)

    def head(self, text: str, length: int) -> str:
        """The beginning of a text without the secrets; the cut leaves no part of one."""
        window = text[: length + 2 * self._longest]
        shown = self(window)
        if len(window) < len(text):
            # Where the window ends, the beginning of a secret may be left.
            shown = shown[: max(0, len(shown) - self._longest)]
        return shown[:length]

    def json(self, value: JSON) -> JSON:
        """The JSON value without the secrets; it stays JSON."""
        return redacted_json(value, self._spellings)

    def received(self, message: bytes) -> bytes:
        """A JSON message of the server without the secrets that it must not contain; it stays JSON."""
        return message if self._hide is None else self._hide(message)

    @property
    def has_secrets(self) -> bool:
        """Whether it knows any."""
        return bool(self._spellings)

    def disguised(self, message: bytes) -> bytes:
        """A JSON message without the secrets, in any disguise; it stays JSON."""
        if self._hide_all is None:
            self._hide_all = EchoFilter(map(_without_scheme, [*self._secrets, *self._learned]))
        return self._hide_all(message)


_redactors: "WeakSet[Redactor]" = WeakSet()
_guard = Lock()


def redacted_by_all(value: JSON) -> JSON:
    """The value without the secrets of any server of this process: one may be an argument for another."""
    with _guard:
        known = tuple(_redactors)
    for redactor in known:
        value = redactor(value) if isinstance(value, str) else redactor.json(value)
    return value


def head_by_all(text: str, length: int) -> str:
    """The beginning of a text without the secrets of any server; the cut leaves no part of one."""
    with _guard:
        known = tuple(_redactors)
    longest = max((redactor.longest for redactor in known), default=0)
    window = text[: length + 2 * longest]
    for redactor in known:
        window = redactor(window)
    if len(text) > length + 2 * longest:
        window = window[: max(0, len(window) - longest)]
    return window[:length]


def knows_secrets() -> bool:
    """Whether there is anything to hide."""
    with _guard:
        return any(redactor.has_secrets for redactor in _redactors)


def hidden_by_all(message: bytes) -> bytes:
    """A JSON message without the secrets of any server of this process, in any disguise; it stays JSON."""
    with _guard:
        known = tuple(_redactors)
    for redactor in known:
        message = redactor.disguised(message)
    return message


def _without_scheme(secret: str) -> str:
    found = _SCHEME.fullmatch(secret)
    return found[1].strip() if found else secret


@lru_cache(maxsize=256)
def _pattern(secrets: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(_form, secrets)))


def _form(secret: str) -> str:
    if len(secret) >= UNMISTAKABLE:
        return f"(?i:{re.escape(secret)})"  # a host, and some headers, are shown in lower case
    before = _ALONE_BEFORE if secret[0].isalnum() else ""
    return before + re.escape(secret) + (_ALONE_AFTER if secret[-1].isalnum() else "")


def _query_names(query: str) -> Iterator[tuple[str, bool]]:
    """The names in a query; a part without `=` may be a bare token, so it has no name."""
    for part in filter(None, query.split("&")):
        name, equals, _ = part.partition("=")
        yield name, bool(equals)
