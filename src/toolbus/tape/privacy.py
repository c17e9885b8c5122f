"""Secrets and paths, which a tape must not contain.

Secrets become `***`, the user's home folder `${HOME}`, and the folder of the config `${FOLDER}`. A replay
fills in its own folders; a literal `${HOME}` is written `$${HOME}`.
"""

import base64
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import cast
from urllib.parse import quote

from toolbus.config import BusConfig
from toolbus.config.secrets.literals import literal_secrets
from toolbus.config.secrets.redact import (
    Redactor,
    hidden_by_all,
    is_credential,
    knows_secrets,
    names_credential,
    redacted_by_all,
)
from toolbus.config.secrets.reference import MASK, Reference, parsed
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON
from toolbus.schema.values import is_array, is_object
from toolbus.tape.format import DATA_KEYS, decoded_data

_PLACEHOLDER = re.compile(r"\$(\$?)\{(HOME|FOLDER)\}")


def rewritten(value: JSON, change: Callable[[str, str], str], key: str = "") -> JSON:
    """The value with every text changed, keys included; `change` also gets the key of the text."""
    if isinstance(value, str):
        return change(value, key)
    if is_array(value):
        return [rewritten(item, change, key) for item in value]
    if is_object(value):
        return {change(name, ""): rewritten(item, change, name) for name, item in value.items()}
    return value


class Places:
    """The folders of this machine, which a tape names by placeholders."""

    def __init__(self, folder: Path | None = None, home: Path | None = None) -> None:
        """By default the current folder, and the user's home."""
        home = home or Path(os.path.expanduser("~"))
        folder = folder or Path.cwd()
        self._paths = {"FOLDER": os.path.abspath(folder), "HOME": os.path.abspath(home)}
        spelled: dict[str, str] = {}
        for name in ("HOME", "FOLDER"):  # the folder counts if they are the same
            path = self._paths[name]
            for form in (path, os.path.realpath(path), quote(path), quote(os.path.realpath(path))):
                if form.strip("/\\"):
                    spelled[form] = name
        self._spelled = spelled
        longest_first = sorted(spelled, key=len, reverse=True)
        forms = "|".join(map(re.escape, longest_first))
        self._pattern = (
            re.compile(rf"\$+\{{(?:HOME|FOLDER)\}}|(?<![\w.-])(?:{forms})(?![\w.-])") if forms else None
        )
        self._hints = tuple(longest_first)
        self._in_json = ("${", *(json.dumps(form, ensure_ascii=False)[1:-1] for form in longest_first))

    def may_be_in(self, document: str) -> bool:
        """Whether a JSON document may name one of the folders, or has a placeholder."""
        return any(form in document for form in self._in_json)

    def hide(self, text: str) -> str:
        """The text with placeholders for the folders."""
        if self._pattern is None or not ("${" in text or any(hint in text for hint in self._hints)):
            return text
        return self._pattern.sub(self._hidden, text)

    def _hidden(self, found: re.Match[str]) -> str:
        text = found.group()
        return f"${text}" if text.startswith("$") else f"${{{self._spelled[text]}}}"

    def show(self, text: str) -> str:
        """The text with the folders of this machine."""
        if "${" not in text:
            return text
        return _PLACEHOLDER.sub(lambda found: found[0][1:] if found[1] else self._paths[found[2]], text)


class Privacy:
    """Removes secrets and paths from recorded values, and fills in this machine's paths in a replay."""

    def __init__(self, config: BusConfig | None = None, *, folder: Path | None = None) -> None:
        """Also hide the secrets of a config; the secrets of connections are known anyway."""
        self._redactor = Redactor(_secrets_of(config) if config is not None else ())
        self.places = Places(folder or (config.folder if config is not None else None))

    def recorded(self, value: JSON) -> JSON:
        """The value for a tape."""
        written = json.dumps(value, ensure_ascii=False, default=str)
        if knows_secrets():
            sent = written.encode(errors="surrogatepass")
            hidden = hidden_by_all(sent)
            if hidden != sent:
                value = json.loads(hidden.decode(errors="surrogatepass"))
        elif not self.places.may_be_in(written):
            return value
        return rewritten(value, self._recorded)

    def _recorded(self, text: str, key: str) -> str:
        if key in DATA_KEYS and (data := decoded_data(text)) is not None:
            # A mask in base64 would damage the content; in the content it does not.
            plain = data.decode("latin-1")
            hidden = self._redacted(plain)
            return text if hidden == plain else base64.b64encode(hidden.encode("latin-1")).decode()
        return self.places.hide(self._redacted(text))

    def _redacted(self, text: str) -> str:
        return cast(str, redacted_by_all(text))

    def replayed(self, value: JSON) -> JSON:
        """A value from a tape for this machine."""
        return rewritten(value, lambda text, _: self.places.show(text))


def has_mask(value: JSON) -> bool:
    """Whether a secret was replaced in a value."""
    if isinstance(value, str):
        return MASK in value
    if is_array(value):
        return any(map(has_mask, value))
    if is_object(value):
        return any(MASK in name or has_mask(item) for name, item in cast("Mapping[str, JSON]", value).items())
    return False


def _secrets_of(config: BusConfig) -> Iterable[str]:
    """The credentials in the config and in the variables that it names, before any server is connected."""
    for server in config.servers.values():
        yield from (secret.value for secret in literal_secrets(server))
        for field, text in server.texts():
            try:
                parts = parsed(text)
            except ConfigError:
                continue
            for part in parts:
                if isinstance(part, Reference) and part.kind == "name":
                    value = os.environ.get(part.body) or part.default or ""
                    is_named = names_credential(part.body) or names_credential(field)
                    if is_credential(part.body, value, is_named=is_named):
                        yield value
