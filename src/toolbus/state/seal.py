"""Values that others carry for us: sealed, so that only the client that got one can use it."""

import base64
import binascii
import json
import os
import time
from collections.abc import Callable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from toolbus.core.values.records import JSONObject
from toolbus.state.files import state_folder

_NONCE = 12
KEY_BYTES = 32


class Seal:
    """Seals values for one purpose and one principal, until they expire."""

    def __init__(self, key: bytes, now: Callable[[], float] = time.time) -> None:
        """`key` has 32 random bytes."""
        self._cipher = AESGCM(key)
        self._now = now

    def seal(self, purpose: str, principal: str, payload: JSONObject, seconds: float) -> str:
        """The payload as a text that nobody can read or change; valid for this many seconds."""
        nonce = os.urandom(_NONCE)
        plain = json.dumps([self._now() + seconds, payload], separators=(",", ":")).encode()
        sealed = nonce + self._cipher.encrypt(nonce, plain, _bound(purpose, principal))
        return base64.urlsafe_b64encode(sealed).decode().rstrip("=")

    def opened(self, purpose: str, principal: str, text: str) -> JSONObject | None:
        """The payload; None if the text is not ours, was sealed for another one, or has expired."""
        try:
            sealed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            plain = self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], _bound(purpose, principal))
        except (binascii.Error, ValueError, InvalidTag):
            return None
        expires, payload = json.loads(plain)
        return payload if self._now() < expires else None


def key_file(name: str) -> bytes:
    """The key in a file of the user's state folder, which is made when it is first needed.

    OSError if it cannot be read or written, or others can read it.
    """
    folder = state_folder()
    key = folder.read(name, secret=True)
    if key is not None and len(key) == KEY_BYTES:
        return key
    made = os.urandom(KEY_BYTES)
    folder.write(name, made, durable=True)
    # Of two processes that start at once, both use what was written last.
    return folder.read(name, secret=True) or made


def _bound(purpose: str, principal: str) -> bytes:
    return json.dumps([purpose, principal]).encode()
