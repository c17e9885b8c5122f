"""Keep secrets out of what people read: which keys hold credentials, how a URL and a text are shown."""

import base64
import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from threading import Lock
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit
from weakref import WeakSet

from toolbus.config.secrets.echo import EchoFilter, base64_forms
from toolbus.config.secrets.reference import MASK
from toolbus.core.text.display import ascii_authority
from toolbus.core.text.text import rewritten_json
from toolbus.core.values.records import JSON

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
"""Shorter secrets, such as 8080 or main, are replaced only where they stand alone, not inside of a word or of
a number: a text full of `***` helps nobody."""
LEARNED = 64
"""How many secrets a connection can learn: tokens are renewed all the time, and old ones have expired."""
# Not after a letter or digit, unless that is the end of an escape: `%3Dabcd`, or `\nabcd` in JSON.
_ALONE_BEFORE = r"(?:(?<![^\W_])|(?<=%[0-9A-Fa-f]{2})|(?<=\\[a-z]))"
_ALONE_AFTER = r"(?![^\W_])"


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
    """The credentials written in a URL: its user info, as sent too, and query values whose key says so."""
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
        self._echoes = None if echoes is None else {_without_scheme(secret) for secret in echoes}
        self._learned: deque[str] = deque(maxlen=LEARNED)
        self._prepare()
        with _guard:
            _redactors.add(self)

    def learn(self, secret: str) -> None:
        """Replace this secret too from now on, until many others were learned after it."""
        if secret not in self._secrets and secret not in self._learned:
            self._learned.append(secret)
            self._prepare()

    def _prepare(self) -> None:
        self._spellings = spellings([*self._secrets, *self._learned])
        self._longest = max(map(len, self._spellings), default=0)
        echoes = None if self._echoes is None else self._echoes.union(map(_without_scheme, self._learned))
        self._hide = EchoFilter(echoes) if echoes else None

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


_redactors: "WeakSet[Redactor]" = WeakSet()
_guard = Lock()


def redacted_by_all(value: JSON) -> JSON:
    """The value without the secrets of any server of this process: one may be an argument for another."""
    with _guard:
        known = tuple(_redactors)
    for redactor in known:
        value = redactor(value) if isinstance(value, str) else redactor.json(value)
    return value


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
