"""Encryption, and values that clients carry for us: sealed for one client, and used once."""

import base64
import binascii
import json
import os
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from toolbus.core.values.errors import StoreError
from toolbus.core.values.records import JSONObject
from toolbus.state.values import FileForm, Values, expiry_of, to_forget

SEAL, USED = "seal", "used"
"""The kinds of keys of seals, and of uses."""
KEY_BYTES = 32
_NONCE = 12
_MOST_USED = 1_000
"""Used approvals that are remembered here; of more, those that expire first are forgotten."""
_LEEWAY = 86_400.0
"""Seconds for which a store remembers a use after the approval has expired: clocks may differ."""


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


def _bound(kind: str, name: str) -> bytes:
    return json.dumps([kind, name]).encode()


class Seal:
    """Seals values for one purpose and one principal, until they expire."""

    def __init__(self, key: bytes, now: Callable[[], float] = time.time) -> None:
        """`key` has 32 random bytes."""
        self._cipher = Cipher([key])
        self._now = now

    def seal(self, purpose: str, principal: str, payload: JSONObject, seconds: float) -> str:
        """The payload as a text that nobody can read or change; valid for this many seconds."""
        plain = json.dumps([self._now() + seconds, payload], separators=(",", ":")).encode()
        sealed = self._cipher.encrypted(purpose, principal, plain)
        return base64.urlsafe_b64encode(sealed).decode().rstrip("=")

    def opened(self, purpose: str, principal: str, text: str) -> JSONObject | None:
        """The payload; None if the text is not ours, was sealed for another one, or has expired."""
        try:
            sealed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            plain = self._cipher.decrypted(purpose, principal, sealed)
        except (binascii.Error, ValueError, Undecipherable):
            return None
        expires, payload = json.loads(plain)
        return payload if self._now() < expires else None


class OneTimeUse:
    """Approvals and suspended scripts that were used: of several processes that use one, only one can."""

    def __init__(self, values: Values | None = None) -> None:
        """Without `values`, uses are remembered in memory."""
        self._values = values
        self._used: set[str] = set()

    def now(self) -> float:
        return time.time() if self._values is None else self._values.now()

    def issue(self, seconds: float) -> str:
        """The name of an approval that can be used once, within this many seconds."""
        return f"{int(self.now() + seconds) + 1}-{secrets.token_hex(16)}"

    async def use(self, approval: str) -> bool:
        """Use an approval; False if it was used before. OSError if its use cannot be recorded."""
        if self._values is None:
            is_new = approval not in self._used
            self._used.add(approval)
            self._used.difference_update(to_forget([*self._used], _MOST_USED, self.now()))
            return is_new
        left = max(expiry_of(approval) - self.now(), 0.0)
        try:
            return await self._values.add(USED, approval, seconds=left + _LEEWAY)
        except StoreError as error:
            raise OSError(error.problem) from error


@dataclass(frozen=True, slots=True)
class SharedSeal:
    """A seal, and the sealed values that were used."""

    seal: Seal
    spent: OneTimeUse


def carried_forms(key: str, used: str) -> dict[str, FileForm]:
    """The private files for the key of a seal and, in a folder, for uses."""
    return {
        SEAL: FileForm(path=key, is_secret=True),
        USED: FileForm(path=f"{used}/{{name}}", limit=_MOST_USED),
    }


async def kept_key(values: Values) -> bytes:
    """The key of a seal, which is made when it is first needed."""
    key = await values.get(SEAL, "key")
    if key is not None and len(key) == KEY_BYTES:
        return key
    if key is None:
        await values.add(SEAL, "key", os.urandom(KEY_BYTES))
    else:
        await values.put(SEAL, "key", os.urandom(KEY_BYTES))
    # Of several processes that start at once, all use the same one.
    key = await values.get(SEAL, "key")
    assert key is not None, "it was added"
    return key


async def kept_seal(values: Values) -> Seal:
    """The seal of all who share some values; its clock is theirs."""
    return Seal(await kept_key(values), values.now)
