"""The keys that let clients in: of each only its SHA-256 is stored, in a file for each config.

The file is in the user's state folder. A file that cannot be read, or that others can write, lets nobody in.
"""

import json
import os
import re
import secrets
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from toolbus.config.trust import located
from toolbus.core.values.errors import ToolbusError
from toolbus.state import files as state
from toolbus.state.file_lock import try_lock, unlock

PREFIX = "tb_"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
"""The names that a person may give to a key."""
NAME_RULE = "a name has letters, digits and ._@+-, at most 64; such as ann or ci-bot"
_KEY_BYTES = 32
_LOCK_SECONDS = 5.0
_HOUR = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKey:
    """What is known of a key."""

    name: str
    digest: str = field(repr=False)
    """The SHA-256 of the key, in hexadecimal."""
    views: tuple[str, ...] = ()
    """The views of the config that it may use, its own first; empty for the default one."""
    user: str = ""
    """The user whose logins and secrets its calls use."""
    created: float
    expires: float | None = None
    """As seconds since the epoch."""


class KeyExists(ToolbusError):
    """A key of that name exists already."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"there is a key named {name!r}; choose another name, or revoke it first")


class KeysUnusable(ToolbusError):
    """The stored keys cannot be read or written."""


@contextmanager
def explained() -> Generator[None]:
    """A file that cannot be used is an error with the next step."""
    try:
        yield
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        step = getattr(error, "remedy", "") or "check the permissions of your state folder"
        problem = error.strerror or str(error) or type(error).__name__
        raise KeysUnusable(f"keys cannot be used: {place}{problem}; {step}") from error
    except ValueError as error:
        raise KeysUnusable(f"keys cannot be used: {error}") from error


def digest_of_key(key: str) -> str:
    """The SHA-256 of a key. It has 256 random bits, so that no slower digest is needed."""
    return sha256(key.encode(errors="surrogateescape")).hexdigest()


def new_key(
    name: str, views: Sequence[str], user: str, created: float, expires: float | None
) -> tuple[str, StoredKey]:
    """A new key, and what is stored of it."""
    key = PREFIX + secrets.token_urlsafe(_KEY_BYTES)
    digest = digest_of_key(key)
    return key, StoredKey(
        name=name, digest=digest, views=tuple(views), user=user, created=created, expires=expires
    )


class StoredKeys:
    """The keys of one config file. Methods raise OSError or ValueError if their file cannot be used."""

    def __init__(self, config_file: str | Path, now: Callable[[], float] = time.time) -> None:
        self._config = str(located(Path(config_file)))
        self.now = now
        name = sha256(os.fsencode(self._config)).hexdigest()
        self._name = f"gateway/{name}.keys.json"
        self._used_name = f"gateway/{name}.used.json"

    is_current = True
    """Whether it is known which keys are valid: a file can always be looked at."""

    @property
    def version(self) -> object:
        """Differs whenever the file was changed; costs one look at the folder."""
        try:
            found = os.stat(state.location(self._name))
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size

    def all(self) -> list[StoredKey]:
        """The keys, the oldest first; also expired ones."""
        content = state.read(self._name)
        if content is None:
            return []
        try:
            document: Any = json.loads(content)
            if document["file"] != self._config:
                raise ValueError("belongs to another config")
            return [read_key(one) for one in document["keys"]]
        except (KeyError, TypeError, RecursionError, ValueError) as error:
            reason = str(error) if str(error) == "belongs to another config" else "is damaged"
            raise ValueError(
                f"{state.location(self._name)} {reason}; delete it, and add keys again"
            ) from None

    def add(
        self, name: str, *, views: Sequence[str] = (), user: str = "", expires: float | None = None
    ) -> tuple[str, StoredKey]:
        """Make a key, and return it: it cannot be shown again. `KeyExists` if the name is taken."""
        key, made = new_key(name, views, user, self.now(), expires)
        with self._locked():
            others = self.all()
            if any(other.name == name for other in others):
                raise KeyExists(name)
            self._write([*others, made])
        return key, made

    def revoke(self, name: str) -> bool:
        """Delete a key; returns whether there was one."""
        with self._locked():
            keys = self.all()
            kept = [key for key in keys if key.name != name]
            if len(kept) < len(keys):
                self._write(kept)
        return len(kept) < len(keys)

    def used(self) -> dict[str, float]:
        """When each key was last used, to the hour, by the digest of the key."""
        with suppress(OSError, ValueError, RecursionError):
            document: Any = json.loads(state.read(self._used_name) or b"{}")
            return {str(digest): float(hour) for digest, hour in document.items()}
        return {}

    def record_use(self, used: Mapping[str, float]) -> None:
        """Record when keys were used; what is not known any more is left out."""
        # In a file of its own, which only gateways write: a revoked key never comes back with it.
        with self._locked():
            keys, before = self.all(), self.used()
            content = {key.digest: hour for key in keys if (hour := before.get(key.digest)) is not None}
            content |= {key.digest: hour_of(used[key.digest], key) for key in keys if key.digest in used}
            state.write(self._used_name, json.dumps(content, indent=1).encode())

    def _write(self, keys: list[StoredKey]) -> None:
        document = {"file": self._config, "keys": [asdict(key) for key in keys]}
        state.write(self._name, json.dumps(document, indent=1).encode())

    @contextmanager
    def _locked(self) -> Generator[None]:
        """One change at a time, also of several processes."""
        path = state.state_folder().make_folders(f"{self._name}.lock")
        handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            deadline = time.monotonic() + _LOCK_SECONDS
            while not try_lock(handle):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{path} is locked by another process; try again")
                time.sleep(0.01)
            yield
            unlock(handle)
        finally:
            os.close(handle)


def hour_of(when: float, key: StoredKey | None = None) -> float:
    """The hour of a time, as seconds since the epoch; not before a key was made that was used then."""
    hour = when // _HOUR * _HOUR
    return hour if key is None else max(hour, key.created)


def read_key(stored: Any) -> StoredKey:
    """The key in its JSON; KeyError, TypeError or ValueError if it is not one."""
    fields: dict[str, Any] = {**stored, "views": tuple(stored["views"])}
    key = StoredKey(**fields)
    texts = (key.name, key.digest, key.user, *key.views)
    times = (key.created, *(() if key.expires is None else (key.expires,)))
    if not all(isinstance(text, str) for text in texts) or not all(map(_is_number, times)):  # pyright: ignore[reportUnnecessaryIsInstance]  # from a file
        raise TypeError
    return key


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
