"""Admission control: host and origin, then a key or a token, then a view that it may use."""

import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from toolbus.config import BusConfig, Secrets
from toolbus.config.settings.serve import Serve
from toolbus.connect.auth.credentials import ClientIdentity
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSONObject
from toolbus.gateway.access.admission import (
    CredentialDenied,
    CredentialHolder,
    CredentialUndecided,
    Refusal,
    RequestFacts,
)
from toolbus.gateway.access.hosts import Hosts, HttpPeer, Misdirected
from toolbus.gateway.access.identity import NO_SERVERS, ServersBehind, servers_behind
from toolbus.gateway.access.keys import PREFIX, Keys, StoredKeys, file_keys
from toolbus.gateway.access.rate import MAX_ADDRESSES, address_group
from toolbus.gateway.protocol.principal import LOCAL, Principal
from toolbus.gateway.sign_in.tokens import SignInState, SignInTokens

if TYPE_CHECKING:
    from toolbus.gateway.access.tokens import AccessTokens

logger = logging.getLogger("toolbus")

METADATA = "/.well-known/oauth-protected-resource"
_MOST_PROVEN = 10_000
_RETRY_SECONDS = "5"
_SAME_SECONDS = 0.5
_MOST_ADMITTED = 1_000
_DECIDING = ("host", "origin", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "forwarded")
"""The headers that a decision depends on, besides the credential."""


class AccessControl:
    """Decides on the requests of an HTTP front; see `Admission`."""

    def __init__(
        self,
        serve: Serve,
        *,
        keys: Keys | None = None,
        tokens: "AccessTokens | SignInTokens | None" = None,
        behind: ServersBehind = NO_SERVERS,
        servers: Collection[str] = (),
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`servers` are the aliases of the servers that clients can reach alone, below the endpoint."""
        self._serve = serve
        self._servers = servers
        self._keys = keys
        self._tokens = tokens
        self._sign_in = tokens if isinstance(tokens, SignInTokens) else None
        self._now = now
        self._behind = behind
        self._deciding = (*_DECIDING, *behind.deciding)
        self._clock = clock
        self._hosts = Hosts(serve)
        self._throttle = Throttle(clock)
        self._log = RefusalLog(clock)
        self._admitted: dict[tuple[object, ...], tuple[Principal, float]] = {}
        """Recently admitted principals, with the time until which the same request is not checked again."""
        self._proven: OrderedDict[bytes, None] = OrderedDict()
        """Digests of accepted credentials: they need not wait for what others at their address do."""

    def use(self, other: "AccessControl") -> None:
        """Decide as another one from now on; who failed before is still throttled."""
        before, self._serve = self._serve, other._serve
        self._servers = other._servers
        self._hosts, self._sign_in = other._hosts, other._sign_in
        self._behind, self._deciding = other._behind, other._deciding
        if before.auth != self._serve.auth or before.default_view != self._serve.default_view:
            self._keys, self._tokens = other._keys, other._tokens
        self._admitted.clear()
        self._proven.clear()

    def check(self, facts: RequestFacts) -> Refusal | None:
        found = self._peer(facts)
        return found if isinstance(found, Refusal) else None

    async def admit(self, facts: RequestFacts) -> Principal | Refusal:
        place = _place(facts, self._deciding)
        recent = self._admitted.get(place)
        if recent is not None and self._clock() < recent[1] and self.is_current(recent[0]):
            return recent[0]
        found = await self._decide(facts)
        if isinstance(found, Principal):
            if len(self._admitted) >= _MOST_ADMITTED:
                self._admitted.clear()
            self._admitted[place] = found, self._clock() + _SAME_SECONDS
        return found

    async def _decide(self, facts: RequestFacts) -> Principal | Refusal:
        peer = self._peer(facts)
        if isinstance(peer, Refusal):
            return peer
        view = self._view_of_path(facts.path)
        if view is None:
            return Refusal.of(404, "not_found", f"the MCP endpoint is {self._serve.path}")
        if not self._serve.auth.is_needed:
            return self._admit_local(facts, peer, view)
        scheme, _, credential = facts.headers.get("authorization", "").partition(" ")
        credential = credential.strip()
        if not credential:
            return self._challenge(peer, view)
        if scheme.lower() != "bearer" or " " in credential:
            return self._challenge(
                peer, view, "send a bearer token, or a key as one", error="invalid_request"
            )
        found = await self._identify(peer, credential, view)
        if isinstance(found, Refusal):
            return found
        passed = self._behind.passed_on(facts, found)
        return passed if isinstance(passed, Refusal) else self._principal(found, peer, view, passed)

    def is_current(self, principal: Principal, *, answers: bool = False) -> bool:
        if principal.key:
            is_key = principal.kind == "key"
            # Not a function: this is asked before each event.
            found = self._keys if is_key else self._sign_in
            if found is None or not found.is_current or not found.has(principal):
                return False
            return is_key or answers or not self._has_expired(principal)
        if principal.kind == "local":
            return not self._serve.auth.is_needed
        oauth = self._serve.auth.oauth
        is_known = oauth is not None and oauth.issuer == principal.issuer
        return is_known and (answers or not self._has_expired(principal))

    def has_revoked(self, principal: Principal) -> bool:
        found = self._keys if principal.kind == "key" else self._sign_in
        return bool(principal.key) and (found is None or not found.has(principal))

    def metadata(self, facts: RequestFacts) -> JSONObject | None:
        """The metadata of the protected resource (RFC 9728); None if there is none at that path."""
        issuer, scopes = self._serve.issuer, self._serve.scopes
        if issuer is None or not facts.path.startswith(METADATA):
            return None
        suffix = facts.path.removeprefix(METADATA)
        prefix = urlsplit(self._serve.public_url or "").path.rstrip("/")
        view = self._view_of_path(suffix.removeprefix(prefix) or self._serve.path)
        if view is None:
            return None
        body: JSONObject = {
            "resource": self._resource(self._hosts.peer(facts), view),
            "authorization_servers": [issuer],
            "bearer_methods_supported": ["header"],
            "resource_name": "toolbus",
        }
        return {**body, "scopes_supported": list(scopes)} if scopes else body

    def url(self, facts: RequestFacts, name: str = "") -> str:
        return self._resource(self._hosts.peer(facts), name)

    def address(self, facts: RequestFacts) -> str:
        return self._hosts.peer(facts).address

    def cors(self, facts: RequestFacts) -> Mapping[str, str]:
        return self._hosts.cors(facts)

    def _has_expired(self, principal: Principal) -> bool:
        return principal.expires is not None and self._now() >= principal.expires

    def _peer(self, facts: RequestFacts) -> HttpPeer | Refusal:
        """The client of a request, if it came by a name of the gateway and not from a foreign page."""
        peer = self._hosts.peer(facts)
        try:
            self._hosts.check(peer)
        except Misdirected as misdirected:
            self._log.refused(peer.address, misdirected.reason)
            return Refusal.of(misdirected.status, "misdirected", misdirected.reason)
        return peer

    def _view_of_path(self, path: str) -> str | None:
        """The view that a path names, empty if it names none; None for another path."""
        base = self._serve.path
        if path == base:
            return ""
        name = path.removeprefix(f"{base}/")
        return name if name and name != path and "/" not in name else None

    def _admit_local(self, facts: RequestFacts, peer: HttpPeer, view: str) -> Principal | Refusal:
        if self._hosts.comes_from_elsewhere(facts):
            reason = "requests of other machines need authentication; set serve.auth: {keys: true}"
            self._log.refused(peer.address, reason)
            return Refusal.of(403, "access_denied", reason)
        name, server = self._place_of(view, (self._serve.default_view, *self._serve.views))
        if self._serve.view(name) is None:
            return Refusal.of(404, "not_found", "there is no view of that name")
        passed = self._behind.passed_on(facts)
        if isinstance(passed, Refusal):
            return passed
        return replace(LOCAL, view=name, server=server, passed=passed)

    def _place_of(self, name: str, views: Sequence[str]) -> tuple[str, str]:
        """The view of a path for a client with these views, and the server if the path names one.

        A server is reached through the first of the views that it is in, whose rules and patterns hold. For
        a client without such a view it is a view that does not exist.
        """
        if name in self._servers and self._serve.view(name) is None:
            for view in views:
                found = self._serve.view(view)
                if found is not None and found.has_server(name):
                    return view, name
        return name or next(iter(views), ""), ""

    async def _identify(self, peer: HttpPeer, credential: str, view: str) -> CredentialHolder | Refusal:
        digest = sha256(credential.encode(errors="surrogateescape")).digest()
        wait = self._throttle.wait(peer.address)
        if wait and digest not in self._proven:
            seconds = str(math.ceil(wait))
            reason = f"too many refused requests; try again in {seconds} s"
            return Refusal.of(429, "too_many_requests", reason, {"retry-after": seconds})
        try:
            identity = await self._holder(credential, view)
        except CredentialUndecided as error:
            return Refusal.of(503, "temporarily_unavailable", error.reason, {"retry-after": _RETRY_SECONDS})
        except CredentialDenied as denied:
            self._proven.pop(digest, None)
            if denied.is_guess:
                self._throttle.refused(peer.address)
            self._log.refused(peer.address, denied.reason)
            return self._challenge(peer, view, denied.reason, error="invalid_token")
        if digest not in self._proven:
            self._proven[digest] = None
            if len(self._proven) > _MOST_PROVEN:
                self._proven.popitem(last=False)
        return identity

    async def _holder(self, credential: str, view: str) -> CredentialHolder:
        if credential.startswith(PREFIX) and self._keys is not None:
            return self._keys.identity(credential)
        oauth, resource = self._serve.auth.oauth, self._serve.resource
        tokens = self._sign_in or self._tokens
        if tokens is None:
            raise CredentialDenied("unknown key")
        audiences = {*(() if oauth is None else oauth.audience)} or {*filter(None, [resource])}
        if view and resource in audiences:
            # A client that was given the URL of a view asks for tokens for that URL.
            audiences.add(f"{resource}/{quote(view)}")
        return await tokens.identity(credential, audiences)

    def _principal(
        self, identity: CredentialHolder, peer: HttpPeer, view: str, passed: ClientIdentity | None
    ) -> Principal | Refusal:
        """The principal with its view; a path never gives more than its key or token does."""
        chosen, server = self._place_of(view, identity.views)
        if chosen not in identity.views:
            reason = f"the {identity.label} may not use {f'the view {view!r}' if view else 'any view'}"
            self._log.refused(peer.address, reason)
            return self._challenge(peer, view, reason, status=403, error="insufficient_scope")
        if self._serve.view(chosen) is None:  # a key that is older than the config
            reason = f"the view {chosen!r} is not in the config any more"
            self._log.refused(peer.address, f"{identity.label}: {reason}")
            return Refusal.of(403, "access_denied", reason)
        return Principal(
            kind=identity.kind,
            name=identity.name,
            issuer=identity.issuer,
            user=identity.user,
            view=chosen,
            server=server,
            expires=identity.expires,
            key=identity.key,
            passed=passed,
        )

    def _challenge(
        self, peer: HttpPeer, view: str, description: str = "", *, status: int = 401, error: str = ""
    ) -> Refusal:
        """The response that says how to get in (RFC 6750, RFC 9728)."""
        facts = {"error": error, "error_description": description}
        if self._serve.issuer is None:
            facts = {"realm": "toolbus", **facts}
        else:
            resource = urlsplit(self._resource(peer, view))
            facts["resource_metadata"] = f"{resource.scheme}://{resource.netloc}{METADATA}{resource.path}"
            facts["scope"] = " ".join(self._scopes(view))
        parts = (f'{name}="{_quotable(value)}"' for name, value in facts.items() if value)
        headers = {"www-authenticate": f"Bearer {', '.join(parts)}"}
        body = description or "a key or a token is needed"
        return Refusal.of(status, error or "unauthorized", body, headers)

    def _scopes(self, view: str) -> list[str]:
        """The scopes that give a view; all, if none gives it, or if a person chooses among them."""
        scopes = self._serve.scopes
        wanted = view or ("" if self._sign_in is not None else self._serve.default_view)
        return [scope for scope, given in scopes.items() if given == wanted] or list(scopes)

    def _resource(self, peer: HttpPeer, view: str) -> str:
        """The URL of the endpoint, or of the view's own; without a public URL, as the client named it."""
        base = self._serve.resource or f"{peer.scheme}://{peer.authority}{self._serve.path}"
        return f"{base}/{quote(view)}" if view else base


def access_of(
    config: BusConfig,
    secrets: Secrets | None = None,
    shared: StoredKeys | None = None,
    sign_in: SignInState | None = None,
) -> AccessControl:
    """The access control of a config; `secrets` look up what its `serve` refers to.

    Keys are the `shared` ones, or the keys of the config file. ConfigError if it needs keys or sign-ins, and
    there is no file for them.
    """
    serve = config.gateway
    keys: Keys | None = None
    tokens: AccessTokens | SignInTokens | None = None
    if serve.auth.keys:
        if config.file is None and shared is None:
            raise ConfigError("keys belong to a config file; save the config to one", key="serve.auth.keys")
        stored = shared or file_keys(config.file or "")
        keys = Keys(stored, serve.default_view, now=stored.now)
    if serve.auth.oauth is not None:
        # Only now: it imports all of cryptography, and most gateways check keys.
        from toolbus.gateway.access import tokens as foreign

        issuer = foreign.Issuer(serve.auth.oauth, secrets or Secrets(None, config.folder, config.reviewed))
        tokens = foreign.AccessTokens(serve.auth.oauth, issuer, serve.default_view)
    if serve.auth.sign_in is not None:
        if sign_in is None:
            raise ConfigError("sign-ins belong to a config file; save it", key="serve.auth.sign_in")
        tokens = SignInTokens(sign_in, serve)
    aliases = frozenset(config.servers)
    return AccessControl(serve, keys=keys, tokens=tokens, behind=servers_behind(config), servers=aliases)


def _place(facts: RequestFacts, deciding: tuple[str, ...]) -> tuple[object, ...]:
    """All that a decision depends on; of the credential only its digest, so that it is not kept."""
    header = facts.headers.get
    credential = sha256(header("authorization", "").encode(errors="surrogateescape")).digest()
    return credential, facts.path, facts.address, facts.scheme, *map(header, deciding)


def _quotable(text: str) -> str:
    """The characters of a text that are allowed between quotes in a header."""
    return "".join(sign for sign in text if " " <= sign <= "~" and sign not in '"\\')


MAX_LINES = 20
"""Lines in one period."""
PERIOD = 10.0


class RefusalLog:
    """Logs refusals; those beyond the most are counted."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since = float("-inf")
        self._lines = 0

    def refused(self, address: str, reason: str) -> None:
        """Log a refusal. The reason must not contain a credential."""
        now = self._clock()
        if now - self._since >= PERIOD:
            if self._lines > MAX_LINES:
                logger.warning("the gateway refused %d more requests", self._lines - MAX_LINES)
            self._since, self._lines = now, 0
        self._lines += 1
        if self._lines <= MAX_LINES:
            logger.warning("the gateway refused a request of %s: %s", address or "a local socket", reason)


FREE = 5
"""Refusals after which an address has to wait."""
LONGEST = 60.0
"""The longest wait, in seconds."""
_FORGET = 600.0
"""Seconds after which an address starts with a clean record."""


@dataclass(slots=True)
class _Refused:
    times: int
    last: float
    until: float


class Throttle:
    """Counts the refusals of each address."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._refused: OrderedDict[str, _Refused] = OrderedDict()

    def wait(self, address: str) -> float:
        """The number of seconds that an address has to wait; 0 if it may try."""
        found = self._refused.get(address_group(address))
        return 0.0 if found is None else max(0.0, found.until - self._clock())

    def refused(self, address: str) -> None:
        """Count a refusal."""
        group, now = address_group(address), self._clock()
        found = self._refused.pop(group, None)
        if found is None or now - found.last > _FORGET:
            found = _Refused(0, now, now)
        found.times += 1
        found.last = now
        if found.times >= FREE:
            found.until = now + min(2.0 ** min(found.times - FREE, 10), LONGEST)
        self._refused[group] = found
        if len(self._refused) > MAX_ADDRESSES:
            self._refused.popitem(last=False)

    def __len__(self) -> int:
        return len(self._refused)
