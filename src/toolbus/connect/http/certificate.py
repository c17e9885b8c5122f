"""The certificate that a TLS server shows, and clients that accept exactly that one.

To trust a chain is to trust everyone who has a certificate of its authority. So the certificate itself is
compared; its names and dates do not matter.
"""

import ssl
from contextlib import suppress
from hashlib import sha256

_FLIGHTS = 4
"""The most messages that either side sends in a handshake."""


def certificate_of(server: ssl.SSLContext) -> str:
    """The SHA-256 of the certificate that a server shows, in DER.

    It comes from a handshake in memory: the files may have been replaced since they were loaded.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = unverified().wrap_bio(to_client, to_server)
    sides = (client, server.wrap_bio(to_server, to_client, server_side=True))
    for side in sides * _FLIGHTS:
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    return digest_shown(client)


def unverified() -> ssl.SSLContext:
    """The TLS settings of a client that compares `digest_shown` before it sends anything."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def digest_shown(connected: ssl.SSLObject | ssl.SSLSocket) -> str:
    """The SHA-256 of the certificate that the other side of a connection has shown."""
    certificate = connected.getpeercert(binary_form=True)
    assert certificate is not None, "a TLS server shows one"
    return sha256(certificate).hexdigest()
