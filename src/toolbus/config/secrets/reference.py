"""Parse references in config texts: `${NAME}`, `${NAME:-default}`, `${file:...}` and so on.

Only the syntax: nothing is looked up here. `$${` is a literal `${`.
"""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal
from urllib.parse import quote

from toolbus.core.values.errors import ConfigError

MASK = "***"
"""Shown instead of a secret value."""

_OPENING = re.compile(r"\$\$\{|\$\{")
# Cursor and VS Code write variables as `env:`; VS Code writes values to prompt for as `input:`.
_NAME = re.compile(r"(?:env:|input:)?(?P<name>[A-Za-z_][A-Za-z0-9_./-]*)(?::-(?P<default>.*))?", re.DOTALL)
_ALLOWED = (
    "write ${NAME}, ${NAME:-default}, ${env:NAME}, ${user}, ${file:PATH}, ${keyring:SERVICE/NAME} or "
    "${cmd:COMMAND}, or $${ for a literal ${"
)
# What an authorization server may be told in the lookup of an assertion; see `Reference.filled`.
_FIELD = re.compile(r"\{(issuer|resource)\}")
_BODY = re.compile(rf"(?:{_FIELD.pattern}|[^}}])*")


@dataclass(frozen=True, slots=True)
class Reference:
    """One reference: a name to look up, the user, a file to read, a keyring entry or a command to run."""

    kind: Literal["name", "user", "file", "keyring", "cmd"]
    body: str
    default: str | None = None

    @property
    def label(self) -> str:
        """Its name in messages; only the first word of a command, because the rest may contain secrets."""
        match self.kind:
            case "name" | "user":
                return self.body
            case "file" | "keyring":
                return f"{self.kind}:{self.body}"
            case "cmd":
                return f"cmd:{shlex.split(self.body)[0]}"

    def filled(self, fields: Mapping[str, str]) -> "Reference":
        """The reference with values for `{issuer}` and `{resource}`, which servers may have chosen.

        In a command a value is part of one argument; in a path or a keyring entry it has no slashes.
        """
        if self.kind == "cmd":
            words = [_with_fields(word, fields) for word in shlex.split(self.body)]
            return replace(self, body=shlex.join(words))
        if self.kind in ("file", "keyring"):
            quoted = {name: quote(value, safe="") for name, value in fields.items()}
            return replace(self, body=_with_fields(self.body, quoted))
        return self


def parsed(text: str, *, server: str | None = None, key: str | None = None) -> tuple[str | Reference, ...]:
    """The literals and references in the text, in order; ConfigError if a reference is malformed."""
    parts: list[str | Reference] = []
    at = 0
    while opening := _OPENING.search(text, at):
        parts.append(text[at : opening.start()])
        at = opening.end()
        if opening.group() == "$${":
            parts.append("${")
            continue
        body = _BODY.match(text, at)
        assert body is not None, "it may be empty"
        if (end := body.end()) == len(text):
            raise ConfigError("a ${ is not closed; " + _ALLOWED, server=server, key=key)
        parts.append(_reference(text[at:end], server, key))
        at = end + 1
    parts.append(text[at:])
    return tuple(part for part in parts if part != "")


def is_shown(text: str) -> bool:
    """Whether a text that holds a secret is just a reference, without a default: that may be shown."""
    return re.fullmatch(r"\$\{[^}]*\}", text) is not None and ":-" not in text


def masked(text: str) -> str:
    """The text with every reference replaced by `***`; just `***` if a reference is malformed."""
    try:
        parts = parsed(text)
    except ConfigError:
        return MASK
    return "".join(part if isinstance(part, str) else MASK for part in parts)


def _with_fields(text: str, fields: Mapping[str, str]) -> str:
    return _FIELD.sub(lambda field: fields.get(field[1], field[0]), text)


def _reference(body: str, server: str | None, key: str | None) -> Reference:
    """The reference between the braces. Errors do not quote it, because a default may be a secret."""
    if "${" in body:
        raise ConfigError("a reference inside a reference; " + _ALLOWED, server=server, key=key)
    kind, _, rest = body.partition(":")
    rest = rest.strip()
    if kind == "file" and rest:
        return Reference("file", rest)
    if kind == "keyring" and all(rest.rpartition("/")):
        return Reference("keyring", rest)
    if kind == "cmd" and _is_command(rest):
        return Reference("cmd", rest)
    if kind not in ("file", "keyring", "cmd") and (name := _NAME.fullmatch(body)):
        kind = "user" if name["name"] == "user" and body.startswith("user") else "name"
        return Reference(kind, name["name"], name["default"])
    raise ConfigError("malformed reference; " + _ALLOWED, server=server, key=key)


def _is_command(text: str) -> bool:
    try:
        return bool(shlex.split(text))
    except ValueError:
        return False
