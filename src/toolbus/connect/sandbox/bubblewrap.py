"""The command line of bubblewrap, which makes the sandbox. Without it, a server is not started."""

import os
import shutil
import sys
from collections.abc import Sequence

from toolbus.connect.sandbox.environment import divided
from toolbus.connect.sandbox.files import SandboxFiles
from toolbus.connect.sandbox.syscalls import syscall_filter
from toolbus.connect.transports.process.child import FILTER_FD, Launch
from toolbus.core.values.errors import ConnectFailed

WITHOUT = "or set sandbox: false"
_USER = "1000"
"""Of the one user inside; it is not root there, even if we are."""
_PROCESSES = 2
"""Those of bubblewrap around a server: one outside, and the first one inside."""


def find_bubblewrap(server: str) -> str:
    """The path of bubblewrap; ConnectFailed if there can be no sandbox here."""
    if sys.platform != "linux":
        hint = f"run it on Linux, {WITHOUT}"
        raise ConnectFailed(server, "spawn", "a sandbox needs Linux", hint=hint)
    # On our own PATH: one that the config sets could have another program of that name.
    found = shutil.which("bwrap", path=os.environ.get("PATH", os.defpath))
    if found is None:
        hint = f"install it, for example with apt install bubblewrap, {WITHOUT}"
        raise ConnectFailed(
            server, "spawn", "its sandbox needs bubblewrap, which is not installed", hint=hint
        )
    return os.path.abspath(found)


def wrapped(
    server: str, command: Sequence[str], files: SandboxFiles, env: dict[str, str], folder: str
) -> Launch:
    """The command in a sandbox that shows these files, in a folder of it; raises ConnectFailed."""
    bubblewrap, calls = find_bubblewrap(server), syscall_filter()
    if calls is None:
        raise ConnectFailed(
            server, "spawn", "no sandbox is known for this processor", hint=f"set {WITHOUT[3:]}"
        )
    passed, settings = divided(env)
    words = [
        *(bubblewrap, "--unshare-all", *(("--share-net",) if files.net else ())),
        # Also as root, which would otherwise stay root.
        *("--unshare-user", "--uid", _USER, "--gid", _USER, "--cap-drop", "ALL"),
        *("--die-with-parent", "--new-session", "--hostname", "sandbox", "--seccomp", str(FILTER_FD)),
        *(*files.arguments(), "--chdir", folder, *settings),
        *("--", *command),
    ]
    return Launch(command=words, env=passed, syscall_filter=calls, wrappers=_PROCESSES)
