"""`toolbus init`: write a config to start from, and its JSON Schema for editors."""

import json
import os.path
import shutil
import sys
from pathlib import Path

from toolbus.cli.commands.safety.trust import trust_written
from toolbus.cli.errors import Usage
from toolbus.cli.options import SharedOptions
from toolbus.cli.output.screen import Screen
from toolbus.config.editing.save import save_in_project
from toolbus.config.editing.yaml_text import TEMPLATE
from toolbus.config.schema import config_schema
from toolbus.core.files import FILE_NAMES

SCHEMA = "toolbus.schema.json"
"""Written beside the config, which refers to it: a relative path works on every machine."""


def run(settings: SharedOptions, *, force: bool) -> int:
    """Write `toolbus.yaml`, or the file that `--config` names."""
    screen = Screen(settings)
    path = settings.config or Path("toolbus.yaml")
    if path.suffix not in (".yaml", ".yml"):
        raise Usage(f"{str(path)!r}: not a YAML file; pass a .yaml file with --config")
    if path.exists() and not force:
        raise Usage(f"{str(path)!r} already exists; overwrite it with --force")
    if not path.parent.is_dir():
        raise Usage(f"the folder {str(path.parent)!r} does not exist; create it first")
    schema = path.with_name(SCHEMA)
    content = TEMPLATE.replace("command: python\n", f"command: {_python()}\n").encode()
    save_in_project(schema, f"{json.dumps(config_schema(), indent=2)}\n".encode())
    save_in_project(path, content)
    trusted = trust_written(screen, path, content)
    if screen.as_json:
        screen.json({"written": str(path), "schema": str(schema), "trusted": trusted})
        return 0
    screen.print(f"wrote {path}, and {schema} for your editor; next: toolbus tools")
    others = [name for name in FILE_NAMES if name != path.name and (path.parent / name).is_file()]
    if others and settings.config is None:
        screen.note(f"{', '.join(others)} is now ignored, because {path} takes precedence")
    return 0


def _python() -> str:
    """The interpreter that runs toolbus; `python` if that is the one on PATH."""
    found = shutil.which("python")
    same = found is not None and os.path.dirname(found) == os.path.dirname(sys.executable)
    return "python" if same else json.dumps(sys.executable)
