"""The providers' published request types, as the real ones apply them: nothing missing, nothing unknown.

The types come from the provider's own package, in the version of the framework's environment.
"""

import json
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError, create_model
from pydantic_core import ErrorDetails, SchemaValidator

from tests.wire.asked import Wire
from tests.wire.turn import JSON

# What OpenAI takes although its types do not have it.
_ALSO_TAKEN = {
    "ChatCompletionAssistantMessageParam": ("annotations",),  # as its own answers have it
    "FunctionDefinition": ("requires_confirmation",),  # Agno's; Agno takes it out for the strict providers
}
_TAGS = ("type", "role", "stream")
"""The keys that distinguish the members of a union."""
_SHOWN = 4
"""So many errors: a union has one for each of its members."""


def type_errors(wire: Wire, body: JSON, *, beta: bool = False) -> list[str]:
    """The errors of a request by the types of the provider, the most specific first."""
    try:
        _validator(wire, beta)(_completed(body) if wire in ("chat", "responses") else body)
    except (ValidationError, UserWarning) as error:
        found = error.errors(include_url=False) if isinstance(error, ValidationError) else []
        return _told([one for one in found if one["type"] != "is_instance_of"]) or [str(error)]
    return []


def _completed(body: JSON) -> JSON:
    """A request to OpenAI with values that it accepts although its types do not.

    They are null for a parameter that is not set, and `output_text` of the assistant without ids.
    """
    known = {key: value for key, value in body.items() if value is not None}
    items: JSON = known.get("input")
    if not isinstance(items, list):
        return known
    said = {"type": "message", "id": "msg_", "status": "completed"}
    listed = cast(list[JSON], items)
    return {**known, "input": [{**said, **item} if _is_said(item) else item for item in listed]}


def _is_said(item: JSON) -> bool:
    match item:
        case {"role": "assistant", "content": [*_]}:
            return True
        case _:
            return False


def _told(found: list[ErrorDetails]) -> list[str]:
    """By the place in the request: names of types, which are the members of unions, are left out."""
    literals = [error["loc"] for error in found if error["type"] == "literal_error" and len(error["loc"]) > 1]
    others = [loc[:-1] for loc in literals if loc[-1] in _TAGS and _names_a_type(loc[-2])]
    own = [error for error in found if not any(error["loc"][: len(other)] == other for other in others)]
    places = [[str(step) for step in error["loc"] if not _names_a_type(step)] for error in own or found]
    told = sorted(zip(places, own or found, strict=True), key=lambda one: -len(one[0]))
    return [*dict.fromkeys(f"{'.'.join(place)}: {error['msg']}" for place, error in told)][:_SHOWN]


def _names_a_type(step: str | int) -> bool:
    return isinstance(step, str) and (step[:1].isupper() or "[" in step or step in ("str", "int", "bool"))


@cache
def _validator(wire: Wire, beta: bool) -> Callable[[JSON], object]:
    match wire:
        case "chat":
            from openai.types.chat.completion_create_params import CompletionCreateParams as Chat

            return _closed(Chat)
        case "responses":
            from openai.types.responses.response_create_params import ResponseCreateParams as Responses

            return _closed(Responses)
        case "anthropic" if beta:
            from anthropic.types.beta.message_create_params import MessageCreateParams as BetaMessages

            return _closed(BetaMessages)
        case "anthropic":
            from anthropic.types.message_create_params import MessageCreateParams as Messages

            return _closed(Messages)
        case "google":
            return _google()


def _closed(published: Any) -> Callable[[JSON], object]:
    """A check by typed dicts; pydantic by itself passes unknown keys, and looks into no `Iterable`."""
    schema = _with_closed_dicts(TypeAdapter(published).core_schema)
    check = SchemaValidator(schema, {"strict": True})
    return check.validate_python


def _with_closed_dicts(schema: Any) -> Any:
    if isinstance(schema, list | tuple):
        return [_with_closed_dicts(one) for one in cast(list[Any], schema)]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _with_closed_dicts(value) for key, value in cast(dict[str, Any], schema).items()}
    match closed.get("type"):
        case "generator":
            return {**closed, "type": "list"}
        case "model":  # of answers; a request has one in Python only
            return {"type": "is-instance", "cls": closed["cls"], "ref": closed.get("ref")}
        case "typed-dict" if "extras_schema" not in closed:
            name: str = closed["cls"].__name__
            extra = dict.fromkeys(_ALSO_TAKEN.get(name, ()), _ANYTHING)
            fields: dict[str, Any] = {**closed["fields"], **extra}
            return {**closed, "extra_behavior": "forbid", "fields": fields}
        case _:
            return closed


_ANYTHING = {"type": "typed-dict-field", "schema": {"type": "any"}, "required": False}


def _google() -> Callable[[JSON], object]:
    """A check by models, which forbid unknown fields and take camel and snake case, as Google does."""
    from google.genai import types

    fields: Mapping[str, Any] = {
        "contents": list[types.Content],
        "system_instruction": types.Content,
        "tools": list[types.Tool],
        "tool_config": types.ToolConfig,
        "safety_settings": list[types.SafetySetting],
        "generation_config": types.GenerationConfig,
        "cached_content": str,
    }
    config = types.Content.model_config.copy()
    optional: dict[str, Any] = {name: (of | None, None) for name, of in fields.items() if name != "contents"}
    request = create_model("Request", __config__=config, contents=(fields["contents"], ...), **optional)

    def check(body: JSON) -> object:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # an unknown value of an enum is only warned of
            return request.model_validate_json(json.dumps(body))

    return check
