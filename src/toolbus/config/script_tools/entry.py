"""The `tools` of a config: scripts that are offered as tools, each with its description and its arguments.

A script is code that the owner of the config trusts. Nothing here reads or runs one.
"""

import os.path
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from toolbus.config.base import ConfigModel, Names, Seconds, Text
from toolbus.config.location import Location, is_list, is_mapping, near_miss
from toolbus.config.settings.override import ToolHints
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON

SCRIPTS = "tools"
"""The alias under which the scripts of a config are one server: `tools/release_notes`."""
TYPES: Mapping[str, Mapping[str, JSON]] = {
    "string": {"type": "string"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "object": {"type": "object"},
    "list": {"type": "array"},
    "date": {"type": "string", "format": "date"},
    "datetime": {"type": "string", "format": "date-time"},
    "any": {},
}
"""The words of the short form, with the schema that each stands for."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_OPTIONAL = "optional "
_TYPE_EXPECTED = f"expected one of {', '.join(TYPES)}, perhaps after 'optional', or a JSON Schema"


class ScriptEntry(ConfigModel):
    """A script that is offered as a tool."""

    _expects = {
        "input": "expected a mapping of arguments to types, or a JSON Schema",
        "output": "expected a mapping of keys to types, or a JSON Schema",
        "uses": "expected a list of patterns, such as [github/*, notes/search]",
    }
    _expected = "expected {script: FILE, description: ..., input: {...}}"

    script: Text
    """The Python file, relative to the config's folder."""
    description: Text
    """The description of the tool, for the model."""
    title: str | None = None
    """The name of the tool for people."""
    input: dict[str, object] = {}
    """The arguments: types such as `{repo: string, since: optional date}`, or a JSON Schema."""
    output: dict[str, object] | None = None
    """The keys of the result, in the same form; the result is checked."""
    uses: Names | None = None
    """Globs on `server/tool`: what its steps may call; by default every tool in the catalog of the bus."""
    hints: ToolHints = Field(default_factory=ToolHints)
    """Hints about the tool, for policies and approvals."""
    timeout: Seconds | None = None
    """Seconds for the whole script, without those in which a person is asked."""
    file: str | None = Field(default=None, exclude=True, repr=False)
    """The file of the entry."""
    folder: Path | None = Field(default=None, exclude=True, repr=False)
    """The folder of that file."""

    def _check(self) -> None:
        for key, form in (("input", self.input), ("output", self.output)):
            try:
                _ = {} if form is None else object_schema(form)
            except ConfigError as error:
                raise Location().error(error.problem, f"{key}.{error.key}") from None

    def within(self, file: str | None, folder: Path | None) -> "ScriptEntry":
        """The same in that file, unless it is from another one."""
        return self if self.folder is not None else self.model_copy(update={"file": file, "folder": folder})

    @property
    def path(self) -> str:
        """Its file, as a whole path."""
        return os.path.normpath(os.path.join(self.folder or "", os.path.expanduser(self.script)))

    @property
    def input_schema(self) -> dict[str, JSON]:
        """The schema of its arguments."""
        return object_schema(self.input)

    @property
    def output_schema(self) -> dict[str, JSON] | None:
        """The schema of its result, if the config has one."""
        return None if self.output is None else object_schema(self.output)

    @property
    def annotations(self) -> dict[str, JSON]:
        """Its hints, as MCP has them."""
        given = self.hints.model_dump(exclude_unset=True, exclude_none=True)
        return {_ANNOTATIONS[name]: value for name, value in given.items()}


_ANNOTATIONS = {
    "read_only": "readOnlyHint",
    "destructive": "destructiveHint",
    "idempotent": "idempotentHint",
    "open_world": "openWorldHint",
}


@dataclass(frozen=True, slots=True)
class ScriptEntries:
    """Stands for the server of a config's scripts until their files are read."""

    entries: tuple[tuple[str, ScriptEntry], ...]
    """The entries by name."""


def has_scripts(server: object) -> bool:
    """Whether the `server` of a config is one of scripts, which the config has in `tools`."""
    return isinstance(server, ScriptEntries)


def object_schema(form: Mapping[str, JSON]) -> dict[str, JSON]:
    """The JSON Schema of an object in the short form; a whole schema stays as it is."""
    if form.get("type") == "object" and (is_mapping(form.get("properties")) or len(form) == 1):
        return dict(form)
    properties: dict[str, JSON] = {}
    required: list[str] = []
    for name, value in form.items():
        properties[name], is_optional = _value_schema(name, value)
        if not is_optional:
            required.append(name)
    more: dict[str, JSON] = {"required": required} if required else {}
    return {"type": "object", "properties": properties, **more, "additionalProperties": False}


def _value_schema(name: str, value: JSON) -> tuple[dict[str, JSON], bool]:
    """The schema of one value, and whether it is optional."""
    if isinstance(value, str):
        word = value.removeprefix(_OPTIONAL).strip()
        if word not in TYPES:
            raise ConfigError(f"{_TYPE_EXPECTED}{near_miss(word, TYPES)}", key=name)
        return dict(TYPES[word]), value.startswith(_OPTIONAL)
    if is_list(value) and len(value) == 1:
        items, _ = _value_schema(name, value[0])
        return {"type": "array", "items": items}, False
    if is_mapping(value):
        schema = {str(key): one for key, one in value.items()}
        kind = schema.get("type")
        if isinstance(kind, str) and kind.removeprefix(_OPTIONAL).strip() in TYPES:
            short, is_optional = _value_schema(name, kind)
            return {**schema, **short}, is_optional or "default" in schema
        return schema, "default" in schema
    raise ConfigError(_TYPE_EXPECTED, key=name)


def check_names(entries: Mapping[str, ScriptEntry]) -> Mapping[str, ScriptEntry]:
    """ConfigError for a name that no provider accepts."""
    for name in entries:
        if not _NAME.fullmatch(name):
            problem = "is no name for a tool: use letters, digits, _ and -, at most 64 of them"
            raise ConfigError(problem, key=name)
    return entries
