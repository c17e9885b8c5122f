"""Look up the value of a reference: a name, a file's content, a keyring entry, a command's output.

A miss is a value with a short reason. Reasons name the class of a foreign exception, never its text, which
may quote the secret.
"""

import asyncio
import inspect
import os
import shlex
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import partial
from io import StringIO
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import TypeAlias, cast

from toolbus.config.find import DOTENV, LARGEST, Contents, project_path
from toolbus.config.launch.administrator import read_administrator
from toolbus.config.permitted import refused_command
from toolbus.config.secrets.reference import Reference
from toolbus.core.files import read_plain
from toolbus.core.values.errors import ConfigError

_FIFO_SECONDS = 2.0
"""The time limit for reading a file of secrets that is a FIFO."""
_Answer: TypeAlias = str | Awaitable[str | None] | None
GetSecret: TypeAlias = Callable[[str], _Answer] | Callable[[str, str], _Answer]
"""Looks up the secret of that name; a second parameter, `user`, gets the name of the user, or ""."""

_EDITOR_FOLDERS = (".vscode", ".cursor", ".roo", ".kilocode")


@dataclass(frozen=True, slots=True)
class FoundValue:
    """The value of a reference."""

    value: str
    is_secret: bool = True
    is_default: bool = False
    """Whether it is written in the config."""
    is_user: bool = False
    """Whether it is the name of a user, who may have chosen it."""

    def __repr__(self) -> str:
        return "Found(***)"


@dataclass(frozen=True, slots=True)
class MissingValue:
    """The reason why a reference has no value, as the end of a sentence: `is not set`."""

    reason: str


class Secrets:
    """Looks names up: in `get_secret`, then the environment, then `.env` in the folder.

    Nothing is cached. Project files that the user had to review are taken from `reviewed`, with the content
    that was accepted.
    """

    command_seconds = 30.0
    """The time limit for a `${cmd:...}`."""
    keyring_seconds = 60.0
    """The time limit for the keyring, which may ask the user to unlock it."""

    def __init__(
        self,
        get_secret: GetSecret | None = None,
        folder: Path | None = None,
        reviewed: Contents | None = None,
        user: str = "",
    ) -> None:
        self.folder = folder
        self.user = user
        self._get_secret = None if get_secret is None else _for_user(get_secret, user)
        self.asks_per_user = self._get_secret is not get_secret
        """Whether `get_secret` may return other values for another user."""
        self._reviewed = reviewed

    def within(self, folder: Path | None) -> "Secrets":
        """The same for a server of the user's own config, in that folder; nobody had to review that."""
        if folder is None:
            return self
        other = copy(self)
        other.folder, other._reviewed = folder, None
        return other

    async def find(self, reference: Reference) -> FoundValue | MissingValue:
        """Look up the reference's value, or why there is none; files and commands do not block the loop."""
        match reference.kind:
            case "name":
                return await self._find_name(reference)
            case "user":
                return self._find_user(reference)
            case "file":
                return await asyncio.to_thread(self._read, reference.body)
            case "keyring":
                return await self._in_keyring(reference.body)
            case "cmd":
                return await asyncio.to_thread(self._run, reference.body)

    def located(self, path: str) -> str:
        """The path with `~` expanded, relative to the config's folder if there is one."""
        return os.path.join(self.folder or "", os.path.expanduser(path))

    async def _find_name(self, reference: Reference) -> FoundValue | MissingValue:
        name = reference.body
        result = await self._from_host(name)
        if isinstance(result, MissingValue) and name in os.environ:
            result = FoundValue(os.environ[name])
        if isinstance(result, MissingValue):
            result = await asyncio.to_thread(self._from_dotenv, name, result)
        if reference.default is not None and (isinstance(result, MissingValue) or not result.value):
            return FoundValue(reference.default, is_default=True)
        if isinstance(result, MissingValue):
            return self._editor_variable(name) or result
        return result

    def _find_user(self, reference: Reference) -> FoundValue | MissingValue:
        if self.user:
            return FoundValue(self.user, is_secret=False, is_user=True)
        if reference.default is not None:
            return FoundValue(reference.default, is_secret=False)
        return MissingValue(
            "is not set, because there is no user here; use bus.as_user(NAME), or ${user:-NAME}"
        )

    async def _from_host(self, name: str) -> FoundValue | MissingValue:
        if self._get_secret is None:
            return MissingValue("is not set")
        try:
            result = self._get_secret(name)
            value: object = await result if inspect.isawaitable(result) else result
        except Exception as error:  # the host's code: whatever it raises, the name has no value
            return MissingValue(f"is not set (get_secret raised {type(error).__name__})")
        if isinstance(value, str):
            return FoundValue(value)
        kind = type(value).__name__
        return MissingValue(
            "is not set" if value is None else f"is not set (get_secret returned {kind}, not a string)"
        )

    def _from_dotenv(self, name: str, otherwise: MissingValue) -> FoundValue | MissingValue:
        if self.folder is None:
            return otherwise
        path = self.folder / DOTENV
        exists = path.is_file() if self._reviewed is None else self._reviewed.get(str(path)) is not None
        if not exists:
            return otherwise
        values = self.variables(DOTENV)
        if isinstance(values, MissingValue):
            return MissingValue(f"is not set (.env {values.reason})")
        return FoundValue(values[name]) if name in values else otherwise

    def _editor_variable(self, name: str) -> FoundValue | None:
        """The variables of VS Code and Cursor that also have a value outside an editor."""
        home = os.path.expanduser("~")
        if name == "userHome" and os.path.isabs(home):
            return FoundValue(home, is_secret=False)
        if name == "workspaceFolder":
            folder = self.folder or Path.cwd()
            return FoundValue(
                str(folder.parent if folder.name in _EDITOR_FOLDERS else folder), is_secret=False
            )
        return None

    def variables(self, path: str) -> Mapping[str, str] | MissingValue:
        """The variables in a dotenv file that have a value."""
        from dotenv import dotenv_values

        content = self._content(path)
        if isinstance(content, MissingValue):
            return content
        try:
            values = dotenv_values(stream=StringIO(content.decode("utf-8-sig")))
        except ValueError as error:
            return MissingValue(f"cannot be read ({type(error).__name__})")
        return {name: value for name, value in values.items() if value is not None}

    def _read(self, body: str) -> FoundValue | MissingValue:
        content = self._content(body)
        if isinstance(content, MissingValue):
            return content
        try:
            return FoundValue(content.decode("utf-8").rstrip("\r\n"))
        except ValueError as error:
            return MissingValue(f"cannot be read ({type(error).__name__})")

    def _content(self, path: str) -> bytes | MissingValue:
        try:
            if self._reviewed is None or self.folder is None:
                return read_plain(Path(self.located(path)), LARGEST, patience=_FIFO_SECONDS)
            if (own := project_path(path, self.folder)) is None:
                return read_plain(Path(self.located(path)), LARGEST, patience=_FIFO_SECONDS)
        except (OSError, ValueError) as error:
            return MissingValue(f"cannot be read ({type(error).__name__})")
        if own not in self._reviewed:
            return MissingValue(
                "is in the project but was not reviewed, because its path contains a reference"
            )
        content = self._reviewed[own]
        return MissingValue("cannot be read (FileNotFoundError)") if content is None else content

    async def _in_keyring(self, body: str) -> FoundValue | MissingValue:
        found: asyncio.Future[FoundValue | MissingValue] = asyncio.get_running_loop().create_future()

        def look() -> None:
            result = _from_keyring(body)
            with suppress(RuntimeError):  # the loop is closed
                found.get_loop().call_soon_threadsafe(lambda: found.done() or found.set_result(result))

        # A daemon thread, so that the program can exit while the keyring waits for its user.
        Thread(target=look, name="toolbus keyring", daemon=True).start()
        try:
            async with asyncio.timeout(self.keyring_seconds):
                return await found
        except TimeoutError:
            return MissingValue(
                f"was not returned by the keyring within {self.keyring_seconds:g} s; unlock it"
            )

    def _run(self, body: str) -> FoundValue | MissingValue:
        # Here, because not only servers have commands: the store, the gateway and the search have them, too.
        words = shlex.split(body)
        try:
            refused = refused_command(words, read_administrator(), self.folder)
        except ConfigError as error:
            refused = error
        if refused is not None:
            where = ": ".join(filter(None, (refused.file, refused.key, refused.problem)))
            return MissingValue(f"must not be run: {where}")
        try:
            done = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,  # a prompt would wait forever
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=self.command_seconds,
                cwd=self.folder,
                check=False,
            )
            value = done.stdout.decode().strip()
        except subprocess.TimeoutExpired:
            return MissingValue(f"took longer than {self.command_seconds:g} s")
        except (OSError, ValueError) as error:
            return MissingValue(f"could not be run ({type(error).__name__})")
        if done.returncode:
            return MissingValue(f"failed with exit code {done.returncode}")
        return FoundValue(value) if value else MissingValue("printed nothing")


def _for_user(get_secret: GetSecret, user: str) -> Callable[[str], _Answer]:
    """The function for one user: with a second parameter, if it takes one for the user."""
    try:
        second = next(islice(inspect.signature(get_secret).parameters.values(), 1, None), None)
    except (TypeError, ValueError):  # some functions written in C
        second = None
    of_name = cast(Callable[[str], _Answer], get_secret)
    if second is None or second.kind in (second.VAR_POSITIONAL, second.VAR_KEYWORD):
        return of_name
    # The second parameter of `dict.get` is a default: the user's name would be taken for the secret.
    if second.name != "user" and second.default is not second.empty:
        return of_name
    if second.kind is second.KEYWORD_ONLY:
        return partial(of_name, **{second.name: user})
    of_both = cast(Callable[[str, str], _Answer], get_secret)
    return lambda name: of_both(name, user)


def _from_keyring(body: str) -> FoundValue | MissingValue:
    """The password in the system's keyring for `service/name`; the last slash separates the two."""
    try:
        import keyring
        from keyring.errors import NoKeyringError
    except ImportError:
        return MissingValue('needs the keyring package; pip install "toolbus[keyring]"')
    service, _, name = body.rpartition("/")
    try:
        value = keyring.get_password(service, name)
    except NoKeyringError:
        return MissingValue(
            "cannot be read: there is no keyring on this system; install a backend, or use ${NAME}"
        )
    except Exception as error:  # a backend's code: whatever it raises, the entry has no value
        return MissingValue(f"cannot be read from the keyring ({type(error).__name__})")
    if value is None:
        return MissingValue(
            f"is not in the keyring; store it: {shlex.join(['keyring', 'set', service, name])}"
        )
    return FoundValue(value)
