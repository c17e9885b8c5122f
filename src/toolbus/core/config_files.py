"""The places to look for a config file. Imports next to nothing, because a command may wait for it."""

import os
from collections.abc import Iterator
from pathlib import Path

OWN_NAMES = ("toolbus.yaml", "toolbus.yml", "toolbus.json", "toolbus.toml")
"""Names of a config in the user's config folder."""
FILE_NAMES = (*OWN_NAMES, ".mcp.json", "mcp.json")
"""Names of a config in any other folder; the first that exists is used."""


def named_file() -> Path | None:
    """The file that `$TOOLBUS_CONFIG` names, whether it exists or not; None if it is not set."""
    named = os.environ.get("TOOLBUS_CONFIG")
    return Path(os.path.expanduser(named)) if named else None


def nearest_file(folder: Path) -> Path | None:
    """The nearest config in the folder or above it, else the one in the user's config folder, if any.

    The search ends at the user's home or the file system's root.
    """
    for parent in _upwards(folder):
        if (file := _first(parent, FILE_NAMES)) is not None:
            return file
    own = user_folder()
    return None if own is None else _first(own, OWN_NAMES)


def user_folder() -> Path | None:
    """The user's config folder for toolbus; None without a home."""
    from platformdirs import user_config_dir

    try:
        folder = Path(user_config_dir("toolbus", appauthor=False))
    except RuntimeError:  # there is no home
        return None
    # A relative path would be below the current folder, which may belong to anyone.
    return folder if folder.is_absolute() else None


def located(path: Path) -> Path:
    """The path that stands for a config file, wherever it is named from."""
    # The folder is resolved, but not a link to the file: `.env`, relative paths and programs are looked up
    # beside the link, so a link to a trusted config elsewhere is a different config.
    return Path(os.path.expanduser(path)).absolute().parent.resolve() / path.name


def _first(folder: Path, names: tuple[str, ...]) -> Path | None:
    # False also for an unreadable folder.
    return next((folder / name for name in names if os.path.isfile(folder / name)), None)


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
