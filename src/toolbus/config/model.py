"""The config as typed, frozen models that validate themselves.

Values are kept as written: `toolbus.config.secrets.expand` fills in `${...}` later. A mistake raises
ConfigError, never pydantic's own error; no repr and no message shows a value that may be a secret.
"""

import os.path
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    InstanceOf,
    Strict,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from toolbus.config.base import ConfigModel, Seconds, Text, Texts
from toolbus.config.launch.administrator import Administrator
from toolbus.config.location import Location, is_mapping, near_miss
from toolbus.config.script_tools.entry import ScriptEntry, check_names
from toolbus.config.secrets.redact import shown_url
from toolbus.config.secrets.reference import masked, parsed
from toolbus.config.settings.audit import (
    DEFAULT_TELEMETRY,
    AuditSetting,
    HistorySetting,
    TelemetrySetting,
)
from toolbus.config.settings.auth import AuthSetting, forwarding_problem, header_name_problem
from toolbus.config.settings.expose import EXPOSE_BUDGET, ExposeMode
from toolbus.config.settings.limits import CodeLimits, ServerLimits
from toolbus.config.settings.openapi import OpenApi
from toolbus.config.settings.override import BudgetSetting, ToolOverride
from toolbus.config.settings.policy import RULES_EXPECTED, Rules, check_aliases
from toolbus.config.settings.quotas import QUOTAS_EXPECTED, CallQuotas
from toolbus.config.settings.sandbox import SandboxSetting
from toolbus.config.settings.search import DEFAULT_SEARCH, Embeddings, Search
from toolbus.config.settings.serve import Profile, Serve, ServeView, view_name_problem
from toolbus.config.settings.stations import StationEntries, StationEntry
from toolbus.config.settings.store import StoreSetting, TokenSetting
from toolbus.core.text.display import host_problem
from toolbus.core.text.lookalikes import looks
from toolbus.core.values.errors import ConfigError, ServerNotFound
from toolbus.core.values.records import DEFAULT_BUDGET, OWN, LogLevel

# Codex puts up to 32 KiB of project documents into a prompt, which is about as many tokens
# (developers.openai.com/codex/guides/agents-md). Every request to the model includes it, so it is smaller
# than the limit for a single result.
CONTEXT_BUDGET = 8_000
OFFICIAL_REGISTRY = "https://registry.modelcontextprotocol.io"
SMALLEST = 200
"""In tokens: enough for the line about skipped resources, and some content."""


class ContextSource(ConfigModel):
    """A resource of a server, or all listed resources that match a pattern; `*` matches anything."""

    _keeps_null = True

    server: Text
    """The alias of the server."""
    uri: Text
    """The URI of the resource, or a pattern."""


Transport: TypeAlias = Literal["stdio", "streamable-http", "sse", "memory", "openapi"]

LockMode: TypeAlias = Literal["off", "warn", "block"]
# In YAML, `off` without quotes is false.
_Off = BeforeValidator(lambda value: "off" if value is False else value)
# Of a machine, not of a config: no schema of it.
_Rules = Annotated[InstanceOf[Administrator], WithJsonSchema({})]
_Base = Annotated[InstanceOf[ConfigModel], WithJsonSchema({})]
_NEEDED: dict[Transport, str] = {
    "stdio": "command",
    "streamable-http": "url",
    "sse": "url",
    "memory": "server",
    "openapi": "openapi",
}
HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
"""The tool annotations of MCP."""
_FRAMING = {
    *("connection", "content-length", "expect", "keep-alive", "proxy-connection", "te"),
    *("trailer", "transfer-encoding", "upgrade"),
}
"""Headers that decide where a request ends, or that are meant for the next hop only."""
_TEMPLATE_FIELDS = ("server", "tool")
RESOURCE_LIMIT = 20_000_000


def _known_hints(patterns: tuple[str | dict[str, bool], ...]) -> tuple[str | dict[str, bool], ...]:
    """ConfigError for an unknown annotation: a misspelled one would allow everything."""
    for pattern in patterns:
        for hint in pattern if is_mapping(pattern) else ():
            if hint not in HINTS:
                raise Location().unknown_key(hint, HINTS)
    return patterns


_Patterns = Annotated[tuple[str | dict[str, bool], ...], Strict(False), AfterValidator(_known_hints)]
_PATTERNS_EXPECTED = "expected a list of patterns, or of annotations such as {readOnlyHint: true}"


class Timeouts(ConfigModel, validate_default=True):
    """The time limit for each step, in seconds."""

    _renamed = {"recover": "reconnect", "longest": "max"}

    connect: Seconds = 60
    """Until the server is ready."""
    list: Seconds = 30
    """The time limit for listing a server's tools, resources and prompts."""
    call: Seconds = 300
    """For one call."""
    close: Seconds = 5
    """The time limit for a clean shutdown."""
    reconnect: float = Field(default=30, ge=0, allow_inf_nan=False)
    """The time that calls wait for a lost server, starting at the loss."""
    max: Seconds | None = None
    """The total limit of a call whose progress messages each extend its time by `call` seconds."""


class ServerConfig(ConfigModel):
    """One server: how to reach it and which tools to use."""

    _expects = {
        "env": "expected a mapping of names to strings",
        "headers": "expected a mapping of names to strings",
        "inherit_env": "expected 'safe', 'all', 'none' or a list of variable names",
        "verify": "expected true, false or the path of a CA bundle",
        "include": _PATTERNS_EXPECTED,
        "exclude": _PATTERNS_EXPECTED,
        "log_level": f"expected one of {', '.join(get_args(LogLevel))}, or off",
    }
    _keeps_null = True
    _renamed = {"trust": "trust_annotations"}

    alias: Text
    """The name of the server; in a mapping of servers, its key is the name."""
    transport: Transport
    """The transport; by default inferred from `command` and `url`."""
    command: str | None = None
    """The program to start; in a file, also a list of the program and its arguments."""
    args: Texts = ()
    """The arguments of the program."""
    env: dict[str, str] = {}
    """Environment variables for the program."""
    env_file: str | None = None
    """A dotenv file with more variables; `env` takes precedence."""
    inherit_env: Literal["safe", "all", "none"] | Texts = "safe"
    """Other environment variables that the program gets; a list of names adds to `safe`."""
    cwd: str | None = None
    """The folder the program runs in; by default the current one."""
    sandbox: SandboxSetting = None
    """Whether the program runs in a sandbox (Linux), and what it gets there; `true` is only its own files."""
    url: str | None = None
    """The URL of a running server."""
    openapi: OpenApi | None = None
    """An HTTP API whose operations are the tools: its OpenAPI document, or a mapping with that."""
    headers: dict[str, str] = {}
    """Headers sent with every HTTP request; `Host` replaces the host of the URL."""
    auth: AuthSetting = None
    """The authorization of HTTP requests; in a file, `oauth` or a bearer token is also accepted."""
    forward_headers: Texts = ()
    """Headers of the gateway's clients that are forwarded, by name; each value gets its own connection."""
    verify: bool | str = True
    """Whether to verify the server's certificate, or the path of a CA bundle to verify it with."""
    redact: bool = True
    """Whether the server's own credentials are hidden in what it sends; it would reach a model."""
    baggage: bool = False
    """Whether calls carry the program's OpenTelemetry baggage, besides its trace."""
    client_cert: str | None = None
    """The path of the certificate to present to the server: a PEM file, with its key or `client_key`."""
    client_key: str | None = None
    """The path of the key of `client_cert`, not encrypted."""
    enabled: bool = True
    """Whether the server is used."""
    required: bool = False
    """Whether the bus fails to start if this server cannot be reached."""
    include: _Patterns = ()
    """Globs on the server's own tool names, or annotations: `{readOnlyHint: true}`; empty means all."""
    exclude: _Patterns = ()
    """Included tools to leave out, in the same format."""
    override: dict[str, ToolOverride] = {}
    """Changes to tools, by a glob on the server's own tool names."""
    trust_annotations: bool = False
    """Whether to rely on the server's annotations: its read-only tools run without approval."""
    repeatable: Texts = ()
    """Globs on the server's own tool names: calls that a durable run may repeat after a crash."""
    mark: bool = False
    """Whether descriptions start with the server: `[MCP: alias]`."""
    repair: bool = True
    """Whether arguments are checked, and small mistakes repaired, before they are sent."""
    budget: BudgetSetting = DEFAULT_BUDGET
    """The maximum length of a result for a model."""
    prefix: str | None = None
    """The prefix of its tool names, instead of the alias; empty keeps the server's own names."""
    log_level: Annotated[LogLevel | Literal["off"] | None, _Off] = None
    """The log level to request from the server; by default its own choice, from info up."""
    resource_limit: int = Field(default=RESOURCE_LIMIT, gt=0)
    """The maximum size of a resource, in bytes."""
    timeouts: Timeouts = Timeouts()
    """The time limit for each step, in seconds; overrides the limits for all servers."""
    limits: ServerLimits = ServerLimits()
    """The most that the server may send."""
    max_concurrency: int | None = Field(default=None, ge=1)
    """The maximum number of concurrent calls."""
    lazy: bool = False
    """Whether to connect only when a tool of the server is first called."""
    idle_timeout: float | None = Field(default=None, gt=0)
    """Seconds without a call after which the connection is closed until the next one."""
    per_session: bool = False
    """Whether each session of the gateway gets its own connection."""
    era: Literal["auto", "modern", "legacy"] = "auto"
    """The protocol era to use."""
    lock: Annotated[LockMode | None, _Off] = None
    """The treatment of tools that differ from the lockfile; overrides the mode for all servers."""
    registry: Text | None = None
    """The server's name and version in the registry it came from: `io.github.user/thing@1.2.3`."""
    server: object | None = None
    """An in-process MCP server object."""
    warnings: tuple[str, ...] = Field(default=(), exclude=True, repr=False)
    """Warnings about its entry in the config, such as ignored keys."""
    mistake: ConfigError | None = Field(default=None, exclude=True, repr=False)
    """The error in its entry; if set, no other field is, and connecting raises it."""
    administrator: _Rules | None = Field(default=None, exclude=True, repr=False)
    """The rules of this machine, as a bus has read them; None to read them when it connects."""
    file: str | None = Field(default=None, exclude=True, repr=False)
    """The file of its entry, if that is not the file of the config."""
    folder: Path | None = Field(default=None, exclude=True, repr=False)
    """The folder of that file's `.env` and relative paths, if it belongs to the user's own config."""
    also_include: _Patterns = Field(default=(), exclude=True, repr=False)
    """More patterns of another layer: a tool also has to match one of these."""

    def texts(self) -> Iterator[tuple[str, str]]:
        """Every text that may contain references, with the name of its field: `env.TOKEN`, `args[2]`."""
        single = (
            ("command", self.command),
            ("cwd", self.cwd),
            ("url", self.url),
            ("env_file", self.env_file),
        )
        yield from ((field, text) for field, text in single if text is not None)
        yield from ((f"auth.{key}", text) for key, text in (self.auth.texts() if self.auth else ()))
        yield from ((f"sandbox.{key}", text) for key, text in (self.sandbox.texts() if self.sandbox else ()))
        yield from ((f"openapi.{key}", text) for key, text in (self.openapi.texts() if self.openapi else ()))
        yield from ((f"args[{index}]", text) for index, text in enumerate(self.args))
        yield from ((f"env.{name}", text) for name, text in self.env.items())
        yield from ((f"headers.{name}", text) for name, text in self.headers.items())

    @field_validator("url")
    @classmethod
    def _usable_url(cls, url: str | None, others: ValidationInfo) -> str | None:
        if url is None or others.data.get("command") is not None:  # only one of them can be right
            return url
        if not re.match(r"https?://.|http\+unix://.|\$\{", url, re.IGNORECASE):
            raise ValueError("expected a URL that starts with http:// or https://")
        if "${" not in url and (problem := host_problem(url)):
            raise ValueError(problem)
        return url

    @field_validator("headers")
    @classmethod
    def _usable_headers(cls, headers: dict[str, str]) -> dict[str, str]:
        for name in headers:
            if problem := _header_problem(name):
                raise Location().error(problem, name if name.isprintable() else None)
        return headers

    @field_validator("forward_headers")
    @classmethod
    def _usable_forwards(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if problem := forwarding_problem(name):
                raise ValueError(problem)
        return tuple(dict.fromkeys(name.lower() for name in names))

    def _check(self) -> None:
        if self.mistake is not None:
            return
        check_alias(self.alias)
        if self.prefix is not None:
            check_alias(self.prefix, "prefix", self.alias)
        self._check_source()
        location = Location(server=self.alias)
        self._check_http(location)
        if self.sandbox is not None and self.command is None:
            raise location.error(
                "is for servers with a command; no other one is a program of ours", "sandbox"
            )
        for field, text in self.texts():
            parsed(text, server=self.alias, key=field)

    def _check_http(self, location: Location) -> None:
        is_http = self.url is not None or self.openapi is not None
        if self.auth is not None and not is_http:
            raise location.error("is for servers with a url; give a program its secrets in env", "auth")
        if self.auth is not None and any(name.lower() == "authorization" for name in self.headers):
            raise location.error("auth and an Authorization header are mutually exclusive; keep one", "auth")
        if self.auth is not None and self.auth.type == "token_exchange" and self.required:
            raise location.error("cannot be true: without a client there is no token to exchange", "required")
        if self.forward_headers and not is_http:
            raise location.error("is for servers with a url; a program gets no headers", "forward_headers")
        for name in self.headers:
            if name.lower() in self.forward_headers:
                raise location.error(f"{name} is set in headers; keep one", "forward_headers")

    def _check_source(self) -> None:
        """Require exactly one of command, url, openapi and server, and the one that the transport needs."""
        location = Location(server=self.alias)
        given = [name for name in ("command", "url", "openapi", "server") if getattr(self, name) is not None]
        if not given:
            raise location.error(
                "has neither command nor url; set command (stdio) or url (streamable-http, sse)"
            )
        if len(given) > 1:
            raise location.error(f"{given[0]} and {given[1]} are mutually exclusive; keep one", given[1])
        needed = _NEEDED[self.transport]
        if given[0] != needed:
            raise location.error(f"transport {self.transport!r} needs {needed}, not {given[0]}", "transport")

    def __repr_args__(self) -> Iterator[tuple[str, str]]:
        yield "alias", self.alias
        yield "transport", self.transport
        if self.mistake is not None:
            yield "mistake", self.mistake.problem
        if self.command is not None:
            words = masked(self.command).split()
            yield "command", os.path.basename(words[0]) if words else ""
        if self.url is not None:
            yield "url", shown_url(masked(self.url)).partition("?")[0]
        if self.openapi is not None:
            yield "openapi", shown_url(masked(self.openapi.document)).partition("?")[0]


class BusConfig(ConfigModel):
    """All enabled servers, in the order of the config, and the settings for all of them."""

    _expects = {
        "include": _PATTERNS_EXPECTED,
        "exclude": _PATTERNS_EXPECTED,
        "expose_budget": "expected a number of tokens",
        "context": "expected a list of {server: ..., uri: ...}",
        "context_budget": f"expected a number of tokens, at least {SMALLEST}",
        "policy": RULES_EXPECTED,
        "quotas": QUOTAS_EXPECTED,
        "extends": "expected user, for the config in your own config folder",
        "hooks": "expected a list, such as [mypackage.redact:Hook, {use: mypackage.quota:Guard}]",
        "tools": "expected a mapping of names to {script: FILE, description: ..., input: {...}}",
        "profiles": "expected a mapping of names to {servers: [...], include: [...], exclude: [...]}",
    }
    _keeps_null = True

    servers: dict[str, ServerConfig] = {}
    """The servers, by alias; in a file, also a list of entries that have an alias."""
    naming: str = "auto"
    """`auto`, or a template with `{tool}` and optionally `{server}`."""
    timeouts: Timeouts = Timeouts()
    """The time limit for each step, in seconds; servers may override it."""
    limits: ServerLimits = ServerLimits()
    """The most that a server may send; servers may override it."""
    code: CodeLimits = CodeLimits()
    """The most that a script may use."""
    include: _Patterns = ()
    """Globs on `server/tool`, or annotations; applied after the patterns of each server."""
    exclude: _Patterns = ()
    """Included tools to leave out, in the same format."""
    mark: bool = False
    """The default of `mark` for all servers."""
    repair: bool = True
    """The default of `repair` for all servers."""
    redact: bool = True
    """The default of `redact` for all servers."""
    sandbox: SandboxSetting = None
    """The default of `sandbox` for all servers with a command."""
    budget: BudgetSetting = DEFAULT_BUDGET
    """The default of `budget` for all servers."""
    resource_tools: Literal[True, False, "bus", "server"] = False
    """Resources for agents: a pair of tools for the bus (true), or one tool for each server."""
    prompt_tools: bool = False
    """Whether each prompt is also a tool."""
    skill_tools: bool = False
    """Whether each server with skills has a tool that loads them."""
    expose: ExposeMode = "all"
    """The way a model gets its tools: all definitions in every request, or through `search_tools`."""
    expose_budget: int = Field(default=EXPOSE_BUDGET, ge=0)
    """The tokens of all definitions above which `expose: auto` searches."""
    always: Texts = ()
    """Globs on public tool names, or on `server/tool`: tools that are shown in every mode."""
    roots: Texts = ()
    """Folders to expose to servers as roots; relative to the config's folder."""
    tools: dict[str, ScriptEntry] = {}
    """Scripts that are offered as tools, by name; their steps may call tools that a model does not see."""
    context: Annotated[tuple[ContextSource, ...], Strict(False)] = ()
    """Resources to put into an agent's context."""
    context_budget: int = Field(default=CONTEXT_BUDGET, ge=SMALLEST)
    """The maximum number of tokens for the whole context."""
    lock: Annotated[LockMode | None, _Off] = None
    """The treatment of tools that differ from the lockfile; `block` by default if there is a lockfile."""
    policy: Rules = ()
    """Rules for calls: the first rule that matches decides; without a match, a call is allowed."""
    quotas: CallQuotas = ()
    """Limits on the calls of each key, user, view or server."""
    audit: AuditSetting = None
    """The audit log of every decision and call; in a file, a path alone is also accepted."""
    history: HistorySetting = None
    """The call history of the console; in a file, `calls` or `everything` is also accepted."""
    telemetry: TelemetrySetting = DEFAULT_TELEMETRY
    """The content of OpenTelemetry spans, if the program installs an SDK; false for no spans and metrics."""
    tokens: TokenSetting = "auto"
    """The place for tokens: `auto`, `keyring`, `memory`, `file:DIR`; in code, also a `TokenStore`."""
    store: StoreSetting | None = None
    """The database that the replicas of a gateway share; in a file, also its URL alone."""
    search: Search = DEFAULT_SEARCH
    """Tool search: the encoder that finds tools by meaning."""
    registry: Text = OFFICIAL_REGISTRY
    """The registry of `toolbus add` and `search --registry`: its URL, or a file."""
    serve: Serve | None = None
    """Settings of `toolbus serve`: its address, its clients and their views."""
    profiles: dict[str, Profile] = {}
    """Sets of servers and tools, by name; `--profile NAME` uses one of them."""
    hooks: StationEntries = ()
    """Your own stations of the call path: hooks, guards and observers; each is code that toolbus imports."""
    extends: Literal["user"] | None = None
    """`user` adds the servers and rules of the config in your own config folder."""
    disabled: tuple[str, ...] = Field(default=(), exclude=True, repr=False)
    """The aliases of the disabled servers."""
    off: dict[str, Any] = Field(default={}, exclude=True, repr=False)
    """Each disabled server, or a function that reads its entry, which was not checked."""
    order: tuple[str, ...] = Field(default=(), exclude=True, repr=False)
    """The aliases of all servers, enabled or not, in the order of the config."""
    switched: frozenset[str] = Field(default=frozenset(), exclude=True, repr=False)
    """The servers that the program has enabled or disabled since the config was read."""
    base: _Base | None = Field(default=None, exclude=True, repr=False)
    """The user's own config, if it extends that."""
    profile: str | None = Field(default=None, exclude=True, repr=False)
    """The profile in use."""
    outside: tuple[str, ...] = Field(default=(), exclude=True, repr=False)
    """The aliases of the servers that are not in the profile."""
    file: str | None = None
    """The file it was read from."""
    folder: Path | None = None
    """The folder of `.env` and of relative paths."""
    for_lock: bool = Field(default=False, exclude=True, repr=False)
    """Whether its servers are started only to write their lockfile, which may be required otherwise."""
    keeps_listings: bool = Field(default=True, exclude=True, repr=False)
    """Whether lazy servers offer what they listed last; a command that starts others does not need that."""
    reviewed: dict[str, bytes | None] | None = Field(default=None, exclude=True, repr=False)
    """Project files by path, with the content that the user accepted; they are not read again."""

    @field_validator("naming")
    @classmethod
    def _usable_template(cls, template: str) -> str:
        if template != "auto":
            _check_template(template)
        return template

    @property
    def root_folders(self) -> list[Path]:
        """The roots, relative to the config's folder."""
        return [(self.folder or Path()) / root for root in self.roots]

    @property
    def user(self) -> "BusConfig | None":
        """The user's own config, if it extends that; both policies apply, and the patterns of both."""
        return self.base if isinstance(self.base, BusConfig) else None

    @property
    def rules(self) -> "tuple[BusConfig, ...]":
        """The configs whose policy and patterns apply: this one, and the user's own."""
        return (self,) if self.user is None else (self, self.user)

    @property
    def stations(self) -> tuple[StationEntry, ...]:
        """The entries of `hooks` that apply: the user's own first, which no other layer can remove."""
        return self.hooks if self.user is None else (*self.user.hooks, *self.hooks)

    @property
    def gateway(self) -> Serve:
        """The settings of `toolbus serve`; each profile is one of its views."""
        serve = self.serve or Serve()
        if not self.profiles:
            return serve
        views = {name: one.as_view() for name, one in self.profiles.items()}
        whole = {} if serve.views else {serve.default_view: ServeView()}
        return serve.model_copy(update={"views": {**whole, **views, **serve.views}})

    def file_of(self, alias: str) -> str | None:
        """The file with the entry of a server; its lockfile is beside that."""
        server = self.servers.get(alias)
        return self.file if server is None or server.file is None else server.file

    def texts(self) -> Iterator[tuple[str, str]]:
        """Every text outside of `servers` that may contain references, with the name of its key."""
        if self.serve is not None:
            yield from ((f"serve.{key}", text) for key, text in self.serve.texts())
        if self.store is not None:
            yield "store.url", self.store.url
        if isinstance(encoder := self.search.encoder, Embeddings) and encoder.key is not None:
            yield "search.encoder.key", encoder.key
        yield from ((f"{entry.key}.{key}", text) for entry in self.hooks for key, text in entry.texts())

    def _need(self, alias: str) -> None:
        if alias not in self.servers and alias not in self.off:
            raise ServerNotFound(alias, [*self.servers, *self.off])

    def without(self, alias: str) -> "BusConfig":
        """The config without a server; `ServerNotFound` if it has none."""
        self._need(alias)
        left = {name: server for name, server in self.servers.items() if name != alias}
        off = {name: server for name, server in self.off.items() if name != alias}
        more = {"disabled": tuple(off), "switched": self.switched - {alias}}
        return self.model_copy(update={"servers": left, "off": off, **more})

    def switch(self, alias: str, *, on: bool) -> "BusConfig":
        """The config with that server enabled or disabled; `ServerNotFound` if it has no such entry."""
        self._need(alias)
        if on is (alias in self.servers):
            return self
        servers, off = {**self.servers}, {**self.off}
        if on:
            found = off.pop(alias)
            servers[alias] = found if isinstance(found, ServerConfig) else found()
        else:
            off[alias] = servers.pop(alias)
        order = tuple(dict.fromkeys([*self.order, *self.servers]))
        servers = {name: servers[name] for name in order if name in servers}
        if on and self.policy:
            check_aliases(servers, Location())
        more = {"disabled": tuple(name for name in order if name in off), "switched": self.switched ^ {alias}}
        return self.model_copy(update={"servers": servers, "off": off, "order": order, **more})

    def with_switches(self, old: "BusConfig") -> "BusConfig":
        """The config with what the program has switched in an earlier one, where the entries still differ."""
        new = self
        for alias in old.switched:
            if alias in self.servers or alias in self.off:
                new = new.switch(alias, on=alias in old.servers)
        return new

    def _check(self) -> None:
        for alias in self.servers:
            check_alias(alias)
        if self.policy:
            check_aliases(self.servers, Location())
        check_names(self.tools)
        for name in self.profiles:
            if problem := view_name_problem(name):
                raise Location().error(problem, f"profiles.{name}")
            if self.serve is not None and name in self.serve.views:
                raise Location().error("is also a view, in serve.views; rename one", f"profiles.{name}")
        if self.serve is not None:
            for key, problem in self.serve.unknown_views(self.gateway.views):
                raise Location().error(problem, f"serve.{key}")


def _header_problem(name: str) -> str | None:
    """The reason why a header of that name cannot be sent with every request."""
    if problem := header_name_problem(name):
        return problem
    if name.lower() in _FRAMING:
        return "is for one connection or one request, and toolbus sets it itself; remove it"
    return None


def check_alias(alias: str, key: str = "alias", server: str | None = None) -> None:
    """ConfigError if a server could be mistaken for the bus itself, whose tools a model trusts."""
    if looks(alias)[2].strip(" \t\r\n_-./") == looks(OWN)[2]:
        problem = f"{OWN!r} is reserved for the tools of toolbus itself; choose another"
        raise Location(server=alias if server is None else server).error(problem, key)


def _check_template(template: str) -> None:
    """ValueError unless the template is valid and contains `{tool}`."""
    known = ", ".join(f"{{{name}}}" for name in _TEMPLATE_FIELDS)
    try:
        parts = list(Formatter().parse(template))
    except ValueError:
        raise ValueError(f"malformed template; write 'auto' or a text with {known}") from None
    for _, field, spec, conversion in parts:
        if field is None:
            continue
        if field not in _TEMPLATE_FIELDS or spec or conversion:
            hint = near_miss(field, _TEMPLATE_FIELDS)
            raise ValueError(f"unknown field {{{field}}} in the template; known: {known}{hint}")
    if all(field != "tool" for _, field, _, _ in parts):
        raise ValueError("the template has no {tool}: all tools of a server would share one name")
