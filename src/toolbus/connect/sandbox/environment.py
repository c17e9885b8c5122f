"""The variables that a server gets in a sandbox: few of ours, and those that the config names."""

import os
import re
from collections.abc import Mapping

from toolbus.config import Resolved, ServerConfig
from toolbus.connect.sandbox.files import USER_HOME

_KEPT = re.compile(r"PATH|LANG|LANGUAGE|LC_\w+|TZ")
# Read by the loader, the C library or a shell: bubblewrap itself must not see them, or they would be run
# outside of the sandbox.
_LOADED = re.compile(
    r"LD_.*|GLIBC_.*|MALLOC_.*|GCONV_PATH|LOCPATH|NLSPATH|BASH.*|SHELLOPTS|PS4|ENV|IFS|(?![A-Za-z_]\w*$).*",
    re.ASCII | re.DOTALL,
)


def home_folder() -> str:
    """The home inside: it has the same path as outside, so that `~/notes` means the same, and is empty."""
    home = os.path.expanduser("~")
    return os.path.normpath(home) if os.path.isabs(home) and os.path.normpath(home) != os.sep else USER_HOME


def inside_environment(config: ServerConfig, values: Resolved) -> dict[str, str]:
    """The environment inside; `inherit_env: all` passes nothing that is not named."""
    assert config.sandbox is not None
    inherited = config.inherit_env
    named = {*config.sandbox.env, *(() if isinstance(inherited, str) else inherited)}
    base = {
        name: value
        for name, value in os.environ.items()
        # An exported shell function would be run by the server's shell.
        if not value.startswith("()") and (name in named or (inherited != "none" and _KEPT.fullmatch(name)))
    }
    return {"HOME": home_folder(), "USER": "user", "LOGNAME": "user"} | base | dict(values.env)


def divided(env: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The variables for bubblewrap, which passes them on, and arguments for those that it must not see.

    Others are not arguments: every user of the machine can read those, and variables may be secrets.
    """
    passed = {name: value for name, value in env.items() if not _LOADED.fullmatch(name)}
    withheld = [name for name in env if name not in passed]
    return passed, [word for name in withheld for word in ("--setenv", name, env[name])]
