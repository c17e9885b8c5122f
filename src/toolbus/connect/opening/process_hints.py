"""Why a server process may have ended: another SDK, a variable that was not passed, a file elsewhere."""

import os
import re
import shlex
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

_OLD_SDK = re.compile(
    r"No module named 'mcp\.(?!server\.mcpserver)"
    r"|cannot import name '(?!MCPServer'|MCPError'|Client')\w+' from 'mcp['.]"
    r"|module 'mcp[\w.]*' has no attribute"
    r"|'(?:Server|FastMCP|MCPServer)' object has no attribute"
    r" '(?:list_|call_tool|get_prompt|read_resource|set_logging_level|request_context)"
)
"""What Python prints when a server for the MCP SDK before 2.0 finds a later one."""
_BEFORE_2 = "mcp<2"
_WITH = {"uvx": "uvx", "uv tool run": "uv tool run", "uv run": "uv run", "pipx run": "uvx"}
"""The launcher that takes `--with`, by the launcher of a server."""


def exit_hint(
    config: ServerConfig, values: Resolved, stderr: Sequence[str], withheld: Collection[str]
) -> str:
    """What to change in the config after the process ended; empty if unknown."""
    if hint := old_sdk(values, stderr):
        return hint
    names = missing_variables(stderr, withheld)
    if not names:
        return misplaced_file(values)
    listed = () if isinstance(config.inherit_env, str) else config.inherit_env
    step = f"add inherit_env: [{', '.join([*listed, *names])}] to the config"
    are = "is set here but was" if len(names) == 1 else "are set here but were"
    return f"{', '.join(names)} {are} not passed to the server; {step}"


def old_sdk(values: Resolved, stderr: Sequence[str]) -> str:
    """How to start a server that was written for the MCP SDK before 2.0; empty if it was not."""
    if not any(map(_OLD_SDK.search, stderr)) or _BEFORE_2 in values.args:
        return ""
    program = os.path.basename(values.command or "")
    words = [program, *values.args]
    launcher = next((one for one in _WITH if words[: len(one.split())] == one.split()), None)
    if launcher is not None:
        options = [*_WITH[launcher].split(), "--with", _BEFORE_2]
        step = f"start it with {values.redacted(shlex.join([*options, *words[len(launcher.split()) :]]))}"
    elif program.startswith("python"):
        # Not in the environment that it has now: toolbus itself may be there, and needs a later SDK.
        python = values.redacted(shlex.quote(values.command or ""))
        step = (
            f"run {python} -m venv old-sdk, install '{_BEFORE_2}' there, and set command: old-sdk/bin/python"
        )
    else:
        step = f"install '{_BEFORE_2}' in its environment"
    return f"it needs the MCP SDK before 2.0; {step}"


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
