"""Rejected changes: they stay on hold, and nobody is asked about them again until they change.

The rejections of one config file are in a file of the state folder, by the digests of the changes.
A file that cannot be read rejects nothing, so that a person is asked once more.
"""

import json
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from toolbus.core.values.errors import ToolbusError
from toolbus.state.files import config_place, state_folder
from toolbus.state.values import DocumentForm, PrivateValues, Records

logger = logging.getLogger("toolbus")
KIND = "rejection"
MOST = 10_000
"""Rejections that are kept; the oldest give way."""


class NotRejected(ToolbusError):
    """A rejection could not be saved in the user's state folder."""

    def __init__(self, error: Exception) -> None:
        reason = (error.strerror or type(error).__name__) if isinstance(error, OSError) else str(error)
        super().__init__(f"cannot save the rejection: {reason}; check the state folder of toolbus")


class Rejections:
    """The rejections of the config in use."""

    def __init__(self, config_file: Callable[[], str | Path | None]) -> None:
        self._config_file = config_file
        self._file: str | Path | None = None
        self._values: PrivateValues | None = None
        self._records: Records[float] | None = None

    @property
    def all(self) -> Mapping[str, float]:
        """The time of each rejection, by digest."""
        try:
            return {} if (opened := self._opened()) is None else opened[1].all()
        except (OSError, ValueError) as error:
            logger.info("rejected changes are shown again: %s", error)
            return {}

    def add(self, digest: str, label: str) -> None:
        """Keep a rejection; `label` says in the file what it is about."""
        opened = self._opened()
        if opened is None:
            return
        values, known = opened[0], self.all
        try:
            for old in sorted(known, key=lambda one: known[one])[: max(0, len(known) + 1 - MOST)]:
                values.wait(values.remove(KIND, old))
            values.wait(values.put(KIND, digest, json.dumps({"about": label, "time": time.time()}).encode()))
        except (OSError, ValueError) as error:
            raise NotRejected(error) from error

    def remove(self, digest: str) -> None:
        opened = self._opened()
        if opened is None:
            return
        try:
            opened[0].wait(opened[0].remove(KIND, digest))
        except (OSError, ValueError) as error:
            raise NotRejected(error) from error

    def _opened(self) -> tuple[PrivateValues, Records[float]] | None:
        """The values of the config in use; None without a file, beside which there is no lock either."""
        file = self._config_file()
        if file is None:
            return None
        if self._values is None or self._records is None or file != self._file:
            form = DocumentForm(path=f"rejected/{config_place(file)[1]}.json", is_replaceable=True)
            self._file, self._values = file, PrivateValues(state_folder, {KIND: form})
            self._records = Records(self._values, KIND, _time_of)
        return self._values, self._records


def _time_of(stored: Mapping[str, Any]) -> float:
    return float(stored["time"])
