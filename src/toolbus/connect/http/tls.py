"""The TLS settings of a server: whom to trust, and the client's own certificate.

To trust a chain is to trust everyone who has a certificate of its authority. So where toolbus knows the
certificate, the certificate itself is compared; its names and dates do not matter.
"""

import ssl
from contextlib import suppress
from functools import cache
from hashlib import sha256

from toolbus.config import ServerConfig
from toolbus.core.values.errors import ConnectFailed


def tls_context(config: ServerConfig) -> ssl.SSLContext:
    """The TLS context of a server; `ConnectFailed` if one of its files cannot be read."""
    if config.verify is True and config.client_cert is None:
        return _default_context()
    context = _trusting(config)
    if config.client_cert is not None:
        try:
            # Without a password: OpenSSL would ask for it on the terminal.
            context.load_cert_chain(config.client_cert, config.client_key, password="")
        except (OSError, ssl.SSLError) as error:
            raise ConnectFailed(
                config.alias,
                "configure",
                f"the client certificate {config.client_cert!r} (client_cert) cannot be read",
                hint="it must be a PEM file with its key, not encrypted; or name the key in client_key",
            ) from error
    return context


def guarded_tls_context(config: ServerConfig) -> ssl.SSLContext:
    """The TLS context for others than the server, such as its proxy.

    They are always verified, and never see the client's certificate.
    """
    update = {"client_cert": None, "client_key": None, "verify": config.verify or True}
    return tls_context(config.model_copy(update=update))


def _trusting(config: ServerConfig) -> ssl.SSLContext:
    if config.verify is True:
        return _system_context()
    if config.verify is False:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context
    try:
        return ssl.create_default_context(cafile=config.verify)
    except (OSError, ssl.SSLError) as error:
        raise ConnectFailed(
            config.alias, "configure", f"the CA bundle {config.verify!r} (verify) cannot be read"
        ) from error


def _system_context() -> ssl.SSLContext:
    import httpx2  # knows where each system keeps its certificates; the SDK has loaded it

    return httpx2.create_ssl_context()


@cache
def _default_context() -> ssl.SSLContext:
    # Shared, because loading the certificates takes 50 ms.
    return _system_context()


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
