"""An observer: appends a line about every operation to a file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolbus import Operation, ToolResult


class CallLog:
    def __init__(self, file: str) -> None:
        self._file = Path(file)

    def start(self, operation: Operation) -> "LoggedCall":
        return LoggedCall(self._file, operation.spec.name)


@dataclass
class LoggedCall:
    file: Path
    name: str
    ignores_progress = True

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Never called, because this observer ignores progress."""

    def end(self, result: ToolResult | None, failure: Any) -> None:
        with self.file.open("a") as log:
            print(self.name, "ok" if failure is None else failure.reason, file=log)
