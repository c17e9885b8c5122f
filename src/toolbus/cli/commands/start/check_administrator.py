"""The part of `toolbus check` about the administrator's `policy.yaml`."""

import os
from collections.abc import Sequence

from rich.text import Text

from toolbus.cli.output.screen import Screen, one_line
from toolbus.config.launch.administrator import FILE_NAME, Administrator
from toolbus.core.values.errors import ConfigError, ToolbusError
from toolbus.core.values.records import JSON


def is_refusal(error: ToolbusError | None) -> bool:
    """Whether that is why the administrator does not permit a server."""
    return isinstance(error, ConfigError) and os.path.basename(error.file or "") == FILE_NAME


def administrator_json(administrator: Administrator, refused: Sequence[str]) -> dict[str, JSON]:
    """What `--json` shows; empty if there is no file."""
    if not administrator.files and not administrator.ignored:
        return {}
    ignored = [{"file": one.path, "reason": one.reason, "fix": one.fix} for one in administrator.ignored]
    files = [file.path for file in administrator.files]
    return {"administrator": {"files": files, "ignored": ignored, "refused": list(refused)}}


def print_administrator(screen: Screen, administrator: Administrator, refused: Sequence[str]) -> None:
    """Print which files there are, whether they count, and which servers they refuse."""
    if not administrator.files and not administrator.ignored:
        return
    screen.print(Text("administrator", style="bold"))
    rows = [[Text("rules", style="dim"), Text(one_line(file.path))] for file in administrator.files]
    if refused:
        rows.append([Text("refused", style="red"), Text(one_line(", ".join(refused)))])
    for one in administrator.ignored:
        label, message = Text("warning", style="yellow"), f"{one.path} is not used: {one.reason}"
        rows.append([label, Text(one_line(message), style="yellow")])
        rows.append([Text("next step", style="bold"), Text(f"to make it count: {one.fix}")])
    screen.rows(rows, max_lines=None)
