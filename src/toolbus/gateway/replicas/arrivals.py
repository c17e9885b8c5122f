"""What replicas say about the requests that they pass on: sealed, for one replica, and for one use.

All that decides what a request does is in the seal. The replica that takes it believes nothing else: whoever
is between two replicas can neither change a request nor send it again.
"""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from itertools import count

from toolbus.core.values.records import JSON
from toolbus.gateway.access.admission import RequestFacts
from toolbus.gateway.http.request import HttpRequest
from toolbus.gateway.protocol.principal import Principal
from toolbus.state.seal import Seal
from toolbus.state.store.store import Allowance

PROBE = "/healthz"
_PURPOSE = "relayed request"
_SECONDS = 60.0
"""For how long a request may be on its way."""
_WINDOW = 32 * 1024
"""How many later requests of the same replica may overtake one."""
_NUMBERS = (1 << _WINDOW) - 1
_MOST_SENDERS = 256
"""Replicas whose numbers are remembered; those that sent nothing for a while are forgotten first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """A request that another replica passed on."""

    principal: Principal | None
    """Who made it; None if it comes with its credentials, for a page."""
    facts: RequestFacts
    query: bytes
    body: str
    """The digest of its body."""
    patience: float | None
    """How long it may still wait for the store; None if a replica of an older version passed it on."""


class Departures:
    """Seals the requests that this replica passes on, and numbers them."""

    def __init__(self, seal: Seal, own: str) -> None:
        """`own` is the id of this replica."""
        self._seal = seal
        self._own = own
        self._numbers = count(1)

    def sealed(
        self, to: str, http: HttpRequest, headers: Mapping[str, str], body: bytes, *, is_page: bool
    ) -> str:
        """A request with some of its headers, for the replica with the id `to` alone."""
        facts = http.facts
        return self._sealed(
            to,
            principal=None if is_page else asdict(http.principal),
            method="GET" if facts.method == "HEAD" else facts.method,  # then the body has its length
            path=facts.path,
            query=http.query.decode("latin-1"),
            headers=dict(headers),
            body=sha256(body).hexdigest(),
            address=facts.address,
            scheme=facts.scheme,
            patience=None if (waits := Allowance.current.get()) is None else waits.left,
        )

    def sealed_probe(self, to: str) -> str:
        """A request that the replica with the id `to` answers at once, and no other that has its address."""
        body, nobody = sha256(b"").hexdigest(), {"principal": None, "address": "", "scheme": "http"}
        return self._sealed(to, method="GET", path=PROBE, query="", headers={}, body=body, **nobody)

    def _sealed(self, to: str, **payload: JSON) -> str:
        payload = {"from": self._own, "number": next(self._numbers), **payload}
        return self._seal.seal(_PURPOSE, to, payload, _SECONDS)


class Arrivals:
    """Opens the seals of the requests that this replica gets; each once."""

    def __init__(self, seal: Seal, own: str) -> None:
        """`own` is the id of this replica."""
        self._seal = seal
        self._own = own
        self._senders: dict[str, _Numbers] = {}

    def opened(self, text: str) -> Passed | None:
        """The request; None if no replica sealed it for this one, or it came before."""
        payload = self._seal.opened(_PURPOSE, self._own, text)
        if payload is None or not self._sender(payload["from"]).use(payload["number"]):
            return None
        given = payload["principal"]
        try:
            principal = None if given is None else Principal.read(given)
        except KeyError:  # a replica of another version: here, that is nobody
            return None
        return Passed(
            principal=principal,
            facts=RequestFacts(
                method=payload["method"],
                path=payload["path"],
                headers=payload["headers"],
                address=payload["address"],
                scheme=payload["scheme"],
            ),
            query=payload["query"].encode("latin-1"),
            body=payload["body"],
            patience=payload.get("patience"),
        )

    def _sender(self, replica: str) -> "_Numbers":
        found = self._senders.get(replica)
        if found is None:
            if len(self._senders) >= _MOST_SENDERS:
                # By now, what the others sent has expired.
                oldest = time.monotonic() - 2 * _SECONDS
                self._senders = {name: one for name, one in self._senders.items() if one.used > oldest}
            found = self._senders[replica] = _Numbers()
        return found


@dataclass(slots=True, eq=False)
class _Numbers:
    """The numbers that a replica has used, in a window that moves with the highest one."""

    highest: int = 0
    bits: int = 0
    """Bit n stands for the number that is n below the highest."""
    used: float = field(default_factory=time.monotonic)

    def use(self, number: int) -> bool:
        """Use a number; False if it was used, or is so low that nobody knows."""
        self.used = time.monotonic()
        below = self.highest - number
        if below < 0:
            self.bits = (self.bits << min(-below, _WINDOW) | 1) & _NUMBERS
            self.highest = number
            return True
        if below >= _WINDOW or self.bits >> below & 1:
            return False
        self.bits |= 1 << below
        return True
