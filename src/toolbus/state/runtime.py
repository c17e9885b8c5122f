"""Files of running processes, such as sockets: in a private folder that ends with the user's session.

It is `$XDG_RUNTIME_DIR/toolbus`, or `run` in the state folder. A program may have been started with another
environment, so search both for a running one.
"""

import os
from pathlib import Path

from toolbus.state.files import PrivateFolder, state_folder


def runtime_folder() -> PrivateFolder:
    """The folder for files of this process, created with mode 0700; OSError if it is not the user's alone."""
    folder = runtime_folders()[0]
    folder.make_folders("")
    return folder


def runtime_folders() -> list[PrivateFolder]:
    """The folders for files of running processes; the first belongs to this process."""
    below_state = PrivateFolder(state_folder().base / "run", protects=True)
    given = os.environ.get("XDG_RUNTIME_DIR", "")
    # The specification: a relative path is invalid, and so is a folder of another user.
    if os.path.isabs(given) and _is_own(Path(given)):
        return [PrivateFolder(Path(given) / "toolbus", protects=True), below_state]
    return [below_state]


def _is_own(folder: Path) -> bool:
    try:
        found = folder.stat()
    except OSError:
        return False
    return not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
