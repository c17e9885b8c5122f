"""The files behind the `tools` of a config: scripts, each read once to be reviewed, locked and run."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from toolbus.config.script_tools.entry import ScriptEntry
from toolbus.core.files import read_plain
from toolbus.core.text.canonical import digest_of
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON

if TYPE_CHECKING:
    from toolbus.config.model import BusConfig

LARGEST = 1 << 20
"""Bytes of one script."""
DIGEST = "toolbus/script"
"""The key in the `_meta` of a tool with the digest of its script, and of what it may use."""


@dataclass(frozen=True, slots=True)
class ScriptCode:
    """One script that is a tool, with its text."""

    name: str
    entry: ScriptEntry
    text: str

    @property
    def digest(self) -> str:
        """A digest of its text, and of the tools that it may use."""
        text = f"sha256:{sha256(self.text.encode()).hexdigest()}"
        return text if self.entry.uses is None else digest_of({"script": text, "uses": [*self.entry.uses]})

    @property
    def definition(self) -> dict[str, JSON]:
        """The tool as a server would list it."""
        entry = self.entry
        optional: dict[str, JSON] = {
            "title": entry.title,
            "outputSchema": entry.output_schema,
            "annotations": entry.annotations,
        }
        return {
            "name": self.name,
            "description": entry.description,
            "inputSchema": entry.input_schema,
            **{key: value for key, value in optional.items() if value},
            "_meta": {DIGEST: self.digest},
        }


def script_codes(config: "BusConfig") -> tuple[dict[str, ScriptCode], dict[str, ConfigError]]:
    """The scripts of a config by name, and the mistakes of others."""
    found: dict[str, ScriptCode] = {}
    mistakes: dict[str, ConfigError] = {}
    for name, entry in config.tools.items():
        try:
            found[name] = ScriptCode(name, entry, _text(name, entry, _reviewed(entry, config)))
        except ConfigError as error:
            mistakes[name] = error
    return found, mistakes


def script_facts(config: "BusConfig") -> list[JSON]:
    """The scripts of a config with their text, for a person to review; none of a config that it extends."""
    found, mistakes = script_codes(config)
    return [
        {
            "name": name,
            "script": entry.script,
            "uses": None if entry.uses is None else [*entry.uses],
            **({"text": found[name].text} if name in found else {"problem": mistakes[name].problem}),
        }
        for name, entry in config.tools.items()
        if entry.folder == config.folder
    ]


def script_files(config: "BusConfig") -> Iterator[str]:
    """The whole paths of the scripts of a config; none of a config that it extends."""
    yield from (entry.path for entry in config.tools.values() if entry.folder == config.folder)


def _reviewed(entry: ScriptEntry, config: "BusConfig") -> Mapping[str, bytes | None] | None:
    """The files that a person has reviewed; None if nobody has to."""
    return config.reviewed if entry.folder == config.folder else None


def _text(name: str, entry: ScriptEntry, known: Mapping[str, bytes | None] | None) -> str:
    content = _content(name, entry) if known is None else known.get(entry.path)
    if content is None:
        problem = "was not there when you reviewed the config; run 'toolbus trust'"
        raise _error(name, entry, f"{entry.script} {problem}")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _error(name, entry, f"{entry.script} is not text in UTF-8") from None


def _content(name: str, entry: ScriptEntry) -> bytes:
    try:
        return read_plain(Path(entry.path), LARGEST)
    except OSError as error:
        raise _error(name, entry, f"{entry.script} cannot be read: {error.strerror or error}") from None


def _error(name: str, entry: ScriptEntry, problem: str) -> ConfigError:
    return ConfigError(problem, file=entry.file, key=f"tools.{name}.script")
