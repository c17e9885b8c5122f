"""Overrides for single tools: how a model sees them, and how long their results may be."""

import os.path
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field, WithJsonSchema

from toolbus.config.base import ConfigModel, Names, Text
from toolbus.config.location import Location, is_mapping, near_miss
from toolbus.core.values.records import JSON, Budget, ResultShape

_EXPECTED = (
    f"expected a number of characters, {{characters: ..., tokens: ...}}, or false, at least {Budget.SMALLEST}"
)
_LENGTH: dict[str, JSON] = {"type": "integer", "minimum": Budget.SMALLEST}
_BOTH: dict[str, JSON] = {
    "characters": {**_LENGTH, "description": "How many characters a result may have."},
    "tokens": {**_LENGTH, "description": "How many tokens a result may have, by estimate."},
}


def _budget(value: JSON) -> Budget:
    """A number of characters, `{characters, tokens}`, or false for none."""
    if isinstance(value, Budget):
        return value
    if value is False:
        return Budget(characters=None, tokens=None)
    given = value if is_mapping(value) else {"characters": value}
    for name, number in given.items():
        if name not in ("characters", "tokens"):
            problem = f"unknown key{near_miss(name, ('characters', 'tokens'))}"
            raise Location().error(problem, str(name))
        if isinstance(number, bool) or not isinstance(number, int) or number < Budget.SMALLEST:
            raise ValueError(_EXPECTED)
    return Budget(characters=given.get("characters"), tokens=given.get("tokens"))


BudgetSetting: TypeAlias = Annotated[
    Budget,
    BeforeValidator(_budget),
    WithJsonSchema(
        {
            "anyOf": [
                _LENGTH,
                {"const": False},
                {"type": "object", "properties": _BOTH, "additionalProperties": False},
            ]
        }
    ),
]


class ArgumentOverride(ConfigModel):
    """Changes to one argument, identified by the server's name for it."""

    _keeps_null = True

    name: str | None = Field(default=None, min_length=1)
    """The name the model sees."""
    description: str | None = None
    """The description the model sees."""
    default: object = None
    """Sent if the model omits the argument."""
    value: object = None
    """Always sent; the model does not see the argument."""
    hide: bool = False
    """Whether to hide the argument from the model."""


class ToolHints(ConfigModel):
    """The hints of the config's owner about a tool; they overrule its server."""

    read_only: bool | None = None
    """Whether a call changes nothing."""
    destructive: bool | None = None
    """Whether a call may delete or overwrite something."""
    idempotent: bool | None = None
    """Whether a repeated call has no further effect."""
    open_world: bool | None = None
    """Whether a call reaches beyond the server, as a web search does."""

    def _check(self) -> None:
        if self.read_only and self.destructive:
            raise Location().error("a tool cannot be both read_only and destructive")


class ResultOverride(ConfigModel):
    """The part of a tool's results that a model gets; programs get all of it."""

    keep: Names = ()
    """Paths of the kept parts of a JSON result, such as `[number, title, labels.name]`; empty means all."""
    table: Literal["auto", "never"] = "never"
    """`auto` shows flat records as a table, if that takes fewer tokens."""
    files: Text | None = None
    """The folder for pictures, audio and other binary content, relative to the config's."""

    def within(self, folder: Path | None) -> ResultShape:
        """The same for a config in that folder."""
        files = None if self.files is None else os.path.join(folder or "", os.path.expanduser(self.files))
        return ResultShape(keep=self.keep, table=self.table == "auto", files=files)

    def _check(self) -> None:
        for number, path in enumerate(self.keep):
            if not all(path.split(".")):
                raise Location().error("expected keys between dots, such as labels.name", f"keep[{number}]")


class ToolOverride(ConfigModel):
    """Changes to a tool."""

    _expects = {
        "schema": "expected a JSON Schema, which is a mapping",
        "options": "expected a mapping by provider, such as {openai: {strict: true}}",
    }
    _keeps_null = True

    name: str | None = Field(default=None, min_length=1)
    """The exact public name."""
    description: str | None = None
    """Replaces the server's description."""
    append: str | None = None
    """Text to append to the description."""
    arguments: dict[str, ArgumentOverride] = {}
    """Changes to its arguments, by the server's names."""
    schema_: dict[str, object] | None = Field(default=None, alias="schema")
    """Replaces the server's input schema."""
    options: dict[str, dict[str, object]] = {}
    """Provider-specific options, by provider."""
    hints: ToolHints = Field(default_factory=ToolHints)
    """Hints about the tool, for policies and approvals."""
    result: ResultOverride | None = None
    """The part of its results that a model gets."""
    budget: BudgetSetting | None = None
    """The maximum length of its results for a model."""

    @property
    def rule(self) -> Mapping[str, JSON]:
        """The fields that are set, as a plain mapping."""
        return self.model_dump(exclude_unset=True, by_alias=True, exclude={"budget"})

    def _check(self) -> None:
        given = [rule.name for rule in self.arguments.values() if rule.name is not None]
        for name in given:
            if given.count(name) > 1:
                raise Location().error(f"two arguments are named {name!r}; rename one", "arguments")
