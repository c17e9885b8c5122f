"""Find the config when none is given: `$TOOLBUS_CONFIG`, the nearest folder upwards, the user's own."""

import os
from collections.abc import Iterator
from pathlib import Path

from toolbus.config.model import BusConfig
from toolbus.core.errors import ConfigError

OWN_NAMES = ("toolbus.yaml", "toolbus.yml", "toolbus.json", "toolbus.toml")
"""Names of a config in the user's config folder."""
FILE_NAMES = (*OWN_NAMES, ".mcp.json", "mcp.json")
"""Names of a config in any other folder; the first that exists is used."""


def named_config() -> Path | None:
    """The file that `$TOOLBUS_CONFIG` names, if it is set; ConfigError if there is no such file."""
    if not (named := os.environ.get("TOOLBUS_CONFIG")):
        return None
    path = Path(os.path.expanduser(named))
    if not path.is_file():
        raise ConfigError("no such file; correct or unset $TOOLBUS_CONFIG", file=str(path))
    return path


def find_config(folder: Path | None = None) -> Path:
    """The config to use: `$TOOLBUS_CONFIG`, else the nearest one in the folder, by default cwd, or above it.

    The search ends at the user's home or the file system's root, then tries the user's config folder.
    """
    if (named := named_config()) is not None:
        return named
    folder = Path.cwd() if folder is None else folder
    own = user_folder()
    searched = [(parent, FILE_NAMES) for parent in _upwards(folder)] + ([(own, OWN_NAMES)] if own else [])
    for parent, names in searched:
        for name in names:
            if os.path.isfile(parent / name):  # False also for an unreadable folder
                return parent / name
    looked = ", ".join(("$TOOLBUS_CONFIG", *FILE_NAMES))
    where = f"{str(folder)!r} or above" + (f", nor in {str(own)!r}" if own else "")
    raise ConfigError(f"no config in {where}: looked for {looked}; create toolbus.yaml or name a file")


def user_folder() -> Path | None:
    """The user's config folder for toolbus; None without a home."""
    from platformdirs import user_config_dir

    try:
        folder = Path(user_config_dir("toolbus", appauthor=False))
    except RuntimeError:  # there is no home
        return None
    # A relative path would be below the current folder, which may belong to anyone.
    return folder if folder.is_absolute() else None


def is_own(folder: Path) -> bool:
    """Whether that is the user's own config folder."""
    own = user_folder()
    return own is not None and folder.resolve() == own.resolve()


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
        if server.command is not None and server.cwd is None
        else server
        for alias, server in config.servers.items()
    }
    return config.model_copy(update={"servers": servers})


def _upwards(folder: Path) -> Iterator[Path]:
    """The folder and its parents, up to the user's home."""
    try:
        home = Path.home().resolve()
    except RuntimeError:
        home = None
    for parent in (folder, *folder.absolute().parents):
        yield parent
        if parent.resolve() == home:
            return
