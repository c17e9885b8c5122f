"""The certificate that a server shows, in every way in which files can have it."""

import ssl
from hashlib import sha256
from pathlib import Path

import pytest

from tests.inside.connect import certificate_of
from tests.inside.gateway import tls_context
from tests.servers.certificates import Authority, self_signed

BEGIN, END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


def leaf_in(file: Path) -> str:
    """The digest of the first certificate of a file."""
    text = file.read_text()
    pem = text[text.index(BEGIN) : text.index(END) + len(END)]
    return sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()


def separate(file: Path) -> tuple[str, str]:
    """The certificates of a file without its key, and the key alone."""
    text = file.read_text()
    chain, key = file.with_suffix(".crt"), file.with_suffix(".key")
    chain.write_text(text[text.index(BEGIN) :])
    key.write_text(text[: text.index(BEGIN)])
    return str(chain), str(key)


def test_it_is_the_one_of_the_server_whatever_else_is_in_the_files(tmp_path: Path) -> None:
    alone, chain = self_signed(tmp_path), Authority().issued(tmp_path / "chain.pem", "127.0.0.1")
    assert certificate_of(tls_context(str(alone))) == leaf_in(alone)
    assert certificate_of(tls_context(str(chain))) == leaf_in(chain)
    assert certificate_of(tls_context(*separate(chain))) == leaf_in(chain)


def test_it_is_the_one_that_was_loaded_and_not_the_one_in_a_file_that_was_replaced(tmp_path: Path) -> None:
    authority, file = Authority(), tmp_path / "chain.pem"
    authority.issued(file, "127.0.0.1")
    loaded, before = tls_context(str(file)), leaf_in(file)
    authority.issued(file, "127.0.0.1")
    assert certificate_of(loaded) == before != leaf_in(file)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_it_is_found_in_every_version_of_tls(tmp_path: Path, version: ssl.TLSVersion) -> None:
    file = self_signed(tmp_path)
    context = tls_context(str(file))
    context.minimum_version = context.maximum_version = version
    assert certificate_of(context) == leaf_in(file)
