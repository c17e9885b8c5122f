"""The addresses of hosts: lookup, and the check for private networks.

Connect to the address that was checked: the name may have another one when it is looked up again.
"""

import asyncio
import socket
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from toolbus.connect.http.url import Url, is_loopback_host

Address = IPv4Address | IPv6Address
_TRANSLATED = tuple(map(ip_network, ("64:ff9b::/96", "::ffff:0:0:0/96", "::/96")))
"""IPv6 addresses that a gateway (NAT64, SIIT) or an old stack turns into the IPv4 one at their end."""
_METADATA = ip_address("168.63.129.16")
"""The host of a virtual machine on Azure, which hands out its secrets."""
_6TO4 = ip_network("2002::/16")
"""IPv6 addresses that a relay turns into the IPv4 one after their first 16 bits."""


async def looked_up(url: Url) -> list[Address]:
    """The addresses of a URL's host; OSError or UnicodeError if it has none."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
    # A name may have an address several times, and one of IPv6 may name the interface.
    addresses = (ip_address(str(address[0]).partition("%")[0]) for *_, address in found)
    return list(dict.fromkeys(map(_plain, addresses)))


def literal_address(host: str) -> Address | None:
    """The address that a host is, if it is one."""
    try:
        return _plain(ip_address(host))
    except ValueError:
        return None


def spelled_address(host: str) -> Address | None:
    """The address that a host stands for wherever it is looked up: `127.1`, `0x7f.1`, `localhost.`."""
    name = host.removesuffix(".").lower()
    if (literal := literal_address(name)) is not None:
        return literal
    if is_loopback_host(name):
        return ip_address("127.0.0.1")
    try:
        return IPv4Address(socket.inet_aton(name))
    except (OSError, UnicodeError):
        return None


def is_public(address: Address) -> bool:
    """Whether an address is outside of every private network; also the one that it may be turned into."""
    if isinstance(address, IPv6Address):
        if any(address in network for network in _TRANSLATED):
            return is_public(IPv4Address(int(address) & 0xFFFF_FFFF))
        if address in _6TO4:
            return is_public(IPv4Address(int(address) >> 80 & 0xFFFF_FFFF))
    is_local = address.is_multicast or (isinstance(address, IPv6Address) and address.is_site_local)
    return address.is_global and not is_local and address != _METADATA


def _plain(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
