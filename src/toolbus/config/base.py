"""The base of all config models: frozen, and invalid values raise ConfigError, never pydantic's own error.

A model reads what a file has in its place. No repr and no message shows a value that may be a secret.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    Strict,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import ErrorDetails

from toolbus.config.location import Location, is_mapping, joined, near_miss
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON

# Files contain lists, not tuples; everything else is strict, so that `enabled: "no"` is not True.
Texts: TypeAlias = Annotated[tuple[str, ...], Strict(False)]
Text: TypeAlias = Annotated[str, Field(min_length=1)]
Names: TypeAlias = Annotated[tuple[Text, ...], Strict(False)]
TEXT_SCHEMA: dict[str, JSON] = {"type": "string", "minLength": 1}
TextOrTexts: TypeAlias = Annotated[
    Names,
    BeforeValidator(lambda value: (value,) if isinstance(value, str) else value),
    WithJsonSchema({"anyOf": [TEXT_SCHEMA, {"type": "array", "items": TEXT_SCHEMA}]}),
]
Count: TypeAlias = Annotated[int, Field(ge=1)]
Seconds: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]

_ITEMIZED = ("args", "env", "headers")
"""Fields whose values are reported one by one."""
_EXPECTED = {
    "string_type": "expected a string; put it in quotes",
    "bool_type": "expected true or false",
    "tuple_type": "expected a list of strings",
    "dict_type": "expected a mapping",
    "float_type": "expected a number of seconds",
    "int_type": "expected a whole number",
    "finite_number": "expected a finite number of seconds",
    "greater_than": "expected a number above 0",
    "greater_than_equal": "expected 1 or more",
    "string_too_short": "expected a non-empty string",
}


class ConfigModel(BaseModel):
    """A frozen model that raises ConfigError for invalid values."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True, hide_input_in_errors=True
    )
    _expected: ClassVar[str] = "expected a mapping"
    """The forms that a file may use for the model."""
    _expects: ClassVar[Mapping[str, str]] = {}
    """Problems with fields whose types do not describe them well."""
    _missing: ClassVar[str] = "is missing"
    """The problem with a field that is needed."""
    _keeps_null: ClassVar[bool] = False
    """Whether null is a value; otherwise it means not set."""
    _renamed: ClassVar[Mapping[str, str]] = {}
    """Keys that have another name today, by their old names, which still work."""

    if not TYPE_CHECKING:  # type checkers keep the signature from the fields

        def __init__(self, **values: object) -> None:
            try:
                self.__pydantic_validator__.validate_python(values, self_instance=self)
            except ValidationError as error:
                problem = error.errors(include_url=False, include_input=False)[0]["ctx"]["error"]
            else:
                return
            # Raised outside of `except`: the validation error holds the values, including secrets.
            raise problem

        # As in pydantic's RootModel: models inside others are validated without this method.
        __init__.__pydantic_base_init__ = True

    @model_validator(mode="wrap")
    @classmethod
    def _validated(cls, value: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if isinstance(value, cls):
            return value
        fields, _ = cls.renamed(cls._from_file(value))
        try:
            model = handler(fields)
        except ValidationError as error:
            problem = cls._problem(error, str(fields.get("alias") or "") or None)
        else:
            model._check()
            return model
        raise problem

    @classmethod
    def _from_file(cls, value: JSON) -> dict[str, JSON]:
        """The fields in what a file has; ConfigError if it is something else."""
        if not is_mapping(value):
            raise ConfigError(cls._expected)
        return {str(key): one for key, one in value.items() if cls._keeps_null or one is not None}

    @classmethod
    def renamed(cls, values: Mapping[str, JSON]) -> tuple[dict[str, JSON], list[str]]:
        """The values under the names of today, and a note about each old name, here or in a value.

        ConfigError if a value is given under both names.
        """
        now, notes = dict(values), list[str]()
        for old, new in cls._renamed.items():
            given = now.pop(old, None)
            if given is None:
                continue
            if now.get(new) is not None:
                raise ConfigError(f"is the old name of {new}, which is also set; keep {new}", key=old)
            now[new] = given
            notes.append(f"{old} is now {new}")
        for key, value in now.items():
            model = field.annotation if (field := cls.model_fields.get(key)) else None
            if isinstance(model, type) and issubclass(model, ConfigModel) and is_mapping(value):
                now[key], inner = model._renamed_within(key, value)
                notes += inner
        return now, notes

    @classmethod
    def _renamed_within(cls, key: str, values: Mapping[str, JSON]) -> tuple[dict[str, JSON], list[str]]:
        """The same for the value of a key."""
        try:
            now, notes = cls.renamed(values)
        except ConfigError as error:
            raise joined(
                [ConfigError(one.problem, key=within(key, one.key)) for one in error.mistakes]
            ) from None
        return now, [f"{key}.{note.replace(' is now ', f' is now {key}.')}" for note in notes]

    def _check(self) -> None:
        """Raise ConfigError for rules that types cannot express."""

    @classmethod
    def _unknown(cls, key: str) -> str:
        """The problem with a key that no field has."""
        fields = cls.model_fields.items()
        known = [field.alias or name for name, field in fields if not field.exclude]
        return f"unknown key{near_miss(key, known)}"

    @classmethod
    def _problem(cls, error: ValidationError, server: str | None) -> ConfigError:
        """Pydantic's errors as ConfigErrors, without the values."""
        found: dict[str | None, str] = {}
        for finding in error.errors(include_url=False, include_input=False):
            # A union has one finding per member; the first is enough.
            for key, problem in cls._mistakes(finding):
                found.setdefault(key, problem)
        location = Location(server=server)
        return joined([location.error(problem, key) for key, problem in found.items()])

    @classmethod
    def _mistakes(cls, finding: ErrorDetails) -> list[tuple[str | None, str]]:
        """The mistakes in one finding, with their keys."""
        path, kind = finding["loc"], finding["type"]
        context: dict[str, Any] = finding.get("ctx", {})
        key, cause = _key(path), context.get("error")
        if isinstance(cause, ConfigError):
            return [(within(key, mistake.key), mistake.problem) for mistake in cause.mistakes]
        if key is None:
            return [(None, "is invalid")]
        field = str(path[0])
        if kind == "extra_forbidden":
            return [(field, cls._unknown(field))]
        if kind == "value_error":
            return [(key, str(cause))]
        if kind == "missing":
            return [(key, cls._missing)]
        if field in cls._expects and (len(path) == 1 or field not in _ITEMIZED):
            return [(field, cls._expects[field])]
        if kind == "literal_error":
            return [(key, f"expected {context['expected']}")]
        return [(key, _EXPECTED.get(kind, "has the wrong type"))]


def takes_null(model: type[ConfigModel]) -> bool:
    """Whether null in a file means not set."""
    return not model._keeps_null  # pyright: ignore[reportPrivateUsage]  # its own module


def overriding(usual: ConfigModel, own: JSON) -> JSON:
    """The fields of a setting for all servers, with those that one server sets in their place."""
    if isinstance(own, type(usual)):
        own = own.model_dump(exclude_unset=True)
    given = {key: one for key, one in own.items() if one is not None} if is_mapping(own) else None
    return own if given is None else {**usual.model_dump(), **given}


def within(key: str | None, inner: str | None) -> str | None:
    """The whole key of a value inside another: `serve.views`, `policy[0].do`."""
    if key is None or inner is None:
        return inner if key is None else key
    return f"{key}{inner}" if inner.startswith("[") else f"{key}.{inner}"


def _key(path: tuple[int | str, ...]) -> str | None:
    """A path as people write it: `env.TOKEN`, `args[2]`."""
    key = None
    for step in path:
        if step != "[key]":
            key = within(key, f"[{step}]" if isinstance(step, int) else step)
    return key
