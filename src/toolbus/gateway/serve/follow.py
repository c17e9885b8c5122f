"""Detect that the config of a running command has changed, and read it again."""

from pathlib import Path
from typing import TypeAlias

from toolbus.config import BusConfig, usable_config
from toolbus.config.trust import trusted_config, watched_files
from toolbus.lock.file import lock_path

Stamps: TypeAlias = dict[Path, tuple[int, int] | None]
"""Modification time and size of each file; None if it is not there."""


def file_stamps(config: BusConfig) -> Stamps:
    """The stamps of all files that affect the config, and of its lockfile."""
    lock = [] if config.file is None else [lock_path(config.file)]
    return {file: _stamp(file) for file in [*watched_files(config), *lock]}


def stamps_at_start(config: BusConfig, began: int) -> Stamps:
    """The stamps of the files as they were read; `began` is the time before that, in nanoseconds."""
    # A file written since we began may have been read before the write: it counts as changed.
    read = {Path(config.file or ""), *map(Path, config.reviewed or ())}
    return {
        file: None if file in read and stamp is not None and stamp[0] >= began else stamp
        for file, stamp in file_stamps(config).items()
    }


def read_again(config: BusConfig) -> BusConfig:
    """The config as it is now; ConfigError if it cannot be used.

    If it was found, not named, it must be trusted again first: `toolbus trust`.
    """
    file = Path(config.file or "")
    return usable_config(file) if config.reviewed is None else trusted_config(file)


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        return (file.stat().st_mtime_ns, file.stat().st_size)
    except OSError:
        return None  # an editor may be replacing it
