"""Addresses from which credentials were refused have to wait, longer each time."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network

FREE = 5
"""Refusals after which an address has to wait."""
LONGEST = 60.0
"""The longest wait, in seconds."""
_FORGET = 600.0
"""Seconds after which an address starts anew."""
MOST = 10_000
"""Addresses that are remembered; the one whose last refusal is oldest is forgotten first."""


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
        """How many seconds an address has to wait; 0 if it may try."""
        found = self._refused.get(_group(address))
        return 0.0 if found is None else max(0.0, found.until - self._clock())

    def refused(self, address: str) -> None:
        """Count a refusal."""
        group, now = _group(address), self._clock()
        found = self._refused.pop(group, None)
        if found is None or now - found.last > _FORGET:
            found = _Refused(0, now, now)
        found.times += 1
        found.last = now
        if found.times >= FREE:
            found.until = now + min(2.0 ** min(found.times - FREE, 10), LONGEST)
        self._refused[group] = found
        if len(self._refused) > MOST:
            self._refused.popitem(last=False)

    def __len__(self) -> int:
        return len(self._refused)


def _group(address: str) -> str:
    """Whoever has an IPv6 address has the whole /64 around it."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    if not isinstance(found, IPv6Address):
        return str(found)
    return str(found.ipv4_mapped or ip_network((found, 64), strict=False))
