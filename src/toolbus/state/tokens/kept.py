"""Tokens among other values, in private files or in the store of several gateways; and locks for renewals."""

import logging
import os
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from hashlib import sha256
from pathlib import Path

from toolbus.core.values.errors import StoreError, TokenProblem, TokenStoreError
from toolbus.state.files import FileExposed, Foreign, NoStateFolder, PrivateFolder, state_folder
from toolbus.state.lock import LockBusy, hold_in_process
from toolbus.state.values import FileForm, PrivateValues, Values

logger = logging.getLogger("toolbus")
ELSEWHERE = "choose another place: tokens: file:DIR"
_TOKEN = "token"
_STATE = "the state folder"


class KeptTokens:
    """Keeps tokens; of names only digests, because they contain users and servers."""

    def __init__(self, values: Values, remedy: str, seconds: float | None = None) -> None:
        """Tokens that nobody uses are kept for this many seconds; None for forever."""
        self._values = values
        self._seconds = seconds
        self.remedy = remedy

    @property
    def place(self) -> str:
        try:
            return self._values.place_of(_TOKEN)
        except NoStateFolder:
            return _STATE

    def place_of(self, key: str, /) -> str:
        return self._values.place_of(_TOKEN, _name(key))

    def load(self, key: str, /) -> str | None:
        name = _name(key)
        try:
            with self._explained("unreadable", key):
                value = self._values.wait(self._values.get(_TOKEN, name))
                if value is not None and self._seconds is not None:
                    self._values.wait(self._values.keep(_TOKEN, name, self._seconds))
        except NoStateFolder:  # then nothing can have been saved
            return None
        # Whatever it contains, as it is: whoever reads it decides whether it is damaged.
        return None if value is None else value.decode(errors="surrogateescape")

    def save(self, key: str, value: str, /) -> None:
        content = value.encode(errors="surrogateescape")
        try:
            with self._explained("unwritable", key):
                self._values.wait(self._values.put(_TOKEN, _name(key), content, self._seconds))
        except NoStateFolder:
            step = f"set HOME or XDG_STATE_HOME, or {ELSEWHERE}"
            raise TokenStoreError(_STATE, "unavailable", "there is no home for it", step) from None

    def remove(self, key: str, /) -> None:
        try:
            with self._explained("unwritable", key):
                self._values.wait(self._values.remove(_TOKEN, _name(key)))
        except NoStateFolder:
            return

    def set_aside(self, key: str, /) -> bool:
        with self._explained("unwritable", key):
            return self._values.set_aside(_TOKEN, _name(key))

    @contextmanager
    def _explained(self, reason: TokenProblem, key: str) -> Generator[None]:
        try:
            yield
        except StoreError as error:
            raise TokenStoreError(self.place, reason, error.problem, self.remedy) from error
        except NoStateFolder:
            raise
        except FileExposed as error:
            what = "folder" if os.path.isdir(error.filename) else "file"
            problem = f"other users can {'write' if error.what == 'written' else 'read'} this {what}"
            step = f"protect it: {error.remedy}; sign in again if anyone did"
            raise TokenStoreError(error.filename, "exposed", problem, step) from error
        except Foreign as error:
            problem = "it belongs to another user"
            raise TokenStoreError(error.filename, "exposed", problem, ELSEWHERE) from error
        except OSError as error:
            verb = "read" if reason == "unreadable" else "written"
            problem = f"it cannot be {verb} ({error.strerror or type(error).__name__})"
            step = f"check the permissions of the file and its folder, or {ELSEWHERE}"
            raise TokenStoreError(self.place_of(key), reason, problem, step) from error


def _name(key: str) -> str:
    return sha256(key.encode(errors="surrogateescape")).hexdigest()


def _forms(prefix: str) -> dict[str, FileForm]:
    token = FileForm(path=f"{prefix}{{name:.32}}.json", is_secret=True)  # half of the digest is enough
    return {_TOKEN: token, "lock": FileForm(path=f"{prefix}locks/{{name}}")}


def values_in(path: Path) -> PrivateValues:
    """The files for tokens in a folder that the user chose."""
    folder = PrivateFolder(path.absolute())
    return PrivateValues(lambda: folder, _forms(""))


def values_of_user() -> PrivateValues:
    """The files for tokens in the user's state folder."""
    return PrivateValues(state_folder, _forms("tokens/"))


class TokenLocks:
    """Exclusive use of names, among those who share tokens.

    Locks are among the first of some values that can be locked; if there are none, in this process only.
    """

    def __init__(self, places: Sequence[Values]) -> None:
        self._places = places
        self._has_warned = False

    @asynccontextmanager
    async def hold(self, name: str, place: str, seconds: float) -> AsyncGenerator[None]:
        """Hold the lock of that name; TokenStoreError about `place` if it is not free in time."""
        async with AsyncExitStack() as stack:
            try:
                await self._enter(stack, name, seconds)
            except LockBusy as busy:
                raise TokenStoreError(place, busy.reason, busy.problem, busy.step) from None
            except StoreError as error:
                raise TokenStoreError(place, "unavailable", error.problem, "check the database") from error
            yield

    async def _enter(self, stack: AsyncExitStack, name: str, seconds: float) -> None:
        problem = ""
        for values in self._places:
            try:
                await stack.enter_async_context(values.hold(name, seconds))
            except OSError as error:
                problem = error.strerror or type(error).__name__
            else:
                return
        if self._places and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "tokens are not locked against other processes (%s); two that renew the same login at once "
                "may have to sign in again",
                problem,
            )
        await stack.enter_async_context(hold_in_process(name, seconds))
