"""Access for programs on this machine: no authentication, but no web page of another site either."""

from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import urlsplit

from toolbus.core.records import JSONObject
from toolbus.gateway.access.admission import Refusal, RequestFacts
from toolbus.gateway.principal import LOCAL, Principal

HOSTS = frozenset(("localhost", "127.0.0.1", "::1"))


class LoopbackAccess:
    """Admits whoever names this machine as the host; a browser only for pages from this machine.

    A page of another site can have its name resolved to this machine, but its requests show that name.
    """

    async def admit(self, facts: RequestFacts) -> Principal | Refusal:
        """Everyone is the one who started the gateway."""
        return self.check(facts) or LOCAL

    def check(self, facts: RequestFacts) -> Refusal | None:
        """Check host and origin."""
        host, origin = facts.headers.get("host", ""), facts.headers.get("origin")
        if not _is_local(f"http://{host}"):
            return Refusal.of(403, "forbidden", "the host is not this machine")
        if origin is not None and not _is_local(origin):
            return Refusal.of(403, "forbidden", "the origin is not this machine")
        return None

    def metadata(self, facts: RequestFacts) -> JSONObject | None:
        """None: there is no authorization server."""
        return None

    def cors(self, facts: RequestFacts) -> Mapping[str, str]:
        """None: no page needs it."""
        return {}


@lru_cache(maxsize=64)
def _is_local(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and parts.hostname in HOSTS and parts.username is None
    except ValueError:
        return False
