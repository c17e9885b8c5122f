"""The files of a background bus: its socket, lock and log, in a private folder of the user."""

import os
import socket
from collections.abc import Generator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from toolbus.core.files import located, named_file, nearest_file

MAX_PATH = 100
"""Bytes that the path of a socket may have on every system."""


class BusPlace:
    """The files of the background bus of one config, or of one profile of it."""

    def __init__(self, folder: Path, state: Path, config: Path, profile: str | None = None) -> None:
        self.folder, self.state = folder, state
        self.config = config
        """The config file, which need not exist any more."""
        self.profile = profile
        name = os.fsencode(config) + (b"" if profile is None else b"\0" + profile.encode(errors="replace"))
        digest = sha256(name).hexdigest()[:16]
        self.socket = folder / f"{digest}.sock"
        self.lock = folder / f"{digest}.lock"
        """Locked for as long as the bus lives."""
        self.log = state / "background" / f"{digest}.log"

    def connect(self) -> socket.socket:
        """A connection to the bus; OSError if there is none."""
        connection = socket.socket(socket.AF_UNIX)
        try:
            with _reachable(self.socket) as path:
                connection.connect(path)
        except BaseException:
            connection.close()
            raise
        return connection

    def socket_number(self) -> int | None:
        """The number of the file that the socket is; None if there is none."""
        try:
            return self.socket.stat().st_ino
        except OSError:
            return None

    def listen(self) -> socket.socket:
        """Listen for clients of the same user, and replace an earlier socket."""
        listening, draft = socket.socket(socket.AF_UNIX), self.socket.with_suffix(".new")
        try:
            draft.unlink(missing_ok=True)
            with _reachable(draft) as path:
                listening.bind(path)
            draft.chmod(0o600)
            listening.listen(1024)
            # Whoever sees it can connect to it.
            draft.replace(self.socket)
        except BaseException:
            listening.close()
            raise
        return listening


def config_file(named: str | None, folder: Path | None = None) -> Path | None:
    """The config that a command uses: the one that is named, or else found; None if there is none."""
    file = Path(named) if named else named_file() or nearest_file(folder or Path.cwd())
    return None if file is None else located(file)


def places(config: Path, profile: str | None = None) -> list[BusPlace]:
    """The possible places of a config's bus, the preferred one first; OSError without a home.

    One command may have the user's runtime folder while another one, such as a timer's, has none.
    """
    state = _state_folder()
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    folders = [Path(runtime, "toolbus")] if _is_own_folder(runtime) else []
    return [BusPlace(folder, state, config, profile) for folder in (*folders, state / "run")]


def _state_folder() -> Path:
    from platformdirs import user_state_dir

    try:
        folder = Path(user_state_dir("toolbus", appauthor=False))
    except RuntimeError:
        folder = Path("~")
    if not folder.is_absolute():
        raise OSError("no state folder; set HOME or XDG_STATE_HOME")
    return folder


def _is_own_folder(path: str) -> bool:
    try:
        return os.path.isabs(path) and os.path.isdir(path) and os.stat(path).st_uid == os.geteuid()
    except OSError:
        return False


@contextmanager
def _reachable(path: Path) -> Generator[str]:
    """A name for the path that a socket takes; for a long one, from within its folder."""
    if len(os.fsencode(path)) <= MAX_PATH:
        yield str(path)
        return
    before = os.open(".", os.O_RDONLY)
    try:
        os.chdir(path.parent)
        yield path.name
    finally:
        os.fchdir(before)
        os.close(before)
