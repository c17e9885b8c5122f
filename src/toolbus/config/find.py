"""Which config is used when none is given: `$TOOLBUS_CONFIG`, the nearest folder upwards, the user's own."""

import os
from collections.abc import Iterator
from pathlib import Path

from toolbus.config.model import BusConfig
from toolbus.core.errors import ConfigError

OWN_NAMES = ("toolbus.yaml", "toolbus.yml", "toolbus.json", "toolbus.toml")
"""What a config may be called in the user's config folder."""
FILE_NAMES = (*OWN_NAMES, ".mcp.json", "mcp.json")
"""Where a config is looked for in any other folder; the first that exists is taken."""


def named_config() -> Path | None:
    """The file that `$TOOLBUS_CONFIG` names, if it is set; ConfigError if there is no such file."""
    if not (named := os.environ.get("TOOLBUS_CONFIG")):
        return None
    path = Path(named).expanduser()
    if not path.is_file():
        raise ConfigError("no such file; correct or unset $TOOLBUS_CONFIG", file=str(path))
    return path


def find_config(folder: Path | None = None) -> Path:
    """The config to use: `$TOOLBUS_CONFIG`, else the nearest one in the folder, by default cwd, or above it.

    The user's home, or the root of the file system, is the last folder above. If there is none in any of
    them, it is the one in the user's config folder.
    """
    if (named := named_config()) is not None:
        return named
    folder = Path.cwd() if folder is None else folder
    own = user_folder()
    places = [(place, FILE_NAMES) for place in _upwards(folder)] + ([(own, OWN_NAMES)] if own else [])
    for place, names in places:
        for name in names:
            if os.path.isfile(place / name):  # False also for a folder that may not be searched
                return place / name
    looked = ", ".join(("$TOOLBUS_CONFIG", *FILE_NAMES))
    where = f"{str(folder)!r} or above" + (f", nor in {str(own)!r}" if own else "")
    raise ConfigError(f"no config in {where}: looked for {looked}; create toolbus.yaml or name a file")


def user_folder() -> Path | None:
    """The user's config folder for toolbus; None without a home."""
    from platformdirs import user_config_dir

    folder = Path(user_config_dir("toolbus", appauthor=False))
    # A relative one would be below the current folder, which may be anybody's.
    return folder if folder.is_absolute() else None


def is_own(folder: Path) -> bool:
    """Whether that is the user's config folder: nobody else has put a config there."""
    own = user_folder()
    return own is not None and folder.resolve() == own.resolve()


def with_config_cwd(config: BusConfig) -> BusConfig:
    """The config, found in a folder above, with programs that start where it is and not where we are.

    They would otherwise find other files in each folder below. A config in the user's own folder is for
    programs that work in the current one.
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
    """The folder and those above it; the user's home is the last."""
    try:
        home = Path.home().resolve()
    except RuntimeError:
        home = None
    for place in (folder, *folder.absolute().parents):
        yield place
        if place.resolve() == home:
            return
