"""Find the config when none is given, and the project files that it refers to.

Project files are `.env`, dotenv files, `${file:...}`, certificates and the modules of `hooks`. Relative
paths, and all paths below the config's folder, belong to the project. Others belong to the user.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from toolbus.config.model import BusConfig, ServerConfig
from toolbus.config.script_tools.files import script_files
from toolbus.config.secrets.reference import Reference, parsed
from toolbus.config.stations import local_files
from toolbus.core.files import FILE_NAMES, LOCAL, OWN_NAMES, named_file, nearest_file, read_plain, user_folder
from toolbus.core.values.errors import ConfigError

_LARGEST_INDEX = 64 << 20


def named_config() -> Path | None:
    """The file that `$TOOLBUS_CONFIG` names, if it is set; ConfigError if there is no such file."""
    path = named_file()
    if path is not None and not path.is_file():
        raise ConfigError("no such file; correct or unset $TOOLBUS_CONFIG", file=str(path))
    return path


def find_config(folder: Path | None = None) -> Path:
    """The config to use: `$TOOLBUS_CONFIG`, else the nearest one in the folder, by default cwd, or above it.

    The search ends at the user's home or the file system's root, then tries the user's config folder.
    """
    folder = Path.cwd() if folder is None else folder
    if (found := named_config() or nearest_file(folder)) is not None:
        return found
    own = user_folder()
    looked = ", ".join(("$TOOLBUS_CONFIG", *FILE_NAMES))
    where = f"{str(folder)!r} or above" + (f", nor in {str(own)!r}" if own else "")
    raise ConfigError(f"no config in {where}: looked for {looked}; create toolbus.yaml or name a file")


def is_own(folder: Path) -> bool:
    """Whether that is the user's own config folder."""
    own = user_folder()
    return own is not None and folder.resolve() == own.resolve()


def local_beside(path: Path) -> Path | None:
    """The local file beside a config, if there is one; it has none itself.

    ConfigError if somebody else made it, such as in `/tmp`: nobody names it, and it decides what runs.
    """
    local = path.with_name(LOCAL)
    if path.name == LOCAL or not local.is_file():
        return None
    if hasattr(os, "geteuid") and not {local.lstat().st_uid, local.stat().st_uid} <= _owners(path):
        problem = "belongs to another user than the config beside it; remove it, or use a config elsewhere"
        raise ConfigError(problem, file=str(local))
    return local


def _owners(path: Path) -> set[int]:
    """The users who decide what a config does: its own, this one and root."""
    with suppress(OSError):
        return {path.stat().st_uid, os.geteuid(), 0}
    return {os.geteuid(), 0}


def base_of(path: Path) -> Path:
    """The config that a local file belongs to; any other path is returned unchanged."""
    if path.name != LOCAL:
        return path
    beside = (path.with_name(name) for name in FILE_NAMES)
    return next((base for base in beside if base.is_file()), path)


def user_config_file() -> Path | None:
    """Your own config, if there is one."""
    own = [] if (folder := user_folder()) is None else [folder / name for name in OWN_NAMES]
    return next((path for path in own if path.is_file()), None)


def layer_files(config: BusConfig) -> list[Path]:
    """The files that a config consists of, or would if they existed."""
    files = [] if config.file is None else [Path(config.file), Path(config.file).with_name(LOCAL)]
    if config.extends is None:
        return files
    if config.user is not None:
        return [*files, *layer_files(config.user)]
    return files if (folder := user_folder()) is None else [*files, *(folder / name for name in OWN_NAMES)]


def from_home(path: str | None) -> str:
    """The path of a file, with `~` for the user's home."""
    home, shown = os.path.expanduser("~"), path or ""
    return f"~{shown.removeprefix(home)}" if shown.startswith(home + os.sep) else shown


def tracked_local(config: BusConfig) -> str | None:
    """A warning if git tracks the local file; its index is read, because git itself may run programs."""
    local = None if config.file is None else local_beside(Path(config.file).absolute())
    root = None if local is None else next((one for one in local.parents if (one / ".git").is_dir()), None)
    if local is None or root is None:
        return None
    try:
        index = read_plain(root / ".git" / "index", _LARGEST_INDEX)
    except OSError:
        return None
    if local.relative_to(root).as_posix().encode() + b"\0" not in index:
        return None
    return f"git tracks {LOCAL}, which is for one person: git rm --cached {LOCAL}, and add it to .gitignore"


def with_config_cwd(config: BusConfig) -> BusConfig:
    """The config with its folder as the default `cwd` of its programs.

    Otherwise they would find different files in each subfolder. Programs of a config in the user's own
    config folder still run in the current one.
    """
    folder = config.folder
    if folder is None or folder.resolve() == Path.cwd() or is_own(folder):
        return config
    here = str(folder).replace("${", "$${")
    servers = {
        alias: server.model_copy(update={"cwd": here})
        if server.command is not None and server.cwd is None and server.folder is None
        else server
        for alias, server in config.servers.items()
    }
    return config.model_copy(update={"servers": servers})


Contents: TypeAlias = Mapping[str, bytes | None]
"""Files by absolute path; None is a file that did not exist."""

DOTENV = ".env"
LARGEST = 16 << 20
"""Bytes of a file that a config refers to."""


def project_path(path: str, folder: Path) -> str | None:
    """The absolute path of a file that belongs to the project in that folder; None for any other file."""
    expanded = os.path.expanduser(path)
    located = os.path.normpath(os.path.join(folder, expanded))
    inside = Path(os.path.realpath(located)).is_relative_to(os.path.realpath(folder))
    return located if inside or not os.path.isabs(expanded) else None


def project_files(config: BusConfig, known: Contents | None = None) -> dict[str, bytes | None]:
    """The contents of the project files that using the config would read; `known` ones are not read again."""
    if config.folder is None:
        return {}
    paths = (project_path(path, config.folder) for path in _paths(config, config.folder))
    known = known or {}
    return {path: known[path] if path in known else _content(path) for path in paths if path is not None}


def env_file_path(server: ServerConfig, folder: Path) -> str | None:
    """The dotenv file of a server, if it belongs to the project and its path is known already.

    A path with other references cannot be reviewed. If it turns out to be in the project, it is not read.
    """
    here = Reference("name", "workspaceFolder")
    parts = [str(folder) if part == here else part for part in parsed(server.env_file or "")]
    if not parts or any(isinstance(part, Reference) for part in parts):
        return None
    return project_path("".join(map(str, parts)), folder)


def _paths(config: BusConfig, folder: Path) -> Iterator[str]:
    yield DOTENV
    servers = [server for server in config.servers.values() if server.folder is None]
    for user in (*servers, config):
        for _, text in user.texts():
            for part in parsed(text):
                if isinstance(part, Reference) and part.kind == "file":
                    yield part.body
    for entry in config.hooks:
        # Relative, so that a link that leads out of the folder is reviewed as well.
        yield from (os.path.relpath(path, folder) for path in local_files(entry))
    yield from (os.path.relpath(path, folder) for path in script_files(config))
    for server in servers:
        if (path := env_file_path(server, folder)) is not None:
            yield path
        yield from (
            path for path in (server.verify, server.client_cert, server.client_key) if isinstance(path, str)
        )


def _content(path: str) -> bytes | None:
    try:
        return read_plain(Path(path), LARGEST)
    except OSError:
        return None
