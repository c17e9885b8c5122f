"""Whether the administrator permits a server: as its config is written, and with its references filled in.

The commands of `${cmd:...}` are also started, so the lists of command lines apply to them.
"""

import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from toolbus.config.launch.administrator import ASK, Administrator
from toolbus.config.launch.patterns import ResolvedLaunch
from toolbus.config.model import BusConfig, ServerConfig
from toolbus.config.secrets.literals import without_literals
from toolbus.config.secrets.redact import shown_url
from toolbus.config.secrets.reference import Reference, masked, parsed
from toolbus.core.text.display import shortened
from toolbus.core.values.errors import ConfigError


def permitted_config(config: BusConfig, administrator: Administrator) -> BusConfig:
    """The config with the administrator's rules, and a mistake for each server that they refuse already."""
    if not administrator.files:
        return config
    servers = {
        alias: server.model_copy(
            update={
                "administrator": administrator,
                "mistake": server.mistake or early_refusal(server, administrator, config.folder),
            }
        )
        for alias, server in config.servers.items()
    }
    return config.model_copy(update={"servers": servers})


def early_refusal(
    config: ServerConfig, administrator: Administrator, folder: Path | None
) -> ConfigError | None:
    """The error if a server is not permitted, as far as that is known before its references are filled in."""
    if config.mistake is not None or not administrator.files:
        return None
    refused = refused_commands(config, administrator, folder)
    if refused is not None or (launch := _literal_launch(config)) is None:
        return refused
    return refused_launch(config, administrator, launch)


def refused_commands(
    config: ServerConfig, administrator: Administrator, folder: Path | None
) -> ConfigError | None:
    """The error if a `${cmd:...}` of a server must not be run."""
    folder = config.folder or folder
    for words in _commands(config) if administrator.files else ():
        refused = refused_command(words, administrator, folder, config.alias)
        if refused is not None:
            return refused
    return None


def refused_command(
    words: Sequence[str], administrator: Administrator, folder: Path | None, server: str | None = None
) -> ConfigError | None:
    """The error if the words of a `${cmd:...}` must not be run."""
    command, *args = words
    here = None if folder is None else str(folder)
    launch = ResolvedLaunch(command=command, args=tuple(args), cwd=here, works_in=working_folder(here))
    return administrator.refusal(launch, f"${{cmd:{command} ...}}", server)


def refused_launch(
    config: ServerConfig, administrator: Administrator, launch: ResolvedLaunch
) -> ConfigError | None:
    """The error if a server must not be started or reached like this."""
    if not administrator.files or config.transport == "memory":
        return None
    return _sandbox_refusal(config, administrator, launch) or administrator.refusal(
        launch, _shown(config), config.alias
    )


def without_sandbox(config: ServerConfig, administrator: Administrator) -> ConfigError | None:
    """That a server has no sandbox, if it needs one."""
    file = administrator.requiring("sandbox")
    if file is None or config.transport != "stdio" or config.sandbox is not None:
        return None
    problem = f"servers have to run in a sandbox; set sandbox: true, or {ASK}"
    return ConfigError(problem, file=file, server=config.alias, key="require")


def _sandbox_refusal(
    config: ServerConfig, administrator: Administrator, launch: ResolvedLaunch
) -> ConfigError | None:
    if config.transport != "stdio" or config.sandbox is None:
        return without_sandbox(config, administrator)
    for one in administrator.files:
        if found := one.sandbox.excess(config.sandbox, launch):
            key, problem = found
            return ConfigError(
                f"{problem}, or {ASK}", file=one.path, server=config.alias, key=f"require.sandbox.{key}"
            )
    return None


def working_folder(cwd: str | None) -> str | None:
    """The folder that a program runs in; None if ours was deleted."""
    try:
        return os.path.realpath(cwd or os.getcwd())
    except OSError:
        return None


def _literal_launch(config: ServerConfig) -> ResolvedLaunch | None:
    """The launch of a server that has no references where they matter; None if it is known only later."""
    url = config.url if config.openapi is None else config.openapi.base_url
    texts = [text for text in (config.command, *config.args, url) if text is not None]
    parts = [parsed(text) for text in texts]
    # Relative to its working directory, which may have references.
    is_relative = "/" in (config.command or "") and not (config.command or "").startswith(("/", "~"))
    if (
        not parts
        or is_relative
        or config.env_file
        or any(isinstance(part, Reference) for text in parts for part in text)
    ):
        return None
    command, *args = ["".join(map(str, text)) for text in parts]
    if url is not None:
        return ResolvedLaunch(url=command)
    return ResolvedLaunch(
        command=command,
        args=tuple(args),
        variables=frozenset(config.env),
        inherits=config.inherit_env != "none",
    )


def _commands(config: ServerConfig) -> Iterator[list[str]]:
    for key, text in config.texts():
        for part in parsed(text, server=config.alias, key=key):
            if isinstance(part, Reference) and part.kind == "cmd":
                yield shlex.split(part.body)


def _shown(config: ServerConfig) -> str:
    url = config.url if config.openapi is None else config.openapi.base_url or config.openapi.document
    if url is not None:
        return shown_url(masked(url))
    texts = without_literals(config)
    words = (text for key, text in texts.items() if key == "command" or key.startswith("args["))
    return shortened(shlex.join(words), 120)
