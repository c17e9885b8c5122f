"""Tokens in the system's keyring, by the keyring package; or in files where there is no keyring."""

import logging
import sys
from collections.abc import Awaitable
from hashlib import sha256
from itertools import chain, count
from threading import Lock
from typing import TYPE_CHECKING

from toolbus.core.values.errors import TokenStoreError
from toolbus.state.tokens.store import DescribedStore, KeptTokens, OtherStore

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend

logger = logging.getLogger("toolbus")

PLACE = "the system keyring"
_REMEDY = "unlock it, or set tokens: file:DIR"
ACCOUNT = "toolbus"
"""The account of every entry. Its service is unique: on Windows, two that share one overwrite each other."""
# The credentials of Windows have at most 2,560 bytes, in UTF-16.
_PIECE = 1_200 if sys.platform == "win32" else None
_PARTED = "toolbus parts "
_ATTEMPTS = 3


class KeyringStore:
    """Keeps tokens in the system's keyring; a value longer than `piece` in several entries."""

    def __init__(self, piece: int | None = _PIECE) -> None:
        self._piece = piece

    def load(self, key: str, /) -> str | None:
        ring = _backend()
        value = _get(ring, key)
        for _ in range(_ATTEMPTS):
            parts = [_get(ring, name) for name in _parts(key, value)]
            if None not in parts:
                return "".join(filter(None, parts)) if parts else value
            value = _get(ring, key)  # another process has replaced it in between
        return value

    def save(self, key: str, value: str, /) -> None:
        ring = _backend()
        before = _parts(key, _get(ring, key))
        pieces: list[str] = []
        if self._piece is not None and len(value) > self._piece:
            pieces = [value[start : start + self._piece] for start in range(0, len(value), self._piece)]
            # Other names than before: until the main entry is written, the old value stays whole.
            value = f"{_PARTED}{sha256(value.encode()).hexdigest()[:16]} {len(pieces)}"
        for name, piece in zip(_parts(key, value), pieces, strict=True):
            _set(ring, name, piece)
        _set(ring, key, value)
        for name in set(before) - set(_parts(key, value)):
            _delete(ring, name)

    def remove(self, key: str, /) -> None:
        ring = _backend()
        parts = _parts(key, _get(ring, key))
        for name in (key, *parts):
            _delete(ring, name)


def described_keyring(piece: int | None = _PIECE) -> OtherStore:
    """The system's keyring, and what messages say of it."""
    return OtherStore(KeyringStore(piece), PLACE, _REMEDY)


class AutoStore:
    """Keeps tokens in the system's keyring if there is one, otherwise in files. It decides once."""

    def __init__(self, files: KeptTokens) -> None:
        self._files = files
        self._chosen: DescribedStore | None = None
        self._deciding = Lock()

    @property
    def remedy(self) -> str:
        return _REMEDY if self._chosen is None else self._chosen.remedy

    @property
    def place(self) -> str:
        """The place where tokens are kept; both places before the first access."""
        return f"{PLACE}, or {self._files.place}" if self._chosen is None else self._chosen.place

    def place_of(self, key: str, /) -> str:
        return self._store().place_of(key)

    def set_aside(self, key: str, /) -> object:
        return self._store().set_aside(key)

    def load(self, key: str, /) -> str | Awaitable[str | None] | None:
        return self._store().load(key)

    def save(self, key: str, value: str, /) -> None:
        self._store().save(key, value)

    def remove(self, key: str, /) -> None:
        self._store().remove(key)

    def _store(self) -> DescribedStore:
        with self._deciding:
            if self._chosen is None:
                self._chosen = described_keyring() if has_keyring() else self._files
            return self._chosen


def keep_in_keyring(name: str, value: str) -> None:
    """Keep a secret for `${keyring:...}`; `TokenStoreError` if there is no keyring."""
    _set(_backend(), name, value)


def free_keyring_name(wanted: str, value: str) -> str:
    """A name under which the keyring has no other value; takes its time."""
    ring = _backend()
    names = chain((wanted,), (f"{wanted}_{number}" for number in count(2)))
    return next(name for name in names if _get(ring, name) in (None, value))


def keyring_reference(name: str) -> str:
    """The reference to a secret of that name, for a config."""
    return f"${{keyring:{_service(name)}/{ACCOUNT}}}"


def has_keyring() -> bool:
    """Whether this system has a keyring that can be used; takes its time, so not on a loop."""
    try:
        from keyring import get_keyring
        from keyring.backends import fail, null
    except ImportError:
        return False
    try:
        ring = get_keyring()
        # A chain of nothing has a negative priority.
        return not isinstance(ring, fail.Keyring | null.Keyring) and ring.priority > 0
    except Exception as error:  # a backend's code: whatever it raises, it cannot be used
        logger.warning("the keyring cannot be used (%s); tokens are kept in files", type(error).__name__)
        return False


def _backend() -> "KeyringBackend":
    try:
        from keyring import get_keyring
    except ImportError:
        problem, step = "the keyring package is not installed", 'pip install "toolbus[keyring]"'
    else:
        if has_keyring():
            return get_keyring()
        problem, step = "there is no keyring on this system", "install a backend"
    raise TokenStoreError(PLACE, "unavailable", problem, f"{step}, or set tokens: auto")


def _parts(key: str, value: str | None) -> list[str]:
    """The entries that hold the value of this main entry."""
    if value is None or not value.startswith(_PARTED):
        return []
    digest, _, number = value.removeprefix(_PARTED).partition(" ")
    return [
        f"{key} {digest} {index}"
        for index in range(int(number) if number.isdecimal() and len(number) < 4 else 0)
    ]


def _service(name: str) -> str:
    return f"toolbus {name}"


def _get(ring: "KeyringBackend", name: str) -> str | None:
    return ring.get_password(_service(name), ACCOUNT)


def _set(ring: "KeyringBackend", name: str, value: str) -> None:
    ring.set_password(_service(name), ACCOUNT, value)  # pyright: ignore[reportUnknownMemberType]  wrapped


def _delete(ring: "KeyringBackend", name: str) -> None:
    if _get(ring, name) is not None:
        ring.delete_password(_service(name), ACCOUNT)
