"""Options of tools for their provider, such as Anthropic's `cache_control`, in the requests of Pydantic AI.

The framework has no place for them. Its models make the provider's form of a tool in a method that subclasses
may override; here that method of one model is wrapped. The names are the framework's own: the tests read
from the wire whether they still do it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from toolbus.adapters.declared import declared
from toolbus.adapters.extra import needs
from toolbus.bus.tool import Tool
from toolbus.core.records import JSON
from toolbus.shape import Dialect

with needs("pydantic-ai"):
    from pydantic_ai import ToolDefinition
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.models.fallback import FallbackModel
    from pydantic_ai.models.wrapper import WrapperModel

# By the name of the model's provider; all others take what OpenAI takes.
DIALECTS: Mapping[str, Dialect] = {"anthropic": "anthropic", "google": "google", "google-cloud": "google"}
KEY = "options"
"""Where the metadata of a definition has them, by dialect: of several models, each takes its own."""
_OWN = ("strict", "defer_loading")  # for which the framework has a place
_ONE, _ALL = "_map_tool_definition", "_get_tool_config"


def dialect_of(model: object) -> Dialect:
    """What the model's provider speaks; of several that differ, OpenAI's, which the framework translates."""
    spoken: set[Dialect] = {DIALECTS.get(each.system, "openai") for each in _behind(model)}
    return spoken.pop() if len(spoken) == 1 else "openai"


def options_of(tool: Tool) -> dict[str, JSON]:
    """The options of a tool, by dialect."""
    if not tool.spec.options:
        return {}
    dialects: set[Dialect] = {"openai", *DIALECTS.values()}
    return {
        dialect: {key: value for key, value in declared(tool, dialect).options.items() if key not in _OWN}
        for dialect in dialects
    }


def send_options(model: object) -> None:
    """Let the requests of the model hold the options of its tools. Any number of times."""
    for each in _behind(model):
        dialect = DIALECTS.get(each.system, "openai")
        known = vars(each)
        if _ONE not in known and hasattr(each, _ONE):
            setattr(each, _ONE, _with_options(getattr(each, _ONE), dialect))
        if _ALL not in known and hasattr(each, _ALL):  # Google's
            setattr(each, _ALL, _all_with_options(getattr(each, _ALL), dialect))


def _behind(model: object) -> Iterator[Model]:
    """The models that make requests, behind those that only pass them on."""
    if isinstance(model, WrapperModel):
        yield from _behind(model.wrapped)
    elif isinstance(model, FallbackModel):
        for each in model.models:
            yield from _behind(each)
    elif isinstance(model, Model):
        yield model


def _with_options(mapped: Callable[..., Any], dialect: Dialect) -> Callable[..., Any]:
    def form_of(definition: ToolDefinition, *args: Any, **more: Any) -> Any:
        form = mapped(definition, *args, **more)
        _add(form.get("function", form), definition, dialect)
        return form

    return form_of


def _all_with_options(made: Callable[..., Any], dialect: Dialect) -> Callable[..., Any]:
    def forms_of(parameters: ModelRequestParameters, *args: Any, **more: Any) -> Any:
        tools, *rest = made(parameters, *args, **more)
        for form in (form for tool in tools or () for form in tool.get("function_declarations") or ()):
            if form["name"] in parameters.tool_defs:
                _add(form, parameters.tool_defs[form["name"]], dialect)
        return (tools, *rest)

    return forms_of


def _add(form: dict[str, JSON], definition: ToolDefinition, dialect: Dialect) -> None:
    options: JSON = (definition.metadata or {}).get(KEY) or {}
    for key, value in options.get(dialect, {}).items():
        form.setdefault(key, value)
