"""Names of hosts in ASCII, as they are looked up, compared, sent and shown.

By IDNA 2008, as in browsers: `faß.de` is `xn--fa-hia.de`. The codec of Python follows the standard of 2003
and makes it `fass.de`, which belongs to somebody else.
"""

from urllib.parse import urlsplit

INVALID = "its host is not a valid name; write it in ASCII (xn--...)"


def ascii_host(host: str) -> str:
    """The host in ASCII and lower case; ValueError if it has no such form."""
    if host.isascii():
        return host.lower()
    import idna  # only for those who need it

    try:
        return idna.encode(host.lower(), uts46=True).decode("ascii")
    except idna.IDNAError:
        raise ValueError(INVALID) from None


def ascii_authority(authority: str) -> str:
    """The same for a host that may have a user in front and a port behind; ASCII stays as it is."""
    if authority.isascii():
        return authority
    user, at, place = authority.rpartition("@")
    host, colon, port = place.partition(":")
    return f"{user}{at}{ascii_host(host)}{colon}{port}"


def ascii_url(url: str) -> str:
    """The URL with its host in ASCII; ValueError if it has no such form, or is not a URL."""
    if url.isascii():
        return url
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ValueError("it is not a valid URL") from None  # the message would quote a password
    if parts.scheme not in ("http", "https"):
        return url
    return parts._replace(netloc=ascii_authority(parts.netloc)).geturl()


def host_problem(url: str) -> str | None:
    """The reason why the host of a URL cannot be written in ASCII."""
    try:
        ascii_url(url)
    except ValueError as error:
        return str(error)
    return None
