"""Choose the model for a chat: the named one, or else the first available.

Local servers are probed at the same time, in less than a second. Keys are read only to redact them.
"""

import json
import os
import re
from collections.abc import Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from threading import Thread
from typing import Any
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener

from toolbus.cli.terminal import variables
from toolbus.config import BusConfig, Secrets
from toolbus.config.find import DOTENV
from toolbus.config.secrets.lookup import MissingValue
from toolbus.config.secrets.redact import shown_url, spellings, url_secrets
from toolbus.core.values.errors import ToolbusError

KEYS = {
    "ANTHROPIC_API_KEY": "anthropic:claude-sonnet-4-5",
    "OPENAI_API_KEY": "openai:gpt-5.1",
    "GOOGLE_API_KEY": "google:gemini-flash-latest",
    "GEMINI_API_KEY": "google:gemini-flash-latest",
    "DEEPSEEK_API_KEY": "deepseek:deepseek-chat",
}
"""The default model by API key variable, in order of preference."""
LOCAL = {
    "Ollama": "http://127.0.0.1:11434/v1",
    "LM Studio": "http://127.0.0.1:1234/v1",
    "vLLM": "http://127.0.0.1:8000/v1",
    "llama.cpp": "http://127.0.0.1:8080/v1",
}
"""Default URLs of OpenAI-compatible local servers."""
KEY = "_API_KEY"
SEARCH_SECONDS = 0.8
"""Time limit for probing all of them."""
MAX_BYTES = 1_000_000
"""Maximum size of a model list: any program may listen on these ports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """A model, and the API keys from `.env`."""

    model: str
    keys: Mapping[str, str] = field(repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that must not be printed: keys, and credentials in a URL."""
        exported = [value for name, value in os.environ.items() if name.upper().endswith(KEY)]
        return spellings([*exported, *self.keys.values(), *url_secrets(self.model)])


class NoModel(ToolbusError):
    """No model was named, and none was found."""

    def __init__(self) -> None:
        places = ", ".join(f"{name} at {urlsplit(url).netloc}" for name, url in LOCAL.items())
        super().__init__(
            f"no model found: {', '.join(KEYS)} are unset (also in .env), and no local server responds "
            f"({places}); set a key, start a server, or pass --model openai:gpt-5.1"
        )


def choose_model(config: BusConfig, named: str | None) -> ModelChoice:
    """The named model, else the one that $TOOLBUS_MODEL names, else the first available; raises `NoModel`."""
    keys = _keys_from_env_file(config)
    return ModelChoice(model=named or variables().get("TOOLBUS_MODEL") or _available_model(keys), keys=keys)


def _keys_from_env_file(config: BusConfig) -> dict[str, str]:
    """The API keys in the `.env` beside the config; not exported, or servers could inherit them."""
    values = Secrets(None, config.folder, config.reviewed).variables(DOTENV)
    if isinstance(values, MissingValue):
        return {}
    return {name: value for name, value in values.items() if name.upper().endswith(KEY) and value}


def _available_model(keys: Mapping[str, str]) -> str:
    by_key = (model for variable, model in KEYS.items() if os.environ.get(variable) or keys.get(variable))
    model = next(by_key, None) or find_local_model(LOCAL)
    if model is None:
        raise NoModel
    return model


def find_local_model(places: Mapping[str, str]) -> str | None:
    """The first model found, as `URL#name`; earlier URLs take precedence."""
    probes = {url: Future[str | None]() for url in places.values()}
    for url, probe in probes.items():
        # Daemon: a server that does not respond must not delay the program or its exit.
        Thread(target=_probe, args=(url, probe), daemon=True).start()
    wait(probes.values(), SEARCH_SECONDS)
    found = ((url, probe.result()) for url, probe in probes.items() if probe.done())
    return next((f"{url}#{name}" for url, name in found if name), None)


def _probe(url: str, probe: "Future[str | None]") -> None:
    name = None
    try:
        # No proxy: it would probe its own machine.
        with build_opener(ProxyHandler({})).open(f"{url}/models", timeout=SEARCH_SECONDS) as answer:
            name = _first_chat_model(json.loads(answer.read(MAX_BYTES)))
    except Exception:  # top of a thread; any program may listen there
        name = None
    probe.set_result(name)


def _first_chat_model(listed: Any) -> str | None:
    """The first model that is not for embeddings."""
    names = [model["id"] for model in listed["data"] if isinstance(model["id"], str)]
    return next((name for name in names if "embed" not in name.lower()), None)


def display_name(model: str) -> str:
    """The model's name, without credentials in a URL."""
    if not model.startswith(("http://", "https://")):
        return model
    url, _, name = model.partition("#")
    return f"{shown_url(url)}#{name}" if name else shown_url(url)


def advice(reason: str) -> str | None:
    """A hint for the terminal about a model that cannot be used; None if the reason is clear enough.

    Providers address programmers in their messages.
    """
    if missing := re.search(r"[Ss]et the `(\w+)` environment variable", reason):
        where = "in the environment or in a .env beside the config"
        return f"{missing[1]} is not set; set it {where}, or pass another model"
    if needed := re.search(r"[Ii]nstall the `([\w-]+)` package.*(pip install \S+)`", reason):
        return f"needs the {needed[1]} package; {needed[2]}"
    if reason.startswith(("Unknown model", "Unknown provider")) and "Did you mean" not in reason:
        return "unknown; name it as provider:model, such as openai:gpt-5.1, or by the URL of a local server"
    return None
