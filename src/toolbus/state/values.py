"""Values by kind and name: the seam of all that is kept.

`PrivateValues` keeps them in files of the user, `Store` in a database that several processes share.
"""

import asyncio
import json
import logging
import os
import time
from collections.abc import Callable, Coroutine, Generator, Mapping
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from toolbus.core.values.errors import StoreError
from toolbus.state.files import PrivateFolder
from toolbus.state.lock import LockBusy, Patience, hold_file, take_file

T = TypeVar("T")
logger = logging.getLogger("toolbus")

LOOK_SECONDS = 1.0
"""The interval between two questions of a mirror about changes."""
_LOCK_SECONDS = 5.0


class Values(Protocol):
    """Values by kind and name. Files raise OSError, or ValueError if damaged; a store raises StoreError."""

    def place_of(self, kind: str, name: str = "") -> str:
        """The place of a value, or of all of a kind, for messages."""
        ...

    def now(self) -> float:
        """The time that decides what has expired, as seconds since the epoch."""
        ...

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of one of the methods, for a thread that may wait: `values.wait(values.get(...))`."""
        ...

    def begin(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Begin to run one of the methods, for code that must not wait for a database."""
        ...

    async def get(self, kind: str, name: str) -> bytes | None:
        """The value; None if there is none, or it has expired."""
        ...

    async def put(self, kind: str, name: str, value: bytes, seconds: float | None = None) -> None:
        """Keep a value instead of any other; in a store for this many seconds, or until it is removed."""
        ...

    async def add(self, kind: str, name: str, value: bytes = b"", seconds: float | None = None) -> bool:
        """Keep a value if there is none; of several who do that at once, one gets True."""
        ...

    async def swap(
        self, kind: str, name: str, old: bytes | None, new: bytes | None, seconds: float | None = None
    ) -> bool:
        """Keep `new` instead of `old`; False if there is another value by now. None stands for no value.

        Only one of several callers that do this at once gets True.
        """
        ...

    async def keep(self, kind: str, name: str, seconds: float) -> bool:
        """Keep a value for this many seconds from now; False if there is none any more."""
        ...

    async def remove(self, kind: str, name: str) -> bool:
        """Delete a value; returns whether there was one."""
        ...

    async def clear(self, kind: str) -> int:
        """Delete all values of a kind, even damaged ones; returns how many there were."""
        ...

    async def items(self, kind: str) -> dict[str, bytes]:
        """All values of a kind by name."""
        ...

    async def version(self, kind: str) -> object:
        """Differs whenever a value of that kind was added, changed or removed."""
        ...

    def hold(self, name: str, seconds: float) -> AbstractAsyncContextManager[None]:
        """Hold the lock of that name; `LockBusy` if it is not free in time."""
        ...

    def set_aside(self, kind: str, name: str) -> bool:
        """Move a damaged value out of the way; False if it has to be saved under another name."""
        ...


# In private files


@dataclass(frozen=True, slots=True, kw_only=True)
class FileForm:
    """A kind of values that have a file each; they are not listed."""

    path: str
    """The file in the folder; `{name}` stands for the name."""
    is_secret: bool = False
    """Whether a file is refused that others can read."""
    limit: int | None = None
    """The most files that are kept; each name begins with the second in which it expires."""

    def file(self, name: str) -> str:
        return self.path.format(name=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentForm:
    """A kind of values that are together in one JSON document. A change is made under a lock."""

    path: str
    owner: str = ""
    """The config that they belong to, which the document names."""
    entries: str = ""
    """The key of the list of values; without one, the document maps names to them."""
    name_of: Callable[[Any], str] = str
    """The name of a value in the list; KeyError, TypeError or ValueError if it is not one."""
    damaged: str = "{path} {reason}"
    """The message about a document that cannot be used."""
    is_replaceable: bool = False
    """Whether a change replaces a damaged document: nothing that counts is lost with it."""

    def read(self, content: bytes | None, path: Path) -> dict[str, bytes]:
        """The values; ValueError if the document is damaged, or belongs to another config."""
        if content is None:
            return {}
        reason = "is damaged"
        try:
            document: Any = json.loads(content)
            if not self.entries:
                return {str(name): _encoded(value) for name, value in document.items()}
            if document["file"] == self.owner:
                return {self.name_of(one): _encoded(one) for one in document[self.entries]}
            reason = "belongs to another config"
        except (AttributeError, KeyError, TypeError, RecursionError, ValueError):
            pass
        raise ValueError(self.damaged.format(path=path, owner=self.owner, reason=reason))

    def written(self, values: Mapping[str, bytes]) -> bytes:
        """The document with these values."""
        found: dict[str, Any] = {name: json.loads(value) for name, value in values.items()}
        document = {"file": self.owner, self.entries: [*found.values()]} if self.entries else found
        return json.dumps(document, indent=1).encode()


class PrivateValues:
    """Values in files of the user. Its methods never suspend, except `hold`; each takes a moment of the disk.

    A value is kept until it is removed, regardless of `seconds`.
    """

    def __init__(
        self,
        folder: Callable[[], PrivateFolder],
        forms: Mapping[str, FileForm | DocumentForm],
        now: Callable[[], float] = time.time,
    ) -> None:
        """`folder` raises OSError if there is none; `forms` are the files by kind."""
        self._folder = folder
        self._forms = forms
        self.now = now

    def place_of(self, kind: str, name: str = "") -> str:
        form, base = self._forms[kind], self._folder().base
        if isinstance(form, DocumentForm):
            return str(base / form.path)
        path = base / form.file(name)
        return str(path if name else path.parent)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            work.send(None)
        except StopIteration as done:
            return done.value
        raise AssertionError("files are read and written at once")

    def begin(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        future: Future[T] = Future()
        try:
            future.set_result(self.wait(work))
        except Exception as error:  # for whoever asks for the result
            future.set_exception(error)
        return future

    async def get(self, kind: str, name: str) -> bytes | None:
        form = self._forms[kind]
        if isinstance(form, DocumentForm):
            return self._read(form).get(name)
        return self._folder().read(form.file(name), secret=form.is_secret)

    async def put(self, kind: str, name: str, value: bytes, seconds: float | None = None) -> None:
        form = self._forms[kind]
        if isinstance(form, FileForm):
            self._folder().write(form.file(name), value, durable=True)
            return
        with self._changing(form) as values:
            values.pop(name, None)  # the newest is the last
            values[name] = value

    async def add(self, kind: str, name: str, value: bytes = b"", seconds: float | None = None) -> bool:
        form = self._forms[kind]
        if isinstance(form, FileForm):
            return self._add_file(form, name, value)
        with self._changing(form) as values:
            is_new = name not in values
            values.setdefault(name, value)
        return is_new

    async def swap(
        self, kind: str, name: str, old: bytes | None, new: bytes | None, seconds: float | None = None
    ) -> bool:
        with self._changing(self._document(kind)) as values:
            if values.get(name) != old:
                return False
            values.pop(name, None)
            if new is not None:
                values[name] = new
        return True

    async def keep(self, kind: str, name: str, seconds: float) -> bool:
        return await self.get(kind, name) is not None

    async def remove(self, kind: str, name: str) -> bool:
        form = self._forms[kind]
        if isinstance(form, FileForm):
            folder = self._folder()
            was_there = folder.remove(form.file(name))
            folder.remove_drafts(form.file(name))
            return was_there
        with self._changing(form) as values:
            return values.pop(name, None) is not None

    async def clear(self, kind: str) -> int:
        form, folder = self._document(kind), self._folder()
        if folder.read(form.path) is None:
            return 0
        with self._locked(form.path):
            try:
                found = len(self._read(form))
            except ValueError:
                found = 0
            folder.remove(form.path)
        return found

    async def items(self, kind: str) -> dict[str, bytes]:
        return self._read(self._document(kind))

    async def version(self, kind: str) -> object:
        try:
            found = os.stat(self._folder().base / self._document(kind).path)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size

    def hold(self, name: str, seconds: float) -> AbstractAsyncContextManager[None]:
        return hold_file(lambda: self._folder().make_folders(self._file("lock").file(name)), seconds)

    def set_aside(self, kind: str, name: str) -> bool:
        path = self._folder().base / self._file(kind).file(name)
        for number in count(1):
            aside = path.with_suffix(".corrupt" if number == 1 else f".corrupt{number}")
            if not aside.exists():
                path.rename(aside)
                break
        return True

    def _file(self, kind: str) -> FileForm:
        form = self._forms[kind]
        assert isinstance(form, FileForm), "values of this kind have files of their own"
        return form

    def _document(self, kind: str) -> DocumentForm:
        form = self._forms[kind]
        assert isinstance(form, DocumentForm), "values with files of their own are not listed"
        return form

    def _read(self, form: DocumentForm) -> dict[str, bytes]:
        folder = self._folder()
        return form.read(folder.read(form.path), folder.base / form.path)

    @contextmanager
    def _changing(self, form: DocumentForm) -> Generator[dict[str, bytes]]:
        """The values of a document, which are written if they are others at the end of the block.

        Changes of several processes are made one after another.
        """
        with self._locked(form.path):
            try:
                before = self._read(form)
            except ValueError:
                if not form.is_replaceable:
                    raise
                before = {}
            values = dict(before)
            yield values
            if [*values.items()] != [*before.items()]:
                self._folder().write(form.path, form.written(values))

    @contextmanager
    def _locked(self, file: str) -> Generator[None]:
        """Hold the lock of a file for a change; TimeoutError if it is not free soon."""
        path = self._folder().make_folders(f"{file}.lock")
        try:
            held = take_file(path, Patience.of(_LOCK_SECONDS), names_holder=False)
        except LockBusy:
            raise TimeoutError(f"{path} is locked by another process; try again") from None
        try:
            yield
        finally:
            held.release()

    def _add_file(self, form: FileForm, name: str, value: bytes) -> bool:
        folder = self._folder()
        path = folder.make_folders(form.file(name))
        if value:
            with self._locked(form.file(name)):
                if path.exists():
                    return False
                folder.write(form.file(name), value, durable=True)
            return True
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            return False
        if form.limit is not None:
            for old in to_forget(os.listdir(path.parent), form.limit, self.now()):
                (path.parent / old).unlink(missing_ok=True)
        return True


def to_forget(names: list[str], limit: int, now: float) -> list[str]:
    """The names that have expired, or beyond the limit would do so first."""
    expiries = sorted((expiry_of(name), name) for name in names)
    first_kept = len(expiries) - limit
    return [name for place, (expiry, name) in enumerate(expiries) if expiry < now or place < first_kept]


def expiry_of(name: str) -> int:
    """The second at the beginning of a name; 0 if there is none."""
    time_part = name.partition("-")[0]
    return int(time_part) if time_part.isdecimal() else 0


def _encoded(value: object) -> bytes:
    return json.dumps(value).encode()


# Copies in memory


class Mirror:
    """A copy of all values of a kind, for those who cannot wait for a database at each request.

    From `start` to `close`, a change elsewhere is here within two seconds.
    """

    def __init__(self, values: Values, kind: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._source = values
        self._kind = kind
        self.values: Mapping[str, bytes] = {}
        self.version = 0
        """Grows whenever the values change."""
        self._clock = clock
        self._looked = float("-inf")
        self._state: object = None
        self._following: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Read the values, and follow them; StoreError if they cannot be read."""
        if self._following is None:
            await self.look()
            self._following = asyncio.create_task(self._follow(), name=f"toolbus mirror {self._kind}")

    async def close(self) -> None:
        """Follow them no longer."""
        if self._following is not None:
            self._following.cancel()
            with suppress(asyncio.CancelledError):
                await self._following
            self._following = None

    @property
    def age(self) -> float:
        """The seconds since the values were known to be current."""
        return self._clock() - self._looked

    async def look(self) -> None:
        """Read the values if something changed."""
        asked = self._clock()
        state = await self._source.version(self._kind)
        if state != self._state:
            # The state first: what changes in between is read twice, and nothing is missed.
            self.values = await self._source.items(self._kind)
            self.version += 1
            self._state = state
        self._looked = asked

    async def _follow(self) -> None:
        is_lost = False
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.look()
            except StoreError as error:
                if not is_lost:
                    logger.warning("%s (what was read before is used meanwhile)", error)
                is_lost = True
            else:
                is_lost = False


class Records(Generic[T]):
    """The values of a kind as records, which are read again when they have changed."""

    def __init__(
        self, values: Values, kind: str, read: Callable[[Any], T], mirror: Mirror | None = None
    ) -> None:
        """`read` makes a record of its JSON: KeyError, TypeError or ValueError if it is not one.

        With a `mirror`, nothing waits for a database.
        """
        self._values = values
        self._kind = kind
        self._read = read
        self.mirror = mirror
        self._known: tuple[object, dict[str, T]] = None, {}

    @property
    def version(self) -> object:
        """Differs whenever the values have changed; costs a look at the folder. None if it is not known."""
        if self.mirror is not None:
            return self.mirror.version
        return self._values.wait(self._values.version(self._kind))

    def all(self) -> dict[str, T]:
        """The records by name. Records that only another version of toolbus knows are left out."""
        version, known = self.version, self._known
        if version is None or version != known[0]:
            mirror = self.mirror
            values = self._values.wait(self._values.items(self._kind)) if mirror is None else mirror.values
            self._known = known = version, dict(self._readable(values))
        return known[1]

    def _readable(self, values: Mapping[str, bytes]) -> Generator[tuple[str, T]]:
        for name, value in values.items():
            with suppress(KeyError, TypeError, ValueError, RecursionError):
                yield name, self._read(json.loads(value))
