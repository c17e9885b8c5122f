"""Find credentials written literally in an entry, replace them with references, and add them to `.env`.

Extracted values are never shown: not in a repr, not in a message.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import cast

from toolbus.config.editing.save import save_in_project
from toolbus.config.find import DOTENV
from toolbus.config.location import is_list, is_mapping
from toolbus.config.model import ServerConfig
from toolbus.config.secrets.redact import ISSUED_KEY, names_credential
from toolbus.config.secrets.reference import MASK, Reference, parsed
from toolbus.config.settings.auth import SECRET_KEYS
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON

TEXTS = ("command", "args", "env", "env_file", "url", "openapi", "headers", "auth", "cwd")
"""The keys of an entry whose texts may contain references."""

_QUERY = "openapi.query."
_REFERENCE = r"\$\$\{|\$\{[^}]*\}"
# A reference, an escape, or one character of a literal: no match ends inside a reference.
_PIECE = rf"{_REFERENCE}|(?!\$\$?\{{)"
_IN_TEXT = re.compile(
    rf"(?<![\w+.-])(?P<scheme>[\w+.-]*)://(?P<user>(?:{_PIECE}[^/?#@\s:])*)"
    rf"(?::(?P<password>(?:{_PIECE}[^/?#\s])*))?@"
    rf"|(?P<head>[?&;](?P<name>[^=&;#\s?]+)=)(?P<value>(?:{_PIECE}[^&;#\s\"'])*)"
    rf"|{_REFERENCE}"
    rf"|(?P<key>{ISSUED_KEY.pattern})"
)
_PAIR = re.compile(r"(?P<head>(?P<name>-{0,2}[\w.-]+)=)(?P<value>.+)", re.DOTALL)
_HEADER = re.compile(r"(?P<head>(?:--?[\w-]+=)?(?P<name>[A-Za-z][\w-]*):[ \t]*)(?P<value>[^/].*)", re.DOTALL)
_FLAG = re.compile(r"-{1,2}(?!no-)(?:[A-Za-z][\w-]*[-_])?(?P<word>[A-Za-z]\w*)")
_SCHEME = re.compile(r"(?P<head>[A-Za-z][\w-]*[ \t]+)(?P<value>\S.*)", re.DOTALL)
# Switches, and variables in shell syntax: not secrets.
_HARMLESS = re.compile(
    r"|0|1|true|false|yes|no|on|off|none|null|\$[a-z_]\w*|%[a-z_]\w*%", re.IGNORECASE | re.ASCII
)


_DEFAULT = re.compile(r"(\$\{[^}]*?:-)([^}]*)\}")
# Characters with a meaning for a shell or interpreter, the start of a path, a host.
_ACTING = re.compile(r"[\s;|&<>()`'\"{}!\\]|(?:^|[:=,])[./~]|^[a-z0-9-]+(?:\.[a-z0-9-]+)+(?::\d+)?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """A value extracted from `key` of an entry, and the `name` that now refers to it."""

    server: str
    key: str
    name: str
    value: str = field(repr=False)


@dataclass(slots=True, repr=False)
class SecretNames:
    """Assigns names to values; a name never refers to two values."""

    taken: dict[str, str]

    def name(self, wanted: str, server: str, value: str, *, avoid: frozenset[str]) -> str:
        """The wanted name if it is free or already has this value, else one prefixed with the server."""
        wanted, owner = _legal(wanted), env_name(server)
        longer = wanted if wanted.startswith(f"{owner}_") else f"{owner}_{wanted}"
        for name in chain((wanted, longer), (f"{longer}_{number}" for number in count(2))):
            if name not in avoid and self.taken.setdefault(name, value) == value:
                return name
        raise AssertionError("unreachable")


def with_references(
    server: str, entry: Mapping[str, JSON], names: SecretNames, *, avoid: frozenset[str] = frozenset()
) -> tuple[dict[str, JSON], tuple[Secret, ...]]:
    """The entry, in our format, with every credential replaced by a reference; and the credentials.

    `avoid` are names that other servers already refer to.
    """
    extractor = _Extractor(server=server, names=names, avoid=avoid, own=referenced_names(entry))
    result = dict(entry)
    # Variables first: they already have names, and other texts may refer to them.
    if env := entry.get("env"):
        result["env"] = {name: extractor.variable(name, text) for name, text in env.items()}
    if args := entry.get("args"):
        result["args"] = [
            extractor.argument(f"args[{index}]", extractor.renamed(text), args[index - 1] if index else "")
            for index, text in enumerate(args)
        ]
    if headers := entry.get("headers"):
        result["headers"] = {
            name: extractor.header(f"headers.{name}", name, text) for name, text in headers.items()
        }
    if isinstance(api := entry.get("openapi"), dict):
        result["openapi"] = extractor.api(cast("dict[str, JSON]", api))
    for key in ("command", "url", "openapi"):
        if isinstance(entry.get(key), str):
            result[key] = extractor.inside(key, entry[key])
    if auth := entry.get("auth"):
        result["auth"] = {
            key: extractor.auth(key, text) if isinstance(text, str) else text for key, text in auth.items()
        }
    return result, tuple(extractor.secrets)


def literal_secrets(config: ServerConfig) -> tuple[Secret, ...]:
    """The credentials written literally in a config."""
    entry = config.model_dump(include={*TEXTS}, exclude_defaults=True)
    return with_references(config.alias, entry, SecretNames({}))[1]


def without_literals(config: ServerConfig) -> dict[str, str]:
    """Every text of the config by field, with `***` for literal credentials.

    A text that could be a program, a path or a host is kept: a name such as `TOKEN=` must not hide it.
    """
    extractor = _Extractor(server="", names=_PlaceholderNames({}), avoid=frozenset(), own=frozenset())
    shown: dict[str, str] = {}
    before = ""
    for key, text in config.texts():
        field_name, _, name = key.partition(".")
        if key.startswith("args["):
            before, marked = text, extractor.argument(key, text, before)
        elif field_name == "env":
            marked = extractor.variable(name, text)
        elif field_name == "headers":
            marked = extractor.header(key, name, text)
        elif key.startswith(_QUERY):
            name = key.removeprefix(_QUERY)
            marked = extractor.header(key, name, text)
        elif field_name == "auth":
            marked = extractor.auth(name, text)
        else:
            marked = extractor.inside(key, text)
        holds_secret = name in SECRET_KEYS if field_name == "auth" else _is_secret_header(name)
        shown[key] = _without_defaults(marked) if holds_secret else marked
        for secret in extractor.secrets:
            kept = secret.value.replace("${", "$${") if _may_act(key, secret.value) else MASK
            shown[key] = shown[key].replace(f"${{{secret.name}}}", kept)
        extractor.secrets.clear()
    return shown


def credentials_in(document: JSON) -> frozenset[str]:
    """Every text in a document, or a part of one, that looks like a credential; a longer list than is moved.

    This hides credentials in the text of a file, which may be invalid.
    """
    extractor = _Extractor(server="", names=SecretNames({}), avoid=frozenset(), own=frozenset())
    broken: list[str] = []
    for key, text, before in _keyed_texts(document):
        try:
            if key == "auth" and text != "oauth":
                extractor.whole(key, text, key)
            elif key in SECRET_KEYS or _is_secret_header(key):
                extractor.header(key, key, text)
                extractor.variable(key, text)
            else:
                extractor.argument(key, text, before)
        except ConfigError:  # a malformed reference
            broken.append(text)
    return frozenset(text for text in (*broken, *(one.value for one in extractor.secrets)) if text.strip())


def _keyed_texts(value: JSON, key: str = "", before: str = "") -> Iterator[tuple[str, str, str]]:
    """Each text, with the key it is under and the text before it in its list."""
    if isinstance(value, str):
        yield key, value, before
    elif is_mapping(value):
        for name, inner in value.items():
            yield from _keyed_texts(inner, str(name))
    elif is_list(value):
        for index, inner in enumerate(value):
            above: JSON = value[index - 1] if index else ""
            yield from _keyed_texts(
                inner, key if is_mapping(inner) else "", above if isinstance(above, str) else ""
            )


def referenced_names(entry: Mapping[str, JSON]) -> frozenset[str]:
    """Every name that the texts of the entry refer to."""
    return frozenset(
        part.body
        for key in TEXTS
        for text in _texts(entry.get(key))
        for part in parsed(text)
        if isinstance(part, Reference) and part.kind == "name"
    )


class _PlaceholderNames(SecretNames):
    """Names that cannot occur in a config: they contain NUL."""

    def name(self, wanted: str, server: str, value: str, *, avoid: frozenset[str]) -> str:
        self.taken[f"\0{len(self.taken)}"] = value
        return next(reversed(self.taken))


def _without_defaults(text: str) -> str:
    """The text with `***` for defaults of references, which may be credentials in a credential header."""
    return _DEFAULT.sub(lambda m: m[0] if _may_act("", m[2]) else f"{m[1]}{MASK}}}", text)


def _may_act(key: str, value: str) -> bool:
    """Whether the value could be code, a path or a host, and not only a credential."""
    if key.startswith(("headers.", "auth.", _QUERY)):
        return False
    return _ACTING.search(value) is not None or (key.startswith("args") and "/" in value)


def env_name(text: str) -> str:
    """The text as the name of an environment variable: `my-server` becomes `MY_SERVER`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text)
    return _legal(re.sub(r"[^A-Za-z0-9]+", "_", words).strip("_").upper() or "SERVER")


def _texts(value: JSON) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif is_mapping(value) or is_list(value):
        for inner in value.values() if is_mapping(value) else value:
            yield from _texts(inner)


def _legal(name: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return f"_{name}" if re.match(r"\d|(?:file|cmd|user)$", name) else name


@dataclass(slots=True, kw_only=True, repr=False)
class _Extractor:
    """Extracts the credentials of one entry."""

    server: str
    names: SecretNames
    avoid: frozenset[str]
    own: frozenset[str]
    """Names that the entry itself refers to."""
    secrets: list[Secret] = field(default_factory=list[Secret])

    def variable(self, name: str, text: str) -> str:
        key = f"env.{name}"
        if names_credential(name) or ISSUED_KEY.fullmatch(text):
            return self._extract(key, text, name)
        return self.inside(key, text)

    def argument(self, key: str, text: str, before: str) -> str:
        """An argument: `--token=X`, `TOKEN=X`, `Authorization: X`, or the X after `--token`."""
        if (pair := _PAIR.fullmatch(text)) and names_credential(pair["name"]):
            name = pair["name"]
            wanted = name if name.isupper() and not name.startswith("-") else self._server_name(name)
            return pair["head"] + self._extract(key, pair["value"], wanted)
        if (header := _HEADER.fullmatch(text)) and _is_secret_header(header["name"]):
            return header["head"] + self.header(key, header["name"], header["value"])
        flag = _FLAG.fullmatch(before)
        if flag and names_credential(flag["word"]) and not text.startswith("-"):
            return self.whole(key, text, before)
        return self.inside(key, text)

    def header(self, key: str, name: str, text: str) -> str:
        if not _is_secret_header(name):
            return self.inside(key, text)
        if not name.lower().endswith("authorization"):
            return self.whole(key, text, re.sub(r"^x-", "", name, flags=re.IGNORECASE))
        scheme = _SCHEME.fullmatch(text)
        head, value = (scheme["head"], scheme["value"]) if scheme else ("", text)
        return head + self.whole(key, value, "token")

    def api(self, setting: Mapping[str, JSON]) -> dict[str, JSON]:
        """The `openapi` of an entry: its URLs, and the parameters of every request."""
        found = {
            key: self.inside(f"openapi.{key}", text) if isinstance(text, str) else text
            for key, text in setting.items()
        }
        if is_mapping(query := found.get("query")):
            found["query"] = {
                name: self.header(f"{_QUERY}{name}", str(name), text) if isinstance(text, str) else text
                for name, text in query.items()
            }
        return found

    def auth(self, name: str, text: str) -> str:
        """A text of `auth`, by its key."""
        key = f"auth.{name}"
        return self.whole(key, text, name) if name in SECRET_KEYS else self.inside(key, text)

    def whole(self, key: str, text: str, word: str) -> str:
        """A reference, named after the server and `word`, for the whole text, unless it has one already."""
        return self._extract(key, text, self._server_name(word))

    def inside(self, key: str, text: str) -> str:
        """The text with references for the credentials in it: in URLs, and keys with a well-known prefix."""

        def replaced(match: re.Match[str]) -> str:
            if match["key"]:
                return self.whole(key, match["key"], "token")
            if match["head"] and names_credential(match["name"]):
                return match["head"] + self.whole(key, match["value"], match["name"])
            if match["scheme"] is None:
                return match[0]
            user, password = match["user"], match["password"]
            if password:
                return f"{match['scheme']}://{user}:{self.whole(key, password, 'password')}@"
            if user and match["scheme"].endswith(("http", "https")):  # `git` in ssh://git@... is not a secret
                end = match[0][len(match["scheme"]) + 3 + len(user) :]
                return f"{match['scheme']}://{self.whole(key, user, 'token')}{end}"
            return match[0]

        return _IN_TEXT.sub(replaced, text)

    def renamed(self, text: str) -> str:
        """The text with references to this server's variables changed to their new names."""
        for secret in self.secrets:
            own = secret.key.removeprefix("env.")
            text = re.sub(rf"(?<!\$)\$\{{{re.escape(own)}\}}", f"${{{secret.name}}}", text)
        return text

    def _server_name(self, word: str) -> str:
        return f"{env_name(self.server)}_{env_name(word)}"

    def _extract(self, key: str, text: str, wanted: str) -> str:
        parts = parsed(text)
        if _HARMLESS.fullmatch(text) or any(isinstance(part, Reference) for part in parts):
            return text
        value = "".join(part for part in parts if isinstance(part, str))
        # A text that refers to a variable of the same server means this value.
        avoid = self.avoid if key == f"env.{wanted}" else self.avoid | self.own
        name = self.names.name(wanted, self.server, value, avoid=avoid)
        self.secrets.append(Secret(server=self.server, key=key, name=name, value=value))
        return f"${{{name}}}"


def _is_secret_header(name: str) -> bool:
    # `names_credential` excludes names with "author".
    return names_credential(name) or name.lower().endswith("authorization")


def env_values(folder: Path) -> dict[str, str]:
    """The variables in the folder's `.env`; empty if there is no such file."""
    from dotenv import dotenv_values

    path = folder / DOTENV
    return {name: value or "" for name, value in dotenv_values(path).items()} if path.is_file() else {}


def add_secrets(folder: Path, secrets: Iterable[Secret]) -> None:
    """Append secrets that are not in the folder's `.env` yet, and make it readable by its owner only."""
    path, known = folder / DOTENV, env_values(folder)
    lines = {
        secret.name: f"{secret.name}={_quoted(secret.value)}\n"
        for secret in secrets
        if secret.name not in known
    }
    if not lines:
        return
    before = path.read_bytes() if path.is_file() else b""
    gap = b"" if before[-1:] in (b"", b"\n") else b"\n"
    save_in_project(path, before + gap + "".join(lines.values()).encode(), mode=0o600)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
