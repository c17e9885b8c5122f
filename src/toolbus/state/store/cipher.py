"""The encryption of stored values: a reader of the database, or of a copy, learns only names and times.

The key is in `$TOOLBUS_STORE_KEY` or in the system's keyring, never in the store.
"""

import asyncio
import base64
import binascii
import json
import os
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from toolbus.core.values.errors import StoreError, TokenStoreError
from toolbus.state.files import state_folder
from toolbus.state.seal import KEY_BYTES, SEAL, kept_key
from toolbus.state.store.database import StoreUrl
from toolbus.state.thread import in_thread
from toolbus.state.tokens.keyring import KeyringStore
from toolbus.state.values import FileForm, PrivateValues

VARIABLE = "TOOLBUS_STORE_KEY"
KEYRING_ENTRY = "toolbus store key"
_MAKE_ONE = f"set {VARIABLE} to the same 32 random bytes for all replicas, made by 'openssl rand -base64 32'"
_KEYRING_SECONDS = 60.0
"""The time the keyring may take; it may prompt the user to unlock it."""
_NONCE = 12


class Undecipherable(Exception):
    """A value was not encrypted with one of the keys, or not for this place."""


class Cipher:
    """Encrypts with the first key, and decrypts with any of them; so a key can be replaced step by step."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._ciphers = [AESGCM(key) for key in keys]

    def encrypted(self, kind: str, name: str, value: bytes) -> bytes:
        """The value, to be stored under that kind and name only."""
        nonce = os.urandom(_NONCE)
        return nonce + self._ciphers[0].encrypt(nonce, value, _bound(kind, name))

    def decrypted(self, kind: str, name: str, stored: bytes) -> bytes:
        """The value that was stored under that kind and name; `Undecipherable` if it is not one."""
        return self.opened(kind, name, stored)[0]

    def opened(self, kind: str, name: str, stored: bytes) -> tuple[bytes, bool]:
        """The same, and whether the first key is enough for it."""
        for cipher in self._ciphers:
            try:
                value = cipher.decrypt(stored[:_NONCE], stored[_NONCE:], _bound(kind, name))
            except (InvalidTag, ValueError):
                continue
            return value, cipher is self._ciphers[0]
        raise Undecipherable


async def store_cipher(url: StoreUrl) -> Cipher:
    """The cipher of a store. A file of this user may have its key in the state folder.

    StoreError if there is no key, or it is not one.
    """
    text = os.environ.get(VARIABLE) or await _from_keyring()
    if text:
        return Cipher([_key(url, part.strip()) for part in text.split(",")])
    if url.database != "sqlite":
        raise StoreError(url.place, "there is no key to encrypt it with", _MAKE_ONE)
    own = PrivateValues(state_folder, {SEAL: FileForm(path="store.key", is_secret=True)})
    try:
        return Cipher([await in_thread(lambda: own.wait(kept_key(own)))])
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StoreError(url.place, f"its key cannot be kept ({reason})", _MAKE_ONE) from error


async def _from_keyring() -> str | None:
    try:
        async with asyncio.timeout(_KEYRING_SECONDS):
            return await in_thread(lambda: KeyringStore().load(KEYRING_ENTRY))
    except (TokenStoreError, TimeoutError):  # there is none here
        return None


def _key(url: StoreUrl, text: str) -> bytes:
    try:
        key = base64.b64decode(
            text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4), validate=True
        )
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise StoreError(url.place, "its key is not 32 bytes in base64", _MAKE_ONE)
    return key


def _bound(kind: str, name: str) -> bytes:
    return json.dumps([kind, name]).encode()
