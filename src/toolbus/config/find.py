"""Find the config when none is given: `$TOOLBUS_CONFIG`, the nearest folder upwards, the user's own."""

from pathlib import Path

from toolbus.config.model import BusConfig
from toolbus.core.files import FILE_NAMES, named_file, nearest_file, user_folder
from toolbus.core.values.errors import ConfigError


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
