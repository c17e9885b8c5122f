"""The process of a background bus, which `toolbus up` starts: `python -m toolbus.background.daemon`.

Its only argument is JSON: the named `config`, `idle`, `console`, and the descriptor `ready`. It reports there
once that it has started, or why not.
"""

import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from toolbus.background.place import BusPlace
from toolbus.background.server import Start, run_here
from toolbus.cli.command import Invocation
from toolbus.cli.errors import report
from toolbus.cli.options import SharedOptions, repeat_config
from toolbus.cli.output.json_log import use_log_format
from toolbus.cli.output.serve_log import serve_program


def main() -> int:
    """Run it; returns the exit code."""
    began = time.time_ns()
    given: dict[str, Any] = json.loads(sys.argv[1])
    named = None if given["config"] is None else Path(given["config"])
    profile: str | None = given["profile"]
    own = Invocation(SharedOptions(config=named, profile=profile))
    place = BusPlace(Path(given["folder"]), Path(given["state"]), Path(given["file"]), profile)
    repeat_config(named)
    report_to = _ReportOnce(int(given["ready"]))
    try:
        use_log_format(None)
        start = Start(
            place=place,
            config=own.config,
            idle=given["idle"],
            has_console=given["console"],
            began=began,
        )
        return run_here(start, serve_program(own.screen), lambda _: report_to({"ready": True}))
    except Exception as error:  # top of the process: `up` reports it
        code = report(error, as_json=False)
        report_to({"error": str(error), "code": code})
        return code


class _ReportOnce:
    """Reports to `up`, which waits for it, and may have gone."""

    def __init__(self, ready: int) -> None:
        os.set_inheritable(ready, False)
        self._ready: int | None = ready

    def __call__(self, message: dict[str, Any]) -> None:
        if self._ready is None:
            return
        with suppress(OSError):
            os.write(self._ready, json.dumps(message).encode())
        os.close(self._ready)
        self._ready = None


if __name__ == "__main__":
    sys.exit(main())
