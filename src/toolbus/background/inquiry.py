"""Whether a background bus runs: claim to be it, ask it about itself, or tell it to stop."""

import os
import socket
from pathlib import Path
from typing import Any

from toolbus.background.client import running_bus
from toolbus.background.place import BusPlace
from toolbus.background.protocol import Messages, process_of, send
from toolbus.core.values.errors import ToolbusError
from toolbus.state.file_lock import try_lock
from toolbus.state.files import PrivateFolder

ANSWER_WITHIN = 30.0
"""Seconds for an answer; the bus may be busy."""


class NoAnswer(ToolbusError):
    """The background bus does not answer as it should."""

    def __init__(self, place: BusPlace, reason: str) -> None:
        super().__init__(
            f"the background bus for {place.config} {reason}; see its log {place.log}, or end its process"
        )


class Inquiry:
    """A connection to a background bus, for one question."""

    def __init__(self, place: BusPlace, connection: socket.socket) -> None:
        self.place = place
        self._connection = connection

    def __enter__(self) -> "Inquiry":
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def ask(self, what: str) -> dict[str, Any]:
        """Its answer; raises `NoAnswer`."""
        self._connection.settimeout(ANSWER_WITHIN)
        messages = Messages()
        try:
            send(self._connection, {"ask": what})
            while data := self._connection.recv(65536):
                for message in messages.feed(data):
                    return message
        except TimeoutError:
            who = process_of(self._connection).strip()
            raise NoAnswer(self.place, f"{who} did not answer within {ANSWER_WITHIN:g} s".strip()) from None
        except OSError as error:
            raise NoAnswer(self.place, f"ended ({error.strerror})") from None
        raise NoAnswer(self.place, "ended meanwhile")

    def wait_for_end(self, seconds: float) -> bool:
        """Wait until it closes the connection; False if it does not."""
        self._connection.settimeout(seconds)
        try:
            while self._connection.recv(65536):
                pass
        except TimeoutError:
            return False
        except OSError:
            pass
        return True


def open_inquiry(file: Path, profile: str | None = None) -> Inquiry | None:
    """An inquiry to the background bus of a config; None if none runs."""
    found = running_bus(file, profile)
    return None if found is None else Inquiry(*found)


def facts_of(file: Path, profile: str | None = None) -> dict[str, Any] | None:
    """The status of the background bus of a config; None if none runs."""
    inquiry = open_inquiry(file, profile)
    if inquiry is None:
        return None
    with inquiry:
        return inquiry.ask("status")["status"]


class AlreadyRunning(ToolbusError):
    """Another process is the background bus of the config, or is about to be."""

    def __init__(self, place: BusPlace) -> None:
        super().__init__(
            f"another background bus for {place.config} is starting or running; 'toolbus status' shows it"
        )


def claim(place: BusPlace) -> None:
    """Have it until the process ends; raises `AlreadyRunning`, OSError."""
    PrivateFolder(place.lock.parent, protects=True).make_folders(place.lock.name)
    file = os.open(place.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not try_lock(file):
        os.close(file)
        raise AlreadyRunning(place)


def is_claimed(place: BusPlace) -> bool:
    """Whether somebody holds it."""
    try:
        file = os.open(place.lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not try_lock(file)
    finally:
        os.close(file)
