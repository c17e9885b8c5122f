"""From what a user says to a model: a name that pydantic-ai knows, a model, or the URL of a local server."""

import json
import os
import urllib.request
from collections.abc import Mapping
from typing import Any, cast
from urllib.error import HTTPError
from urllib.parse import urldefrag

from pydantic_ai.exceptions import (
    AgentRunError,
    FallbackExceptionGroup,
    ModelConnectionError,
    ModelHTTPError,
    UserError,
)
from pydantic_ai.models import Model, infer_model
from pydantic_ai.providers import Provider, infer_provider, infer_provider_class

from toolbus.agent.failures import ModelFailed
from toolbus.config.redact import shown_url

LOOKING = 2.0
"""Seconds that a local server gets to say which models it has."""
# What pydantic-ai says to its own users after the reason.
_ADVICE = " To try Pydantic AI "


def model_of(model: str | Model, keys: Mapping[str, str] | None = None) -> Model:
    """The model; `http://localhost:11434/v1#qwen3` is one on a server that speaks as OpenAI does.

    `keys` are by variable, such as `OPENAI_API_KEY`; a variable of the environment goes before them.
    """
    if isinstance(model, Model):
        return model
    if model.startswith(("http://", "https://")):
        return _at_url(model)
    try:
        return infer_model(model, lambda name: _provider(name, keys)) if keys else infer_model(model)
    except (UserError, ImportError, ValueError) as error:
        raise ModelFailed(model, _line(error).partition(_ADVICE)[0]) from error


def _provider(name: str, keys: Mapping[str, str]) -> Provider[Any]:
    base = name.partition("-")[0].upper()
    variables = [f"{base}_API_KEY", *(["GEMINI_API_KEY"] if base == "GOOGLE" else [])]
    key = next((keys[variable] for variable in variables if keys.get(variable)), None)
    if key is None or any(os.environ.get(variable) for variable in variables):
        return infer_provider(name)
    made: Any = infer_provider_class(name)  # they all take the key, but have no common signature
    return made(api_key=key)


def served(url: str) -> list[str]:
    """The models of a server that speaks as OpenAI does; OSError or ValueError if it is none."""
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/models", timeout=LOOKING) as answer:
            return [model["id"] for model in json.load(answer)["data"]]
    except HTTPError as error:
        error.close()  # it holds the connection
        raise


def failed(model: Model, error: AgentRunError | FallbackExceptionGroup) -> ModelFailed:
    """The error in our words."""
    match error:
        case ModelHTTPError():
            status = error.status_code
            return ModelFailed(model.model_name, f"HTTP {status}: {_message(error.body)}", status)
        case ModelConnectionError():
            where = shown_url(model.base_url) if model.base_url else "the provider"
            return ModelFailed(model.model_name, f"no complete response from {where}: {_line(_root(error))}")
        case FallbackExceptionGroup():
            return ModelFailed(model.model_name, "; ".join(_line(each) for each in error.exceptions))
        case _:
            return ModelFailed(model.model_name, _line(error))


def _at_url(address: str) -> Model:
    url, name = urldefrag(address)
    shown = shown_url(url)
    try:
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider
    except ImportError as error:
        raise ModelFailed(shown, 'needs the openai package; pip install "toolbus[agent]"') from error
    if not name:
        try:
            name = served(url)[0]
        except (OSError, ValueError, LookupError, TypeError) as error:
            reason = f"it does not list its models ({error}); add a model to the URL: {shown}#NAME"
            raise ModelFailed(shown, reason) from error
    # Not the user's key for OpenAI: that is nobody else's.
    return OpenAIChatModel(name, provider=OpenAIProvider(base_url=url, api_key="none"))


def _message(body: object) -> str:
    """What a provider says went wrong: all of them have a message somewhere in the body."""
    said: Any = body
    while isinstance(said, Mapping):
        fields = cast(Mapping[str, Any], said)
        said = fields.get("error") or fields.get("message") or str(dict(fields))
    return " ".join(str(said or "no message").split())


def _root(error: BaseException) -> BaseException:
    """The first cause: what is raised on top of it says less."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
