"""A limit on how often one address may ask, where nobody has to prove who they are."""

import time
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address, ip_network

MAX_ADDRESSES = 10_000
"""Addresses that are remembered; the one that was seen last the longest ago is forgotten first."""


def address_group(address: str) -> str:
    """The group of an address: itself, or the whole /64 around an IPv6 address, which has one owner."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    if not isinstance(found, IPv6Address):
        return str(found)
    return str(found.ipv4_mapped or ip_network((found, 64), strict=False))


class RequestRate:
    """Counts the requests of each address: so many at once, and as many in a minute."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = per_minute
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """The requests that an address has left, and when that was."""

    def wait(self, address: str) -> float:
        """Count a request; returns how many seconds its address has to wait, 0 if it may ask."""
        group, now, per_second = address_group(address), self._clock(), self._most / 60
        left, then = self._left.pop(group, (float(self._most), now))
        left = min(left + (now - then) * per_second, self._most)
        self._left[group] = (left - 1 if left >= 1 else left), now
        if len(self._left) > MAX_ADDRESSES:
            self._left.popitem(last=False)
        return 0.0 if left >= 1 else (1 - left) / per_second

    def __len__(self) -> int:
        return len(self._left)
