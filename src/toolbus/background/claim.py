"""The right to be the background bus of a config: one process has it at a time."""

import os

from toolbus.background.place import Place
from toolbus.core.values.errors import ToolbusError
from toolbus.state.file_lock import try_lock
from toolbus.state.files import PrivateFolder


class AlreadyRunning(ToolbusError):
    """Another process is the background bus of the config, or is about to be."""

    def __init__(self, place: Place) -> None:
        super().__init__(
            f"another background bus for {place.config} is starting or running; 'toolbus status' shows it"
        )


def claim(place: Place) -> None:
    """Have it until the process ends; raises `AlreadyRunning`, OSError."""
    PrivateFolder(place.lock.parent, protects=True).make_folders(place.lock.name)
    file = os.open(place.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not try_lock(file):
        os.close(file)
        raise AlreadyRunning(place)


def is_claimed(place: Place) -> bool:
    """Whether somebody holds it."""
    try:
        file = os.open(place.lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not try_lock(file)
    finally:
        os.close(file)
