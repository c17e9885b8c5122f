"""Overrides for single tools: how a model sees them, and how long their results may be."""

from collections.abc import Mapping
from typing import TypeVar

from pydantic import Field

from toolbus.config.base import ConfigModel
from toolbus.config.location import Location, is_mapping
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON, Budget

R = TypeVar("R", bound=ConfigModel)


class ArgumentOverride(ConfigModel):
    """Changes to one argument, identified by the server's name for it."""

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


class ToolOverride(ConfigModel):
    """Changes to a tool."""

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
    budget: Budget | None = None
    """The maximum length of its results for a model."""

    @property
    def rule(self) -> Mapping[str, JSON]:
        """The fields that are set, as a plain mapping."""
        return self.model_dump(exclude_unset=True, by_alias=True, exclude={"budget"})


def tool_overrides(value: JSON, location: Location) -> dict[str, ToolOverride]:
    """The overrides of a server, by pattern."""
    return {
        str(pattern): _tool(rule, location, f"override.{pattern}")
        for pattern, rule in location.mapping(value, "override").items()
    }


def budget(value: JSON, location: Location, key: str = "budget") -> Budget:
    """A number of characters, `{characters, tokens}`, or false for none."""
    expected = "expected a number of characters, {characters: ..., tokens: ...}, or false"
    if isinstance(value, Budget):
        return value
    if value is False:
        return Budget(characters=None, tokens=None)
    given = value if is_mapping(value) else {"characters": value}
    for name, number in given.items():
        if name not in ("characters", "tokens"):
            raise location.unknown_key(name, ("characters", "tokens"), key)
        if isinstance(number, bool) or not isinstance(number, int) or number < Budget.SMALLEST:
            raise location.error(f"{expected}, at least {Budget.SMALLEST}", key)
    return Budget(characters=given.get("characters"), tokens=given.get("tokens"))


def _tool(value: JSON, location: Location, key: str) -> ToolOverride:
    fields = dict(location.mapping(value, key))
    if "arguments" in fields:
        within = f"{key}.arguments"
        fields["arguments"] = {
            str(name): _built(
                ArgumentOverride, location.mapping(rule, f"{within}.{name}"), location, f"{within}.{name}"
            )
            for name, rule in location.mapping(fields["arguments"], within).items()
        }
        given = [rule.name for rule in fields["arguments"].values() if rule.name is not None]
        for name in given:
            if given.count(name) > 1:
                raise location.error(f"two arguments are named {name!r}; rename one", within)
    if "budget" in fields:
        fields["budget"] = budget(fields["budget"], location, f"{key}.budget")
    return _built(ToolOverride, fields, location, key)


def _built(kind: type[R], fields: Mapping[JSON, JSON], location: Location, key: str) -> R:
    try:
        return kind(**{str(name): value for name, value in fields.items()})
    except ConfigError as error:
        raise location.relocated(error, lambda own: f"{key}.{own}") from None
