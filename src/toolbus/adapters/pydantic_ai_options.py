"""Add tool options for a provider, such as Anthropic's `cache_control`, to the requests of Pydantic AI.

The framework has no field for them. Its models convert a tool for the provider in a method that subclasses
may override; this module wraps that method of one model. The method names are the framework's own; the tests
check on the wire that they still work.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from toolbus.adapters.options import require_extra
from toolbus.adapters.tool_calls import definition_of
from toolbus.bus.catalog.tool import Tool
from toolbus.core.values.records import JSON
from toolbus.shape import Dialect

with require_extra("pydantic-ai"):
    from pydantic_ai import ToolDefinition
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.models.fallback import FallbackModel
    from pydantic_ai.models.wrapper import WrapperModel

# By the name of the model's provider; all others use OpenAI's dialect.
DIALECTS: Mapping[str, Dialect] = {"anthropic": "anthropic", "google": "google", "google-cloud": "google"}
OPTIONS_KEY = "options"
"""The metadata key of the options by dialect; with several models, each uses its own."""
_NATIVE = ("strict", "defer_loading")  # the framework has fields for these
_MAP_TOOL, _TOOL_CONFIG = "_map_tool_definition", "_get_tool_config"


def dialect_of(model: object) -> Dialect:
    """The dialect of the model's provider; OpenAI's for several providers, as the framework converts it."""
    dialects: set[Dialect] = {DIALECTS.get(each.system, "openai") for each in request_models(model)}
    return dialects.pop() if len(dialects) == 1 else "openai"


def options_of(tool: Tool) -> dict[str, JSON]:
    """The options of a tool, by dialect."""
    if not tool.spec.options:
        return {}
    dialects: set[Dialect] = {"openai", *DIALECTS.values()}
    return {
        dialect: {
            key: value for key, value in definition_of(tool, dialect).options.items() if key not in _NATIVE
        }
        for dialect in dialects
    }


def send_options(model: object) -> None:
    """Make the model send the options of its tools. Safe to call repeatedly."""
    for each in request_models(model):
        dialect = DIALECTS.get(each.system, "openai")
        known = vars(each)
        if _MAP_TOOL not in known and hasattr(each, _MAP_TOOL):
            setattr(each, _MAP_TOOL, _with_options(getattr(each, _MAP_TOOL), dialect))
        if _TOOL_CONFIG not in known and hasattr(each, _TOOL_CONFIG):  # Google's
            setattr(each, _TOOL_CONFIG, _all_with_options(getattr(each, _TOOL_CONFIG), dialect))


def request_models(model: object) -> Iterator[Model]:
    """The models that send requests, without wrappers and fallbacks."""
    if isinstance(model, WrapperModel):
        yield from request_models(model.wrapped)
    elif isinstance(model, FallbackModel):
        for each in model.models:
            yield from request_models(each)
    elif isinstance(model, Model):
        yield model


def _with_options(convert: Callable[..., Any], dialect: Dialect) -> Callable[..., Any]:
    def converted(definition: ToolDefinition, *args: Any, **more: Any) -> Any:
        tool = convert(definition, *args, **more)
        _add_options(tool.get("function", tool), definition, dialect)
        return tool

    return converted


def _all_with_options(convert: Callable[..., Any], dialect: Dialect) -> Callable[..., Any]:
    def converted(parameters: ModelRequestParameters, *args: Any, **more: Any) -> Any:
        tools, *rest = convert(parameters, *args, **more)
        for tool in (each for group in tools or () for each in group.get("function_declarations") or ()):
            if tool["name"] in parameters.tool_defs:
                _add_options(tool, parameters.tool_defs[tool["name"]], dialect)
        return (tools, *rest)

    return converted


def _add_options(tool: dict[str, JSON], definition: ToolDefinition, dialect: Dialect) -> None:
    options: JSON = (definition.metadata or {}).get(OPTIONS_KEY) or {}
    for key, value in options.get(dialect, {}).items():
        tool.setdefault(key, value)
