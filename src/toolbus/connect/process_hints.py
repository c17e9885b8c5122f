"""Why a server process may have ended: a variable was not passed to it, or a file is in another folder."""

import os
import re
from collections.abc import Collection, Sequence

from toolbus.config import Resolved, ServerConfig

_COMPLAINT = re.compile(
    r"KeyError|not set|unset|missing|require|must be|must set|not found|not defined|undefined|not provided"
    r"|environment|env var|please (?:set|provide)|export ",
    re.IGNORECASE,
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{2,}")

DOWNLOADERS = frozenset(
    {"npx", "npm", "pnpm", "yarn", "bun", "bunx", "deno", "uv", "uvx", "pipx", "docker", "podman"}
)
"""Programs that may have to download the server first, so silence is normal."""


def exit_hint(
    config: ServerConfig, values: Resolved, stderr: Sequence[str], withheld: Collection[str]
) -> str:
    """What to change in the config after the process ended; empty if unknown."""
    names = missing_variables(stderr, withheld)
    if not names:
        return misplaced_file(values)
    listed = () if isinstance(config.inherit_env, str) else config.inherit_env
    step = f"add inherit_env: [{', '.join([*listed, *names])}] to the config"
    are = "is set here but was" if len(names) == 1 else "are set here but were"
    return f"{', '.join(names)} {are} not passed to the server; {step}"


def missing_variables(lines: Sequence[str], withheld: Collection[str]) -> list[str]:
    """The withheld variables that these lines of stderr complain about."""
    found: dict[str, None] = {}
    for index, line in enumerate(lines):
        # pydantic prints the field's name in lower case, and the complaint in the next line.
        if any(map(_COMPLAINT.search, lines[index : index + 2])):
            for word in _NAME.findall(line):
                name = word.upper() if "_" in word and word not in withheld else word
                if name in withheld:
                    found[name] = None
    return list(found)


def misplaced_file(values: Resolved) -> str:
    """A hint if a file of the command line is next to the config, but not in the working directory."""
    if values.folder is None:
        return ""
    here = os.path.abspath(values.cwd or "")
    shown = values.redacted(here)
    for word in (values.command or "", *values.args):
        is_path = word and not word.startswith("-") and (word != values.command or os.path.dirname(word))
        if not is_path or os.path.isabs(word) or os.path.exists(os.path.join(here, word)):
            continue
        if os.path.exists(os.path.join(values.folder, word)):
            return f"{values.redacted(word)!r} is not in {shown!r} but next to the config; set cwd: ."
    return ""
