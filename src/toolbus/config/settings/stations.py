"""The `hooks` of a config: which stations of the user stand on the call path, and their options.

An entry is code, like the command of a server. Nothing here imports any of it.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import Field, Strict, WithJsonSchema, model_serializer

from toolbus.config.base import ConfigModel, within
from toolbus.config.location import Location, is_list, is_mapping
from toolbus.config.secrets.redact import ISSUED_KEY, names_credential
from toolbus.config.secrets.reference import MASK, Reference, parsed
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON

_EXAMPLE = "write mypackage.redact:Hook, or the name of an entry point"
_DOTTED = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"
_USE = re.compile(rf"{_DOTTED}:{_DOTTED}", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?", re.ASCII)
_PASSWORD = re.compile(r"(://[^/?#@\s:]*:)(?!\$\{)[^/?#@\s]+@")
_DEFAULT = re.compile(r"(\$\{[^}]*?:-)[^}]*\}")


class StationEntry(ConfigModel):
    """One station of the user: the code that it is, and the options that it is made with."""

    _expected = f"expected a text, or a mapping with use; {_EXAMPLE}"
    _missing = f"is missing; {_EXAMPLE}"
    _keeps_null = True

    use: str
    """`module:name`, or the name of an entry point of the group `toolbus.stations`."""
    options: dict[str, object] = {}
    """The other keys of the entry."""
    file: str | None = Field(default=None, exclude=True, repr=False)
    """The file of the entry."""
    line: int | None = Field(default=None, exclude=True, repr=False)
    """Its line there, if that is known."""
    index: int = Field(default=0, exclude=True, repr=False)
    """Its place in the list of that file."""
    folder: Path | None = Field(default=None, exclude=True, repr=False)
    """The folder of that file."""

    @classmethod
    def _from_file(cls, value: JSON) -> dict[str, JSON]:
        """The `use`, and all other keys as options."""
        if isinstance(value, str):
            return {"use": value}
        fields = super()._from_file(value)
        options = {key: one for key, one in fields.items() if key != "use"}
        return {**{key: fields[key] for key in ("use",) if key in fields}, "options": options}

    def _check(self) -> None:
        is_code = ":" in self.use or "/" in self.use or "\\" in self.use
        if not (_USE if is_code else _NAME).fullmatch(self.use):
            raise Location().error(f"is neither module:name nor an entry point; {_EXAMPLE}", "use")
        for key in self.options:
            if not key.isidentifier():
                raise Location().error("is not a name that a keyword argument can have", key)
        for key, text in self.texts():
            parsed(text, key=key)

    @property
    def module(self) -> str | None:
        """The module that it names; None for an entry point."""
        module, colon, _ = self.use.partition(":")
        return module if colon else None

    @property
    def key(self) -> str:
        """Its key in the config: `hooks[0]`."""
        return f"hooks[{self.index}]"

    @property
    def place(self) -> str:
        """Its file and line: `toolbus.yaml:12`."""
        return f"{self.file or 'the config'}{'' if self.line is None else f':{self.line}'}"

    def error(self, problem: str, key: str | None = None) -> ConfigError:
        """The error for this problem, for the caller to raise."""
        return ConfigError(problem, file=self.file, line=self.line, key=within(self.key, key))

    def texts(self) -> Iterator[tuple[str, str]]:
        """Every text of its options, with its key."""
        for key, value in self.options.items():
            yield from _texts(key, value)

    @model_serializer
    def as_written(self) -> dict[str, JSON]:
        """The entry as in a file, with `***` for likely secrets."""
        return {"use": self.use, **self.shown_options}

    @property
    def shown_options(self) -> dict[str, JSON]:
        """The options as written, with `***` for likely secrets."""
        return {key: _shown(key, value) for key, value in self.options.items()}


def _texts(key: str, value: JSON) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield key, value
    elif is_mapping(value):
        for name, inner in value.items():
            yield from _texts(f"{key}.{name}", inner)
    elif is_list(value):
        for index, inner in enumerate(value):
            yield from _texts(f"{key}[{index}]", inner)


def _shown(name: str, value: JSON) -> JSON:
    if is_mapping(value):
        return {str(key): _shown(str(key), inner) for key, inner in value.items()}
    if is_list(value):
        return [_shown(name, inner) for inner in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return shown_text(name, str(value))  # YAML has dates as well


def shown_text(name: str, text: str) -> str:
    """A text without literal credentials; references stay, their defaults too unless the name is secret."""
    if not names_credential(name):
        return _without_keys(text)
    if any(isinstance(part, Reference) for part in parsed(text)):
        return _DEFAULT.sub(rf"\g<1>{MASK}}}", text)
    return MASK if text else text


def _without_keys(text: str) -> str:
    """The text without keys of well-known issuers, and without passwords in URLs."""
    return _PASSWORD.sub(rf"\g<1>{MASK}@", ISSUED_KEY.sub(MASK, text))


_USE_SCHEMA: dict[str, JSON] = {
    "type": "string",
    "description": "`module:name`, or the name of an entry point; all other keys are its options.",
}
StationEntries: TypeAlias = Annotated[
    tuple[StationEntry, ...],
    Strict(False),
    WithJsonSchema(
        {
            "type": "array",
            "items": {
                "anyOf": [
                    {"type": "string", "minLength": 1},
                    {"type": "object", "required": ["use"], "properties": {"use": _USE_SCHEMA}},
                ]
            },
        }
    ),
]
