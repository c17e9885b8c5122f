"""The reasons why a server may have failed in its sandbox, and the line of the config that would help."""

import os
import re
from collections.abc import Sequence

from toolbus.config import Resolved, ServerConfig
from toolbus.connect.sandbox.files import SandboxFiles, argument_paths, granted_files, is_file
from toolbus.core.values.errors import ConnectFailed

_OWN = "bwrap: "
"""The beginning of bubblewrap's own messages."""
_NAMESPACES = re.compile(r"namespace|uid map|gid map|mount proc|pivot_root|loopback", re.IGNORECASE)
_NAMESPACE_HINT = (
    "this system does not let it make user namespaces; allow them (Debian: sysctl "
    "kernel.unprivileged_userns_clone=1; Ubuntu: AppArmor profile; container: seccomp profile), "
    "or set sandbox: false"
)
_NO_NETWORK = re.compile(
    r"ENOTFOUND|EAI_AGAIN|ENETUNREACH|name resolution|getaddrinfo|Network is unreachable|dns error"
    r"|No address associated|Name or service not known",
    re.IGNORECASE,
)
_READ_ONLY = re.compile(r"EROFS|read-?only|unable to open database", re.IGNORECASE)


def setup_failure(config: ServerConfig, stderr: Sequence[str], exit_code: int) -> ConnectFailed | None:
    """The error if bubblewrap itself failed; None if it did not."""
    own = [line.removeprefix(_OWN) for line in stderr if line.startswith(_OWN)]
    if not own or exit_code != 1:
        return None
    hint = "name what it needs in sandbox.read, or set sandbox: false"
    if _NAMESPACES.search(own[0]):
        hint = _NAMESPACE_HINT
    cause = f"its sandbox cannot be made: {own[0].rstrip('.')}"
    return ConnectFailed(config.alias, "spawn", cause, hint=hint, exit_code=exit_code)


def sandbox_hint(config: ServerConfig, values: Resolved, stderr: Sequence[str]) -> str:
    """The line to add to the sandbox of a server that ended; empty if unknown."""
    assert config.sandbox is not None
    try:
        files = granted_files(config, values)
    except ConnectFailed:  # a path was removed meanwhile
        return ""
    printed = "\n".join(stderr)
    if hidden := _hidden(values, files):
        return (
            f"its sandbox does not show {_added(config, values, hidden, 'read')} (write: if it changes them)"
        )
    if _READ_ONLY.search(printed) and (unwritable := _unwritable(values, files)):
        return f"in its sandbox it cannot write to {_added(config, values, unwritable, 'write')}"
    if not config.sandbox.net and _NO_NETWORK.search(printed):
        return "it has no network in its sandbox; add net: true to it"
    return ""


def _hidden(values: Resolved, files: SandboxFiles) -> list[str]:
    """Paths that the command line and the environment name, and that are not there inside."""
    found = [path for path in _named(values) if os.path.isdir(path) and not files.shows(path)]
    # A file that the server is to make.
    made = (os.path.dirname(path) for path in _named(values) if not os.path.exists(path))
    return list(
        dict.fromkeys([*found, *(one for one in made if os.path.isdir(one) and not files.shows(one))])
    )


def _unwritable(values: Resolved, files: SandboxFiles) -> list[str]:
    named = [path for path in _named(values) if os.path.exists(path) and not files.can_change(path)]
    return list(dict.fromkeys(os.path.dirname(path) if is_file(path) else path for path in named))


def _named(values: Resolved) -> list[str]:
    words = tuple(word for word in (*values.args, *values.env.values()) if os.sep in word)
    return argument_paths(values, words)


def _added(config: ServerConfig, values: Resolved, paths: Sequence[str], key: str) -> str:
    assert config.sandbox is not None
    known = config.sandbox.read if key == "read" else config.sandbox.write
    shown = [values.redacted(path) for path in paths]
    return f"{', '.join(map(repr, shown))}; add sandbox: {{{key}: [{', '.join([*known, *shown])}]}}"
