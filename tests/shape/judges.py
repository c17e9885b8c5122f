"""The providers' own Python packages as judges of what we would send them.

`refusals` gives what a package says against a definition. A package that is not installed does not judge;
`missing` names it, so that a test can say so.
"""

import copy
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from importlib.util import find_spec
from typing import Any

from pydantic import TypeAdapter, ValidationError

JSON = Any
PACKAGES = {
    "openai": "openai",
    "openai-responses": "openai",
    "openai-strict": "agents",
    "anthropic": "anthropic",
    "google": "google.genai",
    "pydantic-ai": "pydantic_ai",
}


def missing(judge: str) -> str | None:
    """The reason why a judge is absent, if it is."""
    package = PACKAGES[judge]
    try:
        found = find_spec(package) is not None
    except ModuleNotFoundError:
        found = False
    return None if found else f"{package} is not installed, so that it does not judge {judge!r}"


def refusals(dialect: str, value: JSON) -> list[str]:
    """The packages' objections to a definition."""
    return [] if dialect not in _JUDGES or missing(dialect) else _JUDGES[dialect](value)


@cache
def _adapter(dialect: str) -> TypeAdapter[Any]:
    if dialect == "anthropic":
        from anthropic.types import ToolParam

        return TypeAdapter(ToolParam)
    if dialect == "openai-responses":
        from openai.types.responses import FunctionToolParam

        return TypeAdapter(FunctionToolParam)
    from openai.types.chat import ChatCompletionFunctionToolParam

    return TypeAdapter(ChatCompletionFunctionToolParam)


def _by_type(dialect: str) -> Callable[[JSON], list[str]]:
    def judge(value: JSON) -> list[str]:
        try:
            _adapter(dialect).validate_python(value, strict=True)
        except ValidationError as error:
            return [str(error)]
        return []

    return judge


def _google(value: JSON) -> list[str]:
    """`FunctionDeclaration` forbids unknown fields and knows the types of all others."""
    from google.genai.types import FunctionDeclaration

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # an unknown type is only warned of
        try:
            FunctionDeclaration.model_validate(value)
        except (ValidationError, UserWarning) as error:
            return [str(error)]
    return []


def _strict(value: JSON) -> list[str]:
    """The helper that makes schemas strict finds nothing to change; pydantic-ai calls the result strict."""
    from agents.exceptions import UserError
    from agents.strict_schema import ensure_strict_json_schema

    found = _by_type("openai")(value)
    if not value["function"]["strict"]:
        return found
    schema = value["function"]["parameters"]
    try:
        if ensure_strict_json_schema(copy.deepcopy(schema)) != schema:
            found.append("openai-agents changes the schema to make it strict")
    except (UserError, TypeError, ValueError) as error:
        found.append(f"openai-agents: {error}")
    return found + (_pydantic_ai_strict(schema) if missing("pydantic-ai") is None else [])


def _pydantic_ai_strict(schema: JSON) -> list[str]:
    from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer

    transformer = OpenAIJsonSchemaTransformer(copy.deepcopy(schema), strict=None)
    transformer.walk()
    return [] if transformer.is_strict_compatible else ["pydantic-ai does not call the schema strict"]


def google_rewrites(value: JSON) -> list[str]:
    """The parts that pydantic-ai's transformer for Gemini's subset would still take away or change."""
    from pydantic_ai.profiles.google import GoogleOpenAPISchemaTransformer

    schema = value.get("parameters", {})
    rewritten = GoogleOpenAPISchemaTransformer(copy.deepcopy(schema)).walk()
    return [] if rewritten == schema else [f"{schema} became {rewritten}"]


_JUDGES: Mapping[str, Callable[[JSON], list[str]]] = {
    "openai": _by_type("openai"),
    "openai-responses": _by_type("openai-responses"),
    "openai-strict": _strict,
    "anthropic": _by_type("anthropic"),
    "google": _google,
}
