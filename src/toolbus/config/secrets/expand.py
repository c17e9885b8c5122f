"""Fill in the references of a server's config, late: at each connect, so that a renewed secret is seen.

The result is ready to use and shows none of its values; an unresolved reference is always an error.
"""

import asyncio
import os
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from toolbus.config.launch.administrator import read_administrator
from toolbus.config.launch.patterns import ResolvedLaunch
from toolbus.config.location import Location
from toolbus.config.model import ServerConfig
from toolbus.config.permitted import refused_commands, refused_launch, working_folder
from toolbus.config.secrets.literals import literal_secrets
from toolbus.config.secrets.lookup import FoundValue, MissingValue, Secrets
from toolbus.config.secrets.redact import (
    Redactor,
    is_credential,
    names_credential,
    proxy_secrets,
    shown_url,
    url_secrets,
)
from toolbus.config.secrets.reference import Reference, masked, parsed
from toolbus.config.settings.auth import SECRET_KEYS, ClientCredentials, text_problem, web_url
from toolbus.config.settings.openapi import BASE_URL_QUERY
from toolbus.config.settings.sandbox import not_own, too_wide
from toolbus.core.text.display import ascii_url, host_problem
from toolbus.core.values.errors import ConfigError, SecretMissing

__all__ = ["Resolved", "Secrets", "resolved"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Resolved:
    """The values a connection is made with."""

    command: str | None = None
    args: tuple[str, ...] = ()
    personal_args: frozenset[str] = frozenset()
    """Those with the name of a user: they name no file that a sandbox would have to show."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    url: str | None = None
    """The URL of a server; of an HTTP API, its base URL, once it is known."""
    openapi: Mapping[str, str] = field(default_factory=dict[str, str])
    """The texts of `openapi` by key: `document`, `query.NAME`."""
    static_headers: Mapping[str, str] = field(default_factory=dict[str, str])
    token: str | None = None
    """The bearer token of `auth`."""
    auth: Mapping[str, str] = field(default_factory=dict[str, str])
    """The texts of `auth` by key, without the short-lived ones: see `lookup`."""
    cwd: str | None = None
    readable: tuple[str, ...] = ()
    """The paths of `sandbox.read`."""
    writable: tuple[str, ...] = ()
    """The paths of `sandbox.write`."""
    folder: Path | None = None
    """The folder of the config."""
    public_url: str | None = None
    """The URL for messages: references, user info and query values are `***`."""
    redacted: Redactor = field(default_factory=Redactor)
    source: tuple[ServerConfig, Secrets] | None = None
    """The config and the secrets that the values were made from."""

    async def lookup(self, key: str, fields: Mapping[str, str] | None = None) -> str:
        """A short-lived text of `auth`, looked up now: the `assertion`, or the `token` of a workload.

        `fields` are the values of `{issuer}` and `{resource}` in it. Raises like `resolved`.
        """
        config, secrets = self.source or (None, None)
        text = dict(config.auth.texts()).get(key) if config is not None and config.auth is not None else None
        if config is None or secrets is None or text is None:
            raise ConfigError("is not set", server=config and config.alias, key=f"auth.{key}")
        parts = parsed(text, server=config.alias, key=f"auth.{key}")
        filled = [
            part
            if isinstance(part, str)
            else await _found(part.filled(fields or {}), f"auth.{key}", config, secrets, {})
            for part in parts
        ]
        value, _ = _joined(config, f"auth.{key}", filled)
        _refuse_unusable(config, {f"auth.{key}": value})
        self.redacted.learn(value)
        return value

    @property
    def headers(self) -> Mapping[str, str]:
        """Every header that the config adds to requests, for display."""
        bearer = {} if self.token is None else {"Authorization": f"Bearer {self.token}"}
        return {**self.static_headers, **bearer}

    def __repr__(self) -> str:
        names = ("command", "args", "env", "url", "headers", "auth", "cwd")
        return f"Resolved({', '.join(f'{name}=***' for name in names if getattr(self, name))})"


async def resolved(config: ServerConfig, secrets: Secrets) -> Resolved:
    """The config with every reference filled in.

    Raises SecretMissing for a reference without a value. Raises ConfigError for a mistake in the config, for
    an unusable value, and if the administrator does not permit the server. Waits for `get_secret`, files and
    commands; each reference is looked up once.
    """
    if config.mistake is not None:
        raise config.mistake.with_traceback(None)  # the same one at each attempt
    secrets = secrets.within(config.folder)
    administrator = config.administrator or read_administrator()
    refused = refused_commands(config, administrator, secrets.folder)
    if refused is None:
        values = await _filled_in(config, secrets)
        place = working_folder(values.cwd)
        usual = (working_folder(None), secrets.folder and working_folder(str(secrets.folder)))
        refused = refused_launch(
            config,
            administrator,
            ResolvedLaunch(
                command=values.command,
                args=values.args,
                variables=frozenset(values.env),
                cwd=values.cwd,
                inherits=config.inherit_env != "none",
                works_in=place,
                is_moved=place not in usual,
                url=values.url,
                reads=values.readable,
                writes=values.writable,
            ),
        )
        if refused is None:
            return values
    raise refused


async def _filled_in(config: ServerConfig, secrets: Secrets) -> Resolved:
    known: dict[Reference, FoundValue] = {}
    private = _Private()
    values: dict[str, str] = {}
    personal: dict[str, str] = {}
    """The text in front of the user's name, by the fields that contain the name."""
    # Variables first: what is nowhere else may be one of the server's own.
    for name, text in sorted(_long_lived(config), key=lambda item: not item[0].startswith("env.")):
        parts = parsed(text, server=config.alias, key=name)
        for part in parts:
            if isinstance(part, Reference):
                if part not in known:
                    known[part] = await _found(part, name, config, secrets, values)
                if known[part].is_secret and not _is_public(name) and not _is_plain(part, known[part], name):
                    private.add_reference(part, name, known[part].value)
        filled = [part if isinstance(part, str) else known[part] for part in parts]
        values[name], before = _joined(config, name, filled)
        if before is not None:
            personal[name] = before
        private.add_urls(values[name])
    _refuse_unusable(config, values)
    for name in {"url", "openapi.base_url", "auth.issuer"} & set(values):
        values[name] = ascii_url(values[name])

    env = await _env_file(config, values, secrets) | {name: values[f"env.{name}"] for name in config.env}
    headers = {name: values[f"headers.{name}"] for name in config.headers}
    api = {
        name.removeprefix("openapi."): text for name, text in values.items() if name.startswith("openapi.")
    }
    private.add_named(env | headers | {key: text for key, text in api.items() if key.startswith("query.")})
    auth = {key: values[f"auth.{key}"] for key, _ in _auth_texts(config) if f"auth.{key}" in values}
    token = auth.get("token")
    if token is not None:
        auth["token"] = token = re.sub(r"^Bearer\s+", "", token, flags=re.IGNORECASE)
    if not auth.get("client_secret", "."):  # a reference with an empty default: a client without a secret
        del auth["client_secret"]
    private.add(*(auth[key] for key in SECRET_KEYS if key in auth))
    url, cwd = values.get("url", api.get("base_url")), values.get("cwd")
    private.add(*(secret.value for secret in literal_secrets(config)), *url_secrets(url or ""))
    private.add(*proxy_secrets(os.environ), *proxy_secrets(env))
    return Resolved(
        command=values.get("command"),
        args=tuple(values[f"args[{index}]"] for index in range(len(config.args))),
        env=env,
        url=url,
        openapi=api,
        static_headers=headers,
        token=token,
        auth=auth,
        cwd=secrets.located(cwd) if cwd else None,
        personal_args=frozenset(values[name] for name in personal if name.startswith("args[")),
        readable=_granted(config, secrets, values, personal, "sandbox.read"),
        writable=_granted(config, secrets, values, personal, "sandbox.write"),
        folder=secrets.folder,
        public_url=_public_url(config),
        redacted=Redactor(private.values, echoes=private.credentials if config.redact else None),
        source=(config, secrets),
    )


def _public_url(config: ServerConfig) -> str | None:
    text = config.url if config.openapi is None else config.openapi.base_url
    return None if text is None else shown_url(masked(text))


def _granted(
    config: ServerConfig,
    secrets: Secrets,
    values: Mapping[str, str],
    personal: Mapping[str, str],
    name: str,
) -> tuple[str, ...]:
    """The whole paths that a sandbox opens; ConfigError if one is too wide, or is not the user's own."""
    found = {key: secrets.located(value) for key, value in values.items() if key.startswith(f"{name}[")}
    for key, path in found.items():
        problem = too_wide(path, key.removeprefix("sandbox."))
        if problem is None and key in personal:
            problem = not_own(path, secrets.located(os.path.dirname(personal[key])), secrets.folder)
        if problem is not None:
            raise Location(server=config.alias).error(problem, key)
    return tuple(found.values())


def _joined(config: ServerConfig, name: str, parts: Sequence[str | FoundValue]) -> tuple[str, str | None]:
    """The text of these parts, and the text in front of the user's name, if the name is one of the parts."""
    texts = [part if isinstance(part, str) else part.value for part in parts]
    before: str | None = None
    for index, part in enumerate(parts):
        if isinstance(part, FoundValue) and part.is_user:
            head, tail = "".join(texts[:index]), "".join(texts[index + 1 :])
            before = head if before is None else before
            try:
                texts[index] = placed(part.value, name, head, tail)
            except NotUsable as error:
                raise ConfigError(str(error), server=config.alias, key=name) from None
    return "".join(texts), before


def _auth_texts(config: ServerConfig) -> Iterator[tuple[str, str]]:
    return iter(()) if config.auth is None else config.auth.texts()


def _long_lived(config: ServerConfig) -> Iterator[tuple[str, str]]:
    """The texts of the config that are looked up for a connection, and not each time they are needed."""
    short = {f"auth.{key}" for key in config.auth.read_anew} if config.auth is not None else ()
    return ((name, text) for name, text in config.texts() if name not in short)


def _is_public(name: str) -> bool:
    """Whether the field is sent through a browser, such as the client ID."""
    return name.startswith("auth.") and name.removeprefix("auth.") not in SECRET_KEYS


def _is_plain(reference: Reference, found: FoundValue, name: str) -> bool:
    """Whether the value is a default of a variable that nobody would take for a credential."""
    if not (found.is_default and name.startswith("env.")) or names_credential(reference.body):
        return False
    variables = {name.removeprefix("env."): found.value.replace("${", "$${")}
    alone = ServerConfig(alias="x", transport="stdio", command="x", env=variables)
    return not literal_secrets(alone)


@dataclass(slots=True, repr=False)
class _Private:
    """The values that must not be shown, including credentials that the server must not send either."""

    values: list[str] = field(default_factory=list[str])
    credentials: list[str] = field(default_factory=list[str])

    def add(self, *credentials: str) -> None:
        for credential in credentials:
            parts = list(_secret_parts(credential))
            self.values += parts
            self.credentials += parts

    def add_reference(self, reference: Reference, key: str, value: str) -> None:
        parts = list(_secret_parts(value))
        self.values += parts
        is_named = reference.kind != "name" or names_credential(reference.body) or names_credential(key)
        if is_credential(reference.body, value, is_named=is_named):
            self.credentials += parts

    def add_named(self, variables: Mapping[str, str]) -> None:
        """Add the variables or headers whose names say that they hold credentials."""
        for name, value in variables.items():
            self.add_urls(value)
            if names_credential(name):
                self.values.append(value)
                if is_credential(name, value, is_named=True):
                    self.credentials.append(value)

    def add_urls(self, text: str) -> None:
        """Add the password in a URL, such as the URL of a database."""
        if "@" in text and "://" in text and ":" in text.partition("://")[2].partition("@")[0]:
            self.add(*url_secrets(text))


def _secret_parts(value: str) -> Iterator[str]:
    """The value, or of a key in PEM format its lines without the first and the last: they are no secret."""
    if not value.lstrip().startswith("-----BEGIN "):
        yield value
        return
    yield from (line for line in value.splitlines() if not line.startswith("-----"))


async def _found(
    reference: Reference, name: str, config: ServerConfig, secrets: Secrets, values: Mapping[str, str]
) -> FoundValue:
    found = await secrets.find(reference)
    own = values.get(f"env.{reference.body}") if reference.kind == "name" else None
    if isinstance(found, MissingValue) and own is not None:
        return FoundValue(own)
    if isinstance(found, MissingValue):
        raise SecretMissing(config.alias, name, reference.label, found.reason)
    return found


async def _env_file(config: ServerConfig, values: Mapping[str, str], secrets: Secrets) -> dict[str, str]:
    if "env_file" not in values:
        return {}
    variables = await asyncio.to_thread(secrets.variables, values["env_file"])
    if isinstance(variables, MissingValue):
        raise ConfigError(f"{variables.reason}; check the path", server=config.alias, key="env_file")
    return dict(variables)


def _refuse_unusable(config: ServerConfig, values: Mapping[str, str]) -> None:
    """Raise ConfigError for values that would fail later with a message that quotes them."""
    for name, value in values.items():
        in_http = name == "url" or (name.startswith(("headers.", "auth.", "openapi.")) and name != "auth.key")
        if "\0" in value or (in_http and re.search(r"[\r\n]", value)):
            problem = "holds a line break or a NUL character once its references are filled in; remove it"
            raise ConfigError(problem, server=config.alias, key=name)
        may_be_empty = name == "auth.prompt" or (name == "auth.client_secret" and not _needs_secret(config))
        if name.startswith(_NEEDED) and not value.strip() and not may_be_empty:
            raise ConfigError("is empty once its references are filled in", server=config.alias, key=name)
        if name == "url" and not re.match(r"https?://.|http\+unix://.", value, re.IGNORECASE):
            problem = "does not start with http:// or https:// once its references are filled in"
            raise ConfigError(problem, server=config.alias, key=name)
        if name == "openapi.base_url" and web_url(value) is None:
            problem = "is no http:// or https:// URL once its references are filled in"
            raise ConfigError(problem, server=config.alias, key=name)
        if name == "openapi.base_url" and re.search(r"[?#]", value):
            raise ConfigError(BASE_URL_QUERY, server=config.alias, key=name)
        if name in ("url", "auth.issuer") and (wrong := host_problem(value)):
            raise ConfigError(wrong, server=config.alias, key=name)
        if name.startswith("auth.") and (wrong := text_problem(name.removeprefix("auth."), value)):
            problem = f"{wrong}, once its references are filled in"
            raise ConfigError(problem, server=config.alias, key=name)


def _needs_secret(config: ServerConfig) -> bool:
    return isinstance(config.auth, ClientCredentials)


_TEXTS = ("env.", "headers.", "auth.", "openapi.query.")
"""Fields whose whole value may be any name."""
_PATHS = ("cwd", "env_file", "sandbox.")
_NEEDED = ("command", "url", "auth.", "openapi.")
"""Fields that must not be empty."""
_URLS = ("url", "openapi.base_url", "openapi.document")
_SEPARATORS = "/\\" if os.name != "nt" else "/\\:"
_SIGNS = "._@+-:|"
"""Signs that a name may have, besides letters and digits, within a text for an unknown reader."""
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
    return quote(user, safe="@") if field in _URLS else user


def _reason(user: str, field: str, before: str, after: str) -> str | None:
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
    if field in _URLS:
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
    """The reason why a name is unsafe in a longer text, which a shell, driver or parser may take apart."""
    signs = _SIGNS.replace("|", "") if re.search(r"\s", around) else _SIGNS
    if all(sign.isalnum() or sign in signs or unicodedata.category(sign)[0] == "M" for sign in user):
        return None
    return f"within a longer text, it may have letters, digits and {signs}"
