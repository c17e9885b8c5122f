"""The identity of a client for the servers behind the gateway: named headers, and its token."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, cast

from toolbus.config import BusConfig
from toolbus.connect.auth.credentials import ClientIdentity, SubjectToken, header_problem
from toolbus.gateway.access.admission import CredentialHolder, Refusal, RequestFacts

_GRANT = (
    *("iss", "sub", "aud", "client_id", "azp", "scope", "scp", "act", "may_act", "acr", "sid", "cnf"),
    *("authorization_details", "roles", "groups", "entitlements"),
)
"""The claims about the rights and the holder of a token: a token with the same ones renews another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServersBehind:
    """The parts of a client's identity that the servers of a config need."""

    headers: tuple[str, ...] = ()
    """The names of headers that some server gets, in lower case."""
    subject: bool = False
    """Whether some server gets a token in exchange."""

    @property
    def deciding(self) -> tuple[str, ...]:
        """The headers of a request that decide about the identity."""
        return ("connection", *self.headers) if self.headers else ()

    def passed_on(
        self, facts: RequestFacts, holder: CredentialHolder | None = None
    ) -> ClientIdentity | Refusal | None:
        """The identity to forward for a request; a refusal if a header has an invalid value."""
        if not self.headers and not self.subject:
            return None
        found: dict[str, str] = {}
        # Those that `Connection` names are for us alone (RFC 9110, section 7.6.1).
        dropped = {one.strip().lower() for one in facts.headers.get("connection", "").split(",")}
        for name in self.headers:
            value = facts.headers.get(name, "").strip()
            if problem := header_problem(name, value):
                return Refusal.of(400, "invalid_request", problem)
            if value and name not in dropped:
                found[name] = value
        has_token = self.subject and holder is not None and bool(holder.subject)
        if not found and not has_token:
            return None
        return ClientIdentity(
            subject=holder.subject if has_token and holder is not None else "",
            headers=tuple(sorted(found.items())),
            token=_subject_token(facts, holder) if has_token and holder is not None else None,
        )


NO_SERVERS = ServersBehind()


def servers_behind(config: BusConfig) -> ServersBehind:
    """Read from a config what its servers need."""
    servers = config.servers.values()
    return ServersBehind(
        headers=tuple(sorted({name for server in servers for name in server.forward_headers})),
        subject=any(server.auth is not None and server.auth.type == "token_exchange" for server in servers),
    )


def grant_of(claims: Mapping[str, Any]) -> str:
    """A digest of the rights and the holder of a token: a renewed token has the same one."""
    said = {name: _plain(claims[name]) for name in _GRANT if claims.get(name) is not None}
    return sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """Scopes in any order are the same ones."""
    words = cast("list[Any]", value.split() if isinstance(value, str) else value)
    return sorted(map(str, words)) if isinstance(value, str | list) else value


def _subject_token(facts: RequestFacts, holder: CredentialHolder) -> SubjectToken:
    credential = facts.headers.get("authorization", "").partition(" ")[2].strip()
    return SubjectToken(credential, holder.expires)
