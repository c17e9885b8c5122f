"""`toolbus init`: write a config to start from, and its JSON Schema for editors."""

import json
import os.path
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from toolbus.cli.command import CommandResult, Invocation, command
from toolbus.cli.errors import Usage
from toolbus.cli.input.trust import trust_written
from toolbus.cli.output.screen import short_path
from toolbus.config.editing.save import save_in_project
from toolbus.config.editing.yaml_json import TEMPLATE
from toolbus.config.schema import config_schema
from toolbus.core.files import FILE_NAMES, LOCAL
from toolbus.lock.file import LOCAL_NAME

SCHEMA = "toolbus.schema.json"
"""Written beside the config, which refers to it: a relative path works on every machine."""


@command
def init(
    own: Invocation,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Overwrite an existing file.")] = False,
    force: Annotated[bool, typer.Option("--force", hidden=True)] = False,  # the old name
) -> CommandResult:
    """Create a commented toolbus.yaml in this folder."""
    screen = own.screen
    path = own.settings.config or Path("toolbus.yaml")
    if path.suffix not in (".yaml", ".yml"):
        raise Usage(f"{str(path)!r}: not a YAML file; pass a .yaml file with --config")
    if path.exists() and not (yes or force):
        raise Usage(f"{str(path)!r} already exists; overwrite it with --yes")
    if not path.parent.is_dir():
        raise Usage(f"the folder {str(path.parent)!r} does not exist; create it first")
    schema = path.with_name(SCHEMA)
    content = TEMPLATE.replace("command: python\n", f"command: {_python()}\n").encode()
    save_in_project(schema, f"{json.dumps(config_schema(), indent=2)}\n".encode())
    save_in_project(path, content)
    trusted = trust_written(screen, path, content)
    ignored = _ignore_local(path.absolute().parent)

    def lines() -> None:
        screen.line(f"wrote {path}, and {schema} for your editor; next: toolbus tools")
        if ignored is not None:
            screen.note(f"added {LOCAL}, your own settings beside it, to {short_path(ignored)}")
        others = [name for name in FILE_NAMES if name != path.name and (path.parent / name).is_file()]
        if others and own.settings.config is None:
            screen.note(f"{', '.join(others)} is now ignored, because {path} takes precedence")

    return CommandResult({"written": str(path), "schema": str(schema), "trusted": trusted}, lines)


def _ignore_local(folder: Path) -> Path | None:
    """Add the local file and its lock to `.gitignore` of a git repository; None if nothing changed."""
    if not any((parent / ".git").exists() for parent in (folder, *folder.parents)):
        return None
    file = folder / ".gitignore"
    text = file.read_text(encoding="utf-8", errors="surrogateescape") if file.is_file() else ""
    wanted = [name for name in (LOCAL, LOCAL_NAME) if name not in text.splitlines()]
    if not wanted:
        return None
    start = text if not text or text.endswith("\n") else f"{text}\n"
    content = start + "".join(f"{name}\n" for name in wanted)
    save_in_project(file, content.encode("utf-8", errors="surrogateescape"))
    return file


def _python() -> str:
    """The interpreter that runs toolbus; `python` if that is the one on PATH."""
    found = shutil.which("python")
    same = found is not None and os.path.dirname(found) == os.path.dirname(sys.executable)
    return "python" if same else json.dumps(sys.executable)
