"""The base of all config models: frozen, and invalid values raise ConfigError, never pydantic's own error.

No repr and no message shows a value that may be a secret.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from toolbus.config.location import Location, joined
from toolbus.core.values.errors import ConfigError

_COLLECTIONS = ("args", "env", "headers")
"""Fields whose values are reported one by one."""
_EXPECTED_FOR_FIELD = {
    "inherit_env": "expected 'safe', 'all', 'none' or a list of variable names",
    "verify": "expected true, false or the path of a CA bundle",
    "schema": "expected a JSON Schema, which is a mapping",
    "options": "expected a mapping by provider, such as {openai: {strict: true}}",
    "include": "expected a list of patterns, or of annotations such as {readOnlyHint: true}",
    "exclude": "expected a list of patterns, or of annotations such as {readOnlyHint: true}",
    "tokens": "expected auto, keyring, memory, file:DIR, or an object that keeps tokens",
    "scopes": "expected a list of scopes",
    "resource": "expected true, false, or the URI of the server",
    "sandbox": "expected true, false, or a mapping with read, write, net and env",
    "telemetry": "expected true, false, or a mapping with content",
}
_EXPECTED = {
    "string_type": "expected a string; put it in quotes",
    "bool_type": "expected true or false",
    "tuple_type": "expected a list of strings",
    "dict_type": "expected a mapping of names to strings",
    "float_type": "expected a number of seconds",
    "int_type": "expected a whole number",
    "finite_number": "expected a finite number of seconds",
    "greater_than": "expected a number above 0",
    "greater_than_equal": "expected 1 or more",
    "string_too_short": "expected a non-empty string",
    "missing": "is missing",
}


class ConfigModel(BaseModel):
    """A frozen model that raises ConfigError for invalid values."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True, hide_input_in_errors=True
    )

    if not TYPE_CHECKING:  # type checkers keep the signature from the fields

        def __init__(self, **values: object) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                known = [name for name, field in type(self).model_fields.items() if not field.exclude]
                problem = joined(_problems(error, known, str(values.get("alias") or "") or None))
            else:
                self._check()
                return
            # Raised outside of `except`: the validation error holds the values, including secrets.
            raise problem

    def _check(self) -> None:
        """Raise ConfigError for rules that types cannot express."""


def _problems(error: ValidationError, known: Iterable[str], server: str | None) -> list[ConfigError]:
    """Pydantic's errors as ConfigErrors, without the values."""
    found: dict[str, ConfigError] = {}
    for finding in error.errors(include_url=False, include_input=False):
        path = finding["loc"] or ("",)
        # A union has one finding per member; the first is enough.
        field = _key(path) if path[0] in _COLLECTIONS else str(path[0])
        found.setdefault(field, _problem(finding, known, server))
    return list(found.values())


def _problem(finding: ErrorDetails, known: Iterable[str], server: str | None) -> ConfigError:
    path, kind = finding["loc"], finding["type"]
    location = Location(server=server)
    field = str(path[0]) if path else None
    if field is None:
        return location.error("is invalid")
    if kind == "extra_forbidden":
        return location.unknown_key(field, known)
    if field in _EXPECTED_FOR_FIELD:
        return location.error(_EXPECTED_FOR_FIELD[field], field)
    context: dict[str, Any] = finding.get("ctx", {})
    problem = (
        f"expected {context['expected']}"
        if kind == "literal_error"
        else _EXPECTED.get(kind, "has the wrong type")
    )
    return location.error(problem, _key(path))


def _key(path: tuple[int | str, ...]) -> str:
    """A path as people write it: `env.TOKEN`, `args[2]`."""
    key = str(path[0])
    for step in path[1:]:
        if step != "[key]":
            key += f"[{step}]" if isinstance(step, int) else f".{step}"
    return key
