"""Which model a chat is with: the one that was named, else the first that can be used.

A look at local servers takes less than a second, all of them together. A key is read only to hide it.
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

from toolbus.config import BusConfig, Secrets
from toolbus.config.lookup import Missing
from toolbus.config.project import DOTENV
from toolbus.config.redact import shown_url, spellings, url_secrets
from toolbus.core.errors import ToolbusError

KEYS = {
    "ANTHROPIC_API_KEY": "anthropic:claude-sonnet-4-5",
    "OPENAI_API_KEY": "openai:gpt-5.1",
    "GOOGLE_API_KEY": "google:gemini-flash-latest",
    "GEMINI_API_KEY": "google:gemini-flash-latest",
    "DEEPSEEK_API_KEY": "deepseek:deepseek-chat",
}
"""The model for whoever has such a key, the first that is found."""
LOCAL = {
    "Ollama": "http://127.0.0.1:11434/v1",
    "LM Studio": "http://127.0.0.1:1234/v1",
    "vLLM": "http://127.0.0.1:8000/v1",
    "llama.cpp": "http://127.0.0.1:8080/v1",
}
"""Where servers that speak as OpenAI does listen unless told otherwise."""
KEY = "_API_KEY"
LOOKING = 0.8
"""Seconds that all of them together get to answer."""
LONGEST = 1_000_000
"""Bytes of a list of models; on these ports anything may listen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A model, and the keys that are not in the environment."""

    model: str
    keys: Mapping[str, str] = field(repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be printed: keys, and the credentials of an address."""
        exported = [value for name, value in os.environ.items() if name.upper().endswith(KEY)]
        return spellings([*exported, *self.keys.values(), *url_secrets(self.model)])


class NoModel(ToolbusError):
    """No model was named, and none was found."""

    def __init__(self) -> None:
        places = ", ".join(f"{name} at {urlsplit(url).netloc}" for name, url in LOCAL.items())
        super().__init__(
            f"no model found: none of {', '.join(KEYS)} is set, and no local server responds ({places}); "
            "set a key in the environment or in a .env beside the config, start a server, "
            "or pass a model: --model openai:gpt-5.1"
        )


def keys_of(config: BusConfig) -> dict[str, str]:
    """The keys in the `.env` beside the config, by variable; never put into the environment, which servers
    may inherit."""
    values = Secrets(None, config.folder, config.reviewed).variables(DOTENV)
    if isinstance(values, Missing):
        return {}
    return {name: value for name, value in values.items() if name.upper().endswith(KEY) and value}


def chosen(named: str | None, keys: Mapping[str, str]) -> str:
    """The model to use, as `Agent` takes it; raises `NoModel`."""
    if named:
        return named
    by_key = (model for variable, model in KEYS.items() if os.environ.get(variable) or keys.get(variable))
    model = next(by_key, None) or answering(LOCAL)
    if model is None:
        raise NoModel
    return model


def answering(places: Mapping[str, str]) -> str | None:
    """A model of the first place, in their order, that has any: `URL#name`."""
    looks = {url: Future[str | None]() for url in places.values()}
    for url, look in looks.items():
        # Daemon: one that does not answer must not keep the program from going on, or from ending.
        Thread(target=_look, args=(url, look), daemon=True).start()
    wait(looks.values(), LOOKING)
    found = ((url, look.result()) for url, look in looks.items() if look.done())
    return next((f"{url}#{name}" for url, name in found if name), None)


def _look(url: str, look: "Future[str | None]") -> None:
    name = None
    try:
        # No proxy: it would look on a machine of its own.
        with build_opener(ProxyHandler({})).open(f"{url}/models", timeout=LOOKING) as answer:
            name = _talking(json.loads(answer.read(LONGEST)))
    except Exception:  # the edge of a thread, and whatever listens there may say anything
        name = None
    look.set_result(name)


def _talking(listed: Any) -> str | None:
    """The first model that is not one for embeddings: these stand in the same list, and cannot talk."""
    names = [model["id"] for model in listed["data"] if isinstance(model["id"], str)]
    return next((name for name in names if "embed" not in name.lower()), None)


def shown(model: str) -> str:
    """The model for people: no credentials of an address."""
    if not model.startswith(("http://", "https://")):
        return model
    url, _, name = model.partition("#")
    return f"{shown_url(url)}#{name}" if name else shown_url(url)


def advice(reason: str) -> str | None:
    """What to do in a terminal about a model that cannot be used; None if the reason says enough.

    Providers tell programmers which class to make.
    """
    if missing := re.search(r"[Ss]et the `(\w+)` environment variable", reason):
        where = "in the environment or in a .env beside the config"
        return f"{missing[1]} is not set; set it {where}, or pass another model"
    if needed := re.search(r"[Ii]nstall the `([\w-]+)` package.*(pip install \S+)`", reason):
        return f"needs the {needed[1]} package; {needed[2]}"
    if reason.startswith(("Unknown model", "Unknown provider")) and "Did you mean" not in reason:
        return "unknown; name it as provider:model, such as openai:gpt-5.1, or by the URL of a local server"
    return None
