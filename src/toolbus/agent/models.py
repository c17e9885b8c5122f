"""Get a model from a name that Pydantic AI knows, a model object, or the URL of a local server."""

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

from toolbus.config.secrets.redact import shown_url
from toolbus.core.text.display import ascii_url
from toolbus.core.values.errors import ToolbusError

LIST_TIMEOUT = 2.0
"""Seconds to wait for a local server to list its models."""
# Pydantic AI appends this advice for its own users to the reason.
_ADVICE = " To try Pydantic AI "


class ModelFailed(ToolbusError):
    """The model cannot be used, or did not respond; `status` is the HTTP status, if any."""

    def __init__(self, model: str, reason: str, status: int | None = None) -> None:
        self.model = model
        self.status = status
        super().__init__(f"model {model!r}: {reason}")


def model_of(model: str | Model, keys: Mapping[str, str] | None = None) -> Model:
    """The model; `http://localhost:11434/v1#qwen3` is a model of an OpenAI-compatible server.

    `keys` are API keys by variable, such as `OPENAI_API_KEY`; environment variables take precedence.
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
    provider: Any = infer_provider_class(name)  # all accept a key, but they have no common signature
    return provider(api_key=key)


def served_models(url: str) -> list[str]:
    """The models of an OpenAI-compatible server; OSError or ValueError if it is not one."""
    try:
        with urllib.request.urlopen(f"{ascii_url(url).rstrip('/')}/models", timeout=LIST_TIMEOUT) as response:
            return [model["id"] for model in json.load(response)["data"]]
    except HTTPError as error:
        error.close()  # it holds the connection
        raise


def model_error(model: Model, error: AgentRunError | FallbackExceptionGroup) -> ModelFailed:
    """Convert an error of Pydantic AI to `ModelFailed`."""
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


def _at_url(model: str) -> Model:
    url, name = urldefrag(model)
    shown = shown_url(url)
    try:
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider
    except ImportError as error:
        raise ModelFailed(shown, 'needs the openai package; pip install "toolbus[agent]"') from error
    if not name:
        try:
            name = served_models(url)[0]
        except (OSError, ValueError, LookupError, TypeError) as error:
            reason = f"it does not list its models ({error}); add a model to the URL: {shown}#NAME"
            raise ModelFailed(shown, reason) from error
    # Never the user's OpenAI key: other servers must not get it.
    return OpenAIChatModel(name, provider=OpenAIProvider(base_url=url, api_key="none"))


def _message(body: object) -> str:
    """A provider's error message: all of them put it somewhere in the body."""
    message: Any = body
    while isinstance(message, Mapping):
        fields = cast(Mapping[str, Any], message)
        message = fields.get("error") or fields.get("message") or str(dict(fields))
    return " ".join(str(message or "no message").split())


def _root(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
