"""One request of a client, and what is known of the client."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from toolbus.core.fast_init import with_fast_init
from toolbus.core.records import Era, JSONObject, LogLevel
from toolbus.gateway.channel import Channel as Channel
from toolbus.gateway.principal import Principal
from toolbus.gateway.sessions import Session


@with_fast_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request of a client."""

    principal: Principal
    era: Era
    version: str
    """The protocol version: of this request (modern), or of the session (legacy)."""
    capabilities: JSONObject
    """As the client declared them: in this request (modern), or in the handshake (legacy), in modern form."""
    id: str | int
    """The JSON-RPC id of the request."""
    channel: Channel
    """Notifications about this request, and requests to the client that belong to it, go here."""
    meta: JSONObject = field(default_factory=dict[str, object])
    """The `_meta` of the request."""
    log_level: LogLevel | None = None
    """The lowest level of the log messages that it wants; None for none (modern), or the default (legacy)."""
    size: int = 0
    """The bytes of the request."""
    session: Session | None = None
    """The session of a legacy client."""
    headers: Mapping[str, str] | None = field(default=None, repr=False)
    """The headers of the HTTP request, with names in lower case; None over stdio."""
