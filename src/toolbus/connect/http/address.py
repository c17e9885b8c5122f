"""Which hosts are this machine."""

from ipaddress import ip_address


def is_loopback_host(host: str) -> bool:
    """Whether a host is this machine, by its name or address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
