"""Start the process of a background bus, and wait until its servers have started."""

import json
import os
import select
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from toolbus.background.place import BusPlace
from toolbus.cli.output.screen import short_path
from toolbus.core.values.errors import ToolbusError
from toolbus.state.files import PrivateFolder

MAX_LOG = 1 << 20
"""Bytes of a log that the next start goes on with."""
SHOWN_LOG = 2_000


class NotStarted(ToolbusError):
    """The background bus ended when it started."""


def launch(place: BusPlace, named: Path | None, idle: float | None, *, has_console: bool) -> None:
    """Start the process, and wait until it reports; raises `NotStarted`.

    `named` is the config that the user named, and `idle` the seconds without a command after which it ends.
    """
    _prepare_log(place)
    reader, writer = os.pipe()
    with open(reader, "rb") as reports, open(place.log, "ab") as log:
        place.log.chmod(0o600)
        given = {
            "config": None if named is None else str(named),
            "idle": idle,
            "console": has_console,
            "ready": writer,
            "folder": str(place.folder),
            "state": str(place.state),
            "file": str(place.config),
            "profile": place.profile,
        }
        process = subprocess.Popen(
            # -P: nothing of the current folder, which may belong to anyone, is imported.
            [sys.executable, "-P", "-m", "toolbus.background.daemon", json.dumps(given)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=[writer],
        )
        os.close(writer)
        try:
            select.select([reports], [], [])
            text = reports.read()
        except BaseException:  # Ctrl-C
            process.terminate()
            process.wait()
            raise
        answer: dict[str, Any] = json.loads(text or b"{}")
        if "ready" not in answer:
            process.wait()
            raise NotStarted(
                f"the background bus did not start: {answer.get('error') or _last_line(place.log)}; its log "
                f"is {short_path(place.log)}"
            )
        process.returncode = 0  # it goes on without us


def _prepare_log(place: BusPlace) -> None:
    """Make the folder of the log, and put a long log aside."""
    try:
        PrivateFolder(place.state, protects=True).make_folders("background/log")
    except OSError as error:
        raise NotStarted(
            f"the background bus cannot keep its log in {place.log.parent} ({error.strerror}); "
            "set XDG_STATE_HOME to a folder in which you can write"
        ) from None
    with suppress(OSError):
        if place.log.stat().st_size > MAX_LOG:
            place.log.replace(place.log.with_suffix(".old.log"))


def _last_line(log: Path) -> str:
    with open(log, "rb") as file:
        file.seek(max(0, log.stat().st_size - SHOWN_LOG))
        lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it ended at once"
