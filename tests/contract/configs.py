"""Messages about wrong configs, and the values of right ones.

The cases are the keys of the recordings: a config in the flow style of YAML, or the name and the text of a
file. To add a case, add a line with the value null and run `python -m tests.contract configs config_files`.
"""

import json
import re
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract.recording import file_of
from toolbus.config import load_config
from toolbus.errors import ToolbusError

HOME = "/users/ann"


def recorded() -> dict[str, Any]:
    """The outcome of each config."""
    with _folder() as folder:
        return {case: outcome(yaml.load(case, yaml.CSafeLoader), folder) for case in _cases("configs")}


def recorded_files() -> dict[str, Any]:
    """The outcome of each file; the first line of a case is the name of the file."""
    found: dict[str, Any] = {}
    with _folder() as folder:
        for case in _cases("config_files"):
            name, _, text = case.partition("\n")
            path = folder / name
            path.write_text(text, encoding="utf-8")
            found[case] = outcome(path, folder)
            path.unlink()
    return found


def case_of(config: Any) -> str:
    """The key of a config."""
    return yaml.dump(
        config, Dumper=yaml.SafeDumper, default_flow_style=True, width=10**6, sort_keys=False
    ).strip()


@contextmanager
def _folder() -> Generator[Path]:
    """An empty folder to be in; the home folder is the same on every machine."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        place = Path(folder, "project")
        place.mkdir()
        patch.chdir(place)
        patch.setenv("HOME", HOME)
        for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
            patch.delenv(name, raising=False)
        yield place


def outcome(source: Any, folder: Path) -> Any:
    """The message about a config, with what it is about, or its values other than defaults."""
    try:
        config = load_config(source)
    except ToolbusError as error:
        message = re.sub(r"(not valid [A-Z]+: ).*", r"\1REASON", str(error))  # which Python words as it likes
        return f"{type(error).__name__}: {_without_folder(message, folder)}"
    values = config.model_dump(mode="json", exclude_defaults=True, exclude={"file", "folder"})
    warnings = {alias: list(server.warnings) for alias, server in config.servers.items() if server.warnings}
    shown = {**values, **({"warnings": warnings} if warnings else {})}
    return json.loads(_without_folder(json.dumps(shown), folder))


def _without_folder(text: str, folder: Path) -> str:
    return text.replace(str(folder), "FOLDER").replace(str(folder.parent), "PARENT")


def _cases(part: str) -> Mapping[str, Any]:
    return json.loads(file_of(part).read_text(encoding="utf-8"))
