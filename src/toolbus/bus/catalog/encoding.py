"""The encoder of a bus: from its config, or a function of the program."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from toolbus.config import BusConfig, GetSecret, Secrets
from toolbus.config.secrets.lookup import MissingValue
from toolbus.config.secrets.reference import Reference, parsed
from toolbus.config.settings.search import Embeddings, Search
from toolbus.search.encoders.encoder import (
    EmbeddingsService,
    Encoder,
    EncodingFailed,
    EncodingFunction,
    FunctionEncoder,
)
from toolbus.search.encoders.installed import best_encoder, check_packages, minilm_encoder, static_encoder
from toolbus.search.encoding import Encoding

_INSTALLED: dict[object, Callable[[], Encoder]] = {
    "auto": best_encoder,
    "minilm": minilm_encoder,
    "static": static_encoder,
}


class EncoderSource(Protocol):
    """The encoder and secrets that a program provides."""

    @property
    def encoder(self) -> EncodingFunction | None:
        """Its own encoder."""
        ...

    @property
    def get_secret(self) -> GetSecret | None:
        """The program's source of secrets."""
        ...


class BusEncoding:
    """The encoding that all users of a bus share; another one after its config has changed."""

    def __init__(self, config: BusConfig, extensions: EncoderSource) -> None:
        self._function, self._get_secret = extensions.encoder, extensions.get_secret
        self._search: Search | None = None
        self.now: Encoding | None = None
        """None if tools are searched by words alone."""
        self.use(config)

    def use(self, config: BusConfig) -> None:
        """Use the encoder of a config, unless the program provides a function."""
        if config.search == self._search:
            return
        self.close()
        self._search = config.search
        self.now = self._made(config)

    def close(self) -> None:
        """Stop encoding."""
        if self.now is not None:
            self.now.close()

    def _made(self, config: BusConfig) -> Encoding | None:
        function, wanted = self._function, config.search.encoder
        if function is not None:
            return Encoding(lambda: _of_function(function))
        if wanted == "none":
            return None
        if isinstance(wanted, Embeddings):
            secrets = Secrets(self._get_secret, config.folder, config.reviewed, "")
            return Encoding(lambda: _service(wanted, secrets))
        return Encoding(_INSTALLED[wanted], quiet=wanted == "auto")


def _of_function(function: EncodingFunction) -> Encoder:
    check_packages()
    return FunctionEncoder(function)


def _service(wanted: Embeddings, secrets: Secrets) -> Encoder:
    check_packages()
    key = None if wanted.key is None else asyncio.run(_filled(wanted.key, secrets))
    return EmbeddingsService(wanted.url, wanted.model, key)


async def _filled(text: str, secrets: Secrets) -> str:
    """The text with its references filled in; `EncodingFailed` names a secret that is not there."""
    value = ""
    for part in parsed(text, key="search.encoder.key"):
        if isinstance(part, Reference):
            found = await secrets.find(part)
            if isinstance(found, MissingValue):
                raise EncodingFailed(f"search.encoder.key: secret {part.label!r} {found.reason}")
            part = found.value
        value += part
    return value
