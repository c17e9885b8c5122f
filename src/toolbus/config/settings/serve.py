"""The `serve` of a bus: how `toolbus serve` listens, whom it lets in, and what each of them gets.

It never listens beyond this machine without authentication.
"""

import os.path
import re
from collections.abc import Collection, Iterator, Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, Strict, field_serializer

from toolbus.config.base import ConfigModel, Count, Names, Seconds, Text, TextOrTexts
from toolbus.config.location import Location, joined, near_miss
from toolbus.config.secrets.reference import MASK, is_shown, parsed
from toolbus.config.settings.auth import is_loopback, web_url
from toolbus.config.settings.expose import ExposeMode
from toolbus.config.settings.override import BudgetSetting
from toolbus.config.settings.policy import RULES_EXPECTED, Rules
from toolbus.config.settings.sign_in import SignInSetting, check_scopes, taken_path_problem
from toolbus.core.text.display import ascii_authority, ascii_url
from toolbus.core.values.records import JSON

DEFAULT_VIEW = "default"
CARD = "server-card"
"""The path of a server card, below the path of its address."""
_CALLS = ("max_in_flight", "max_per_user", "max_per_server", "max_waiting", "max_wait")
_LIMITS = (
    "max_sessions",
    "max_tasks",
    "max_subscriptions",
    *_CALLS,
    "max_body",
    "max_values",
    "max_header",
    "session_idle",
    "list_within",
    "drain",
)
AT_START = ("http", "path", "tls", "trusted_proxies", "cards", "console", "apps", "rest", "workers", *_LIMITS)
"""The keys that take effect after a restart; the others are followed while the gateway runs."""
_OPEN = "would be open to others without authentication"
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?)(?::(\d{1,5}))?")
_PATH = re.compile(r"(?:/[A-Za-z0-9._~-]+)+")
_VIEW = re.compile(r"[A-Za-z0-9._~-]+")
_REST = ("/openapi.json", "/tools", "/calls", "/views")
"""Paths of the REST API, and of all below them."""


def _in_ascii(text: str) -> str:
    """A host or a URL as clients send it; an invalid one is returned unchanged, and the checks report it."""
    try:
        return ascii_url(text) if "://" in text else ascii_authority(text)
    except ValueError:
        return text


_Ascii = Annotated[str, AfterValidator(_in_ascii)]


class ServeModel(ConfigModel):
    """Built when it is first used: most programs serve nothing."""

    model_config = ConfigDict(defer_build=True)


class Tls(ServeModel):
    """The certificate of the gateway."""

    cert: Text
    """The path of the certificate: a PEM file, with the certificates between it and its root."""
    key: Text
    """The path of its key: a PEM file, not encrypted."""


class ServeApps(ServeModel):
    """The other origin, on which the console shows apps of servers (MCP Apps)."""

    http: Text | None = None
    """The address to listen at for it, as `HOST:PORT`; by default a free port beside the console."""
    url: _Ascii | None = None
    """Its URL for browsers that reach the console through a proxy: `https://apps.example.com`."""

    @property
    def address(self) -> tuple[str, int] | None:
        """The host and port to listen at; None for any port."""
        return None if self.http is None else _address(self.http)

    def _check(self) -> None:
        if self.http is not None and _address(self.http) is None:
            raise Location().error("expected HOST:PORT, such as 127.0.0.1:7401", "http")
        parts = None if self.url is None else web_url(self.url)
        if self.url is not None and (parts is None or parts.path.strip("/") or parts.query or parts.fragment):
            raise Location().error("expected an origin such as https://apps.example.com", "url")
        if self.url is not None and self.http is None:
            raise Location().error("is missing; a proxy needs the address to forward url to", "http")


def _address(text: str) -> tuple[str, int] | None:
    """The host and port of `HOST:PORT`; an IPv6 address without brackets."""
    found = _HOST.fullmatch(text)
    if found is None or found[2] is None or int(found[2]) > 65535:
        return None
    return found[1].strip("[]"), int(found[2])


class Introspection(ServeModel):
    """Settings for asking the authorization server about tokens that are not JWTs."""

    client_id: Text
    """The ID of the gateway at the authorization server."""
    client_secret: Annotated[str, Field(repr=False, min_length=1)]
    """The secret of the gateway there, preferably a reference such as `${GATEWAY_SECRET}`."""
    url: Text | None = None
    """The URL to ask; by default the one in the metadata of the issuer."""

    @field_serializer("client_secret")
    def _masked(self, text: str) -> str:
        """A reference as written; a secret itself, or a default, is not shown."""
        return text if is_shown(text) else MASK

    def _check(self) -> None:
        parsed(self.client_secret, key="client_secret")
        if self.url is not None and web_url(self.url) is None:
            raise Location().error("expected a URL that starts with http:// or https://", "url")


class TokenIssuer(ServeModel):
    """The authorization server whose tokens the gateway accepts."""

    _expects = {"scopes": "expected a mapping of scopes to views"}

    issuer: Text
    """The URL of the authorization server, exactly as its tokens have it in `iss`."""
    audience: TextOrTexts = ()
    """The expected `aud` of tokens, one or a list; by default the public URL with the path."""
    user: str = "sub"
    """The claim that names the user whose logins and secrets are used; empty to use the bus's own."""
    scopes: dict[str, str] = {}
    """The view that a scope gives, by scope. A token needs one of them; the first that it has decides."""
    jwks_url: Text | None = None
    """The URL of the keys of the issuer; by default the one in its metadata."""
    introspection: Introspection | None = None
    """Settings for asking about tokens that are not JWTs; by default such tokens are refused."""

    def _check(self) -> None:
        parts = web_url(self.issuer)
        if parts is None or parts.query or parts.fragment:
            example = "expected the URL of an authorization server, such as https://auth.example.com"
            raise Location().error(example, "issuer")
        if self.jwks_url is not None and web_url(self.jwks_url) is None:
            raise Location().error("expected a URL that starts with http:// or https://", "jwks_url")
        check_scopes(self.scopes)


class ServeAuth(ServeModel):
    """The ways in which clients prove who they are."""

    keys: bool = False
    """Whether clients may use the keys of `toolbus key add`."""
    oauth: TokenIssuer | None = None
    """The authorization server whose tokens the gateway accepts."""
    sign_in: SignInSetting | None = None
    """The gateway's own authorization server: people sign in, and say what a client may use."""

    @property
    def is_needed(self) -> bool:
        """Whether a client must prove who it is."""
        return self.keys or self.oauth is not None or self.sign_in is not None


_AsciiNames = Annotated[tuple[Annotated[Text, AfterValidator(_in_ascii)], ...], Strict(False)]


class Profile(ServeModel):
    """A named set of servers and tools, and the rules for them."""

    _expects = {"policy": RULES_EXPECTED}

    servers: Names | None = None
    """The aliases of its servers, with their resources and prompts; by default all."""
    include: Names = ()
    """Globs on public tool names, or on `server/tool`; empty means all."""
    exclude: Names = ()
    """Included tools to leave out, in the same format."""
    policy: Rules = ()
    """More rules: they apply in addition to the rules of the bus, and the stricter decision wins."""
    expose: ExposeMode | None = None
    """The way clients get the tools; by default the setting of the bus."""
    always: Names | None = None
    """Globs on tools that are shown in every mode; by default as the bus says."""

    @classmethod
    def _from_file(cls, value: JSON) -> dict[str, JSON]:
        return super()._from_file({} if value is None else value)

    def as_view(self) -> "ServeView":
        """The same as a view of the gateway."""
        return ServeView(**{name: getattr(self, name) for name in self.model_fields_set})


class ServeView(Profile):
    """A view for clients: its servers, its tools and its rules."""

    budget: BudgetSetting | None = None
    """The maximum length of a result; by default results are forwarded unchanged."""
    user: Text | None = None
    """The user whose logins and secrets are used for clients that have no user of their own."""

    def has_server(self, alias: str) -> bool:
        """Test whether a server is in it; patterns and rules may still leave its tools out."""
        return self.servers is None or alias in self.servers


def _origin(url: str) -> str:
    return "/".join(url.lower().split("/", 3)[:3])


_ADDRESS_KEYS = frozenset(("port", "host", "listen", "address", "addr", "bind", "hostname"))
"""Other programs' names for the address at which they listen."""
_ADDRESS_HINT = "the address is 'http', as HOST:PORT: serve: {http: \"127.0.0.1:7400\"}"


class Serve(ServeModel):
    """Settings of `toolbus serve`: its address, its clients and their views."""

    _expects = {"console": "expected true, false or edit"}

    http: str = "127.0.0.1:7400"
    """The address to listen at, as `HOST:PORT`; beyond this machine it needs `auth` and `hosts`."""
    path: str = "/mcp"
    """The path of the MCP endpoint; a view has its own below it, such as `/mcp/research`."""
    hosts: _AsciiNames = ()
    """The names under which clients reach the gateway, besides the local ones."""
    origins: _AsciiNames = ()
    """The origins of web pages that may use the gateway, such as `https://app.example.com`."""
    public_url: _Ascii | None = None
    """The URL under which clients reach the gateway, without `path`: `https://tools.example.com`."""
    tls: Tls | None = None
    """The certificate of the gateway, for HTTPS; by default it speaks HTTP."""
    trusted_proxies: Names = ()
    """The addresses or networks of proxies whose `X-Forwarded-*` headers are believed."""
    auth: ServeAuth = Field(default_factory=ServeAuth)
    """The ways in which clients prove who they are; by default every client on this machine is accepted."""
    views: dict[str, ServeView] = {}
    """Views for clients, by name; by default there is one view, of everything."""
    default_view: str = DEFAULT_VIEW
    """The view of clients that have no other."""
    cards: bool = False
    """Publish `/.well-known/ai-catalog.json` and server cards, which describe the gateway; experimental."""
    console: bool | Literal["edit"] | None = None
    """Whether the web console at `/console` is served; by default only to this machine, with one worker.

    With `true` it is open to other machines; with `edit`, they can also add and change servers.
    """
    apps: ServeApps = Field(default_factory=ServeApps)
    """The other origin, on which the console shows apps of servers."""
    rest: bool = False
    """Whether the tools are also a REST API, which `/openapi.json` describes."""
    workers: Annotated[int, Field(ge=1, le=1000)] = 1
    """Processes that serve, each with its own connections to the servers."""
    max_sessions: Count = 10_000
    """Sessions of legacy clients; one more ends the idlest one of the user who has the most."""
    max_tasks: Count = 1_000
    """Calls that run as tasks, or wait for the answer of a client. One user gets at most half."""
    max_subscriptions: Count = 10_000
    """Resources that clients subscribe to. One user gets at most half."""
    max_in_flight: Count = 1_000
    """Requests that are being answered at the same time; others are refused. One user gets at most half."""
    max_per_user: Count = 256
    """Calls of one user that are made at the same time; others wait for their turn."""
    max_per_server: Count = 128
    """Calls that one server gets at the same time, fewer if its `max_concurrency` is lower; others wait."""
    max_waiting: Count = 512
    """Calls that wait for their turn; others are refused."""
    max_wait: Seconds = 10
    """Seconds that a call waits for its turn; then it is refused."""
    max_body: Count = 16 * 1024 * 1024
    """Bytes of the body of a request."""
    max_values: Count = 100_000
    """JSON values in a request; they are counted before it is parsed."""
    max_header: Count = 32 * 1024
    """Bytes of the head of a request."""
    session_idle: Seconds = 3600
    """Seconds without a request after which the session of a legacy client ends."""
    list_within: Seconds = 8
    """Seconds that the first lists wait for servers that start and never listed anything before."""
    drain: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 30
    """Seconds that calls in flight have to end, when the gateway is to stop."""

    @property
    def address(self) -> tuple[str, int]:
        """The host and port to listen at; an IPv6 address without brackets."""
        found = _address(self.http)
        assert found is not None, "checked"
        return found

    @property
    def apps_address(self) -> tuple[str, int] | None:
        """The host and port to listen at for apps; None if there is no such place."""
        return self.apps.address or ((self.address[0], 0) if self.is_local else None)

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        return is_loopback(self.address[0])

    @property
    def is_public(self) -> bool:
        """Whether the public URL is one of other machines."""
        public = None if self.public_url is None else web_url(self.public_url)
        return public is not None and not is_loopback(public.hostname or "")

    @property
    def has_console(self) -> bool:
        """Whether the page for the person who runs it is served."""
        is_alone = self.is_local and not self.is_public and self.workers == 1
        return is_alone if self.console is None else bool(self.console)

    @property
    def resource(self) -> str | None:
        """The URL of the MCP endpoint, if the public URL is known."""
        return None if self.public_url is None else f"{self.public_url.rstrip('/')}{self.path}"

    @property
    def warnings(self) -> Iterator[str]:
        """Valid settings that may not be intended."""
        is_encrypted = self.tls is not None or (self.public_url or "").lower().startswith("https:")
        if not self.is_local and not is_encrypted:
            yield "keys and tokens are sent unencrypted; set serve.tls, or put a proxy with HTTPS in front"
        if self.auth.sign_in is not None:
            oidc, given = self.auth.sign_in.oidc, self.scopes.values()
            of_groups = (
                () if oidc is None else [view for views in oidc.groups.views.values() for view in views]
            )
            wanted = of_groups if self.auth.keys else (*of_groups, *self.views)
            for view in dict.fromkeys(wanted):
                if view not in given:
                    yield f"no scope of auth.sign_in.scopes gives the view {view!r}, so no person can use it"

    def listening_at(self, http: str) -> "Serve":
        """The same at another address; ConfigError if it may not listen there."""
        values: dict[str, JSON] = {name: getattr(self, name) for name in self.model_fields_set}
        values["http"] = http
        return Serve(**values)

    def staying_as(self, started: "Serve") -> "Serve":
        """The same, but `AT_START` as it was at the start; ConfigError if that may not be."""
        fixed = {name: getattr(started, name) for name in started.model_fields_set.intersection(AT_START)}
        own = {name: getattr(self, name) for name in self.model_fields_set.difference(AT_START)}
        return Serve(**own, **fixed)

    @property
    def issuer(self) -> str | None:
        """The issuer of clients' tokens; None if they have none."""
        if self.auth.sign_in is not None:
            return (self.public_url or "").rstrip("/")
        return None if self.auth.oauth is None else self.auth.oauth.issuer

    @property
    def scopes(self) -> Mapping[str, str]:
        """The view that a scope of a token gives, by scope; the default view first, if people sign in."""
        if self.auth.sign_in is None:
            return {} if self.auth.oauth is None else self.auth.oauth.scopes
        names = self.views or (self.default_view,)
        scopes = self.auth.sign_in.scopes or {name: name for name in names}
        return dict(sorted(scopes.items(), key=lambda pair: pair[1] != self.default_view))

    def view(self, name: str) -> ServeView | None:
        """The view of that name; without any in the config, the default one shows everything."""
        return ServeView() if not self.views and name == self.default_view else self.views.get(name)

    def texts(self) -> Iterator[tuple[str, str]]:
        """Every text that may contain references, with the name of its key."""
        if self.auth.oauth is not None and (asking := self.auth.oauth.introspection) is not None:
            yield "auth.oauth.introspection.client_secret", asking.client_secret
        oidc = None if self.auth.sign_in is None else self.auth.sign_in.oidc
        if oidc is not None and oidc.client_secret is not None:
            yield "auth.sign_in.oidc.client_secret", oidc.client_secret

    def within(self, folder: Path | None) -> Self:
        """The setting with the whole paths of its files; relative ones are relative to the folder."""
        if self.tls is None:
            return self
        paths = {name: os.path.expanduser(getattr(self.tls, name)) for name in ("cert", "key")}
        whole = {name: os.path.abspath(os.path.join(folder or "", path)) for name, path in paths.items()}
        return self.model_copy(update={"tls": Tls(**whole)})

    @classmethod
    def _unknown(cls, key: str) -> str:
        return f"unknown key; {_ADDRESS_HINT}" if key.lower() in _ADDRESS_KEYS else super()._unknown(key)

    def _check(self) -> None:
        problems = [*self._address_problems(), *self._name_problems(), *self._view_problems()]
        # Only then is it known who can reach it.
        problems = problems or [*self._reach_problems()]
        if problems:
            raise joined([Location().error(problem, key) for key, problem in problems])

    def _address_problems(self) -> Iterator[tuple[str, str]]:
        if _address(self.http) is None:
            yield "http", "expected HOST:PORT, such as 127.0.0.1:7400"
        if not _PATH.fullmatch(self.path):
            yield "path", "expected a path such as /mcp"
        if f"{self.path}/".startswith("/console/"):
            yield "path", "/console is the path of the page for people; choose another, such as /mcp"
        if self.rest and f"{self.path}/".startswith(tuple(f"{path}/" for path in _REST)):
            yield "path", "is a path of the REST API (serve.rest); choose another, such as /mcp"
        if self.auth.sign_in is not None:
            yield from (("path", problem) for problem in taken_path_problem(self.path))
            yield from self._issuer_problems()
        if self.public_url is not None:
            parts = web_url(self.public_url)
            if parts is None or parts.query or parts.fragment:
                yield "public_url", "expected a URL such as https://tools.example.com, without a query"
            elif self.apps.url is not None and _origin(self.apps.url) == _origin(self.public_url):
                yield "apps.url", "is the origin of the console (serve.public_url); apps need another name"
            elif parts.path.rstrip("/").endswith(self.path):
                yield "public_url", f"leave {self.path} out; it is added (serve.path)"

    def _issuer_problems(self) -> Iterator[tuple[str, str]]:
        """Whether the public URL can be the name of an authorization server."""
        if self.auth.oauth is not None:
            yield "auth.sign_in", "is an authorization server of its own; leave out auth.oauth, or this"
        public = web_url(self.public_url or "")
        if self.public_url is None:
            yield "public_url", "is missing; auth.sign_in needs the URL that people open in a browser"
        elif (
            public is not None and public.scheme.lower() != "https" and not is_loopback(public.hostname or "")
        ):
            yield "public_url", "people sign in there, so it must start with https://"

    def _name_problems(self) -> Iterator[tuple[str, str]]:
        for number, host in enumerate(self.hosts):
            if not _HOST.fullmatch(host):
                yield f"hosts[{number}]", "expected a host alone, such as tools.example.com"
        for number, origin in enumerate(self.origins):
            parts = web_url(origin)
            if parts is None or parts.path or parts.query or parts.fragment:
                yield f"origins[{number}]", "expected an origin such as https://app.example.com"
        for number, proxy in enumerate(self.trusted_proxies):
            try:
                ip_network(proxy, strict=False)
            except ValueError:
                expected = "expected an address or a network, such as 10.0.0.5 or 10.0.0.0/8"
                yield f"trusted_proxies[{number}]", expected

    def _view_problems(self) -> Iterator[tuple[str, str]]:
        for name in self.views:
            if problem := view_name_problem(name):
                yield f"views.{name}", problem
        if self.cards and CARD in self.views:
            yield f"views.{CARD}", "is the path of a server card (serve.cards); choose another name"
        if self.views and self.default_view == DEFAULT_VIEW and DEFAULT_VIEW not in self.views:
            yield "default_view", "is missing; name the view of clients that have no other"
        if self.auth.oauth is not None and not self.auth.oauth.audience and self.public_url is None:
            yield "auth.oauth.audience", "is missing; set it, or serve.public_url"

    def unknown_views(self, views: Collection[str]) -> Iterator[tuple[str, str]]:
        """The keys that name a view which does not exist, each with the problem."""
        known = views or [self.default_view]
        if self.default_view not in known:
            yield "default_view", _no_view(self.default_view, known)
        for kind in ("oauth", "sign_in"):
            setting: TokenIssuer | SignInSetting | None = getattr(self.auth, kind)
            for scope, view in () if setting is None else setting.scopes.items():
                if view not in known:
                    yield f"auth.{kind}.scopes.{scope}", _no_view(view, known)
        oidc = None if self.auth.sign_in is None else self.auth.sign_in.oidc
        if oidc is not None:
            for group, given in oidc.groups.views.items():
                for view in set(given).difference(known):
                    yield f"auth.sign_in.oidc.groups.views.{group}", _no_view(view, known)

    def _reach_problems(self) -> Iterator[tuple[str, str]]:
        """Check that a gateway open to others requires authentication, and knows its public name."""
        if not self.auth.is_needed:
            if not self.is_local:
                yield "http", f"{_OPEN}; set serve.auth: {{keys: true}}, or listen at 127.0.0.1"
            elif self.is_public:
                yield "public_url", f"{_OPEN}; set serve.auth: {{keys: true}}, or leave it out"
        elif not self.is_local and not self.hosts and not self.is_public:
            yield "hosts", "is missing; list the names under which clients reach the gateway"


def view_name_problem(name: str) -> str | None:
    """The problem with the name of a view or a profile."""
    if _VIEW.fullmatch(name):
        return None
    return "expected a name of letters, digits and ._~-: it is part of a URL"


def _no_view(name: str, known: Collection[str]) -> str:
    return f"no view is named {name!r}{near_miss(name, known) or '; views: ' + ', '.join(known)}"
