"""Certificates for tests of TLS."""

import datetime
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """A certificate authority, whose certificates come with its own, as in a `fullchain.pem`."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "toolbus test authority")])
        self._own = self._signed(self._name, self._key.public_key(), is_authority=True)

    def issued(self, file: Path, *addresses: str) -> Path:
        """A file with a new key, its certificate for these addresses, and the authority's certificate."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "toolbus test server")])
        made = self._signed(name, key.public_key(), addresses)
        pem = serialization.Encoding.PEM
        private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        file.write_bytes(private + made.public_bytes(pem) + self._own.public_bytes(pem))
        return file

    def _signed(
        self,
        name: x509.Name,
        key: ec.EllipticCurvePublicKey,
        addresses: Sequence[str] = (),
        *,
        is_authority: bool = False,
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        names = [x509.IPAddress(ip_address(one)) for one in addresses]
        made = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )
        if names:
            made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return made.sign(self._key, hashes.SHA256())


def self_signed(folder: Path, password: bytes | None = None) -> Path:
    """A certificate for 127.0.0.1 that signs itself, with its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "toolbus test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, encryption)
    file = folder / ("locked.pem" if password else "cert.pem")
    file.write_bytes(private + made.public_bytes(pem))
    return file
