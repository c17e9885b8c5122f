"""Encoders, and why there may be none; a function of the user, or a service, can be one."""

import asyncio
import inspect
import json
import urllib.error
import urllib.request
import weakref
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeAlias, cast

Vectors: TypeAlias = Any
"""A row for each text: a matrix of numpy, or lists of numbers."""


class Encoder(Protocol):
    """Turns texts into vectors of one length."""

    @property
    def name(self) -> str: ...

    @property
    def kept_as(self) -> str:
        """The name under which its vectors are kept, one for every model; empty if they are not kept."""
        ...

    @property
    def local(self) -> bool:
        """Whether a query is encoded in milliseconds, so that a search may wait for it."""
        ...

    def encode(self, texts: Sequence[str]) -> Vectors:
        """A vector for each text; called from any thread. `EncodingFailed` if there are none."""
        ...


class EncodingFailed(Exception):
    """Vectors cannot be made; `str()` is the reason, without secrets."""

    def __init__(self, reason: str, *, retry: bool = True) -> None:
        super().__init__(reason)
        self.retry = retry
        """Whether it may work later."""


EncodingFunction: TypeAlias = Callable[[list[str]], Vectors | Awaitable[Vectors]]
"""Takes texts and returns a vector for each; may be async."""


class FunctionEncoder:
    """Calls the function in the thread that makes vectors, an async one in a loop of its own there.

    Its vectors are kept under its attribute `name`; without one, nobody knows whether it is still the same.
    """

    local = False

    def __init__(self, function: EncodingFunction) -> None:
        self._function = function
        given: Any = getattr(function, "name", None)
        self.kept_as = f"function {given}" if isinstance(given, str) and given else ""
        self.name = given if self.kept_as else getattr(function, "__name__", type(function).__name__)
        self._runner: asyncio.Runner | None = None

    def encode(self, texts: Sequence[str]) -> Vectors:
        """The vectors from the function; `EncodingFailed` with the kind of error if it raises."""
        try:
            found = self._function(list(texts))
            return self._awaited(found) if inspect.isawaitable(found) else found
        except Exception as error:  # the user's code
            raise EncodingFailed(f"encoder {self.name!r} failed: {type(error).__name__}: {error}") from error

    def _awaited(self, found: Awaitable[Vectors]) -> Vectors:
        async def waited() -> Vectors:
            return await found

        # One loop for all calls, because clients of services stay connected to theirs.
        if self._runner is None:
            self._runner = asyncio.Runner()
            weakref.finalize(self, self._runner.close)
        return self._runner.run(waited())


_TIMEOUT = 30.0
_MOST_BYTES = 64_000_000
"""Of an answer: 32 vectors of a few thousand numbers have less than 4 MB."""
_MOST_CHARACTERS = 2_000
"""Of a text, because services refuse a text that is longer than their model reads."""


class EmbeddingsService:
    """Asks the service; its answers are vectors or a reason."""

    local = False

    def __init__(self, url: str, model: str, key: str | None) -> None:
        self._url, self._model, self._key = f"{url.rstrip('/')}/embeddings", model, key
        self.name = f"{model} at {url.rstrip('/')}"
        self.kept_as = f"service {model} {self._url}"
        self._opener = urllib.request.build_opener(_NoRedirects())

    def __repr__(self) -> str:
        return f"EmbeddingsService({self.name!r})"

    def encode(self, texts: Sequence[str]) -> Vectors:
        """A vector for each text, in their order."""
        # Some services refuse an empty text, and with it all others.
        inputs = [text[:_MOST_CHARACTERS].strip() or "." for text in texts]
        answer = self._post({"model": self._model, "input": inputs, "encoding_format": "float"})
        try:
            listed = cast("list[Any]", answer["data"])
            rows = sorted(enumerate(listed), key=lambda pair: cast("int", pair[1].get("index", pair[0])))
            found = [row["embedding"] for _, row in rows]
        except (KeyError, TypeError, AttributeError):
            raise EncodingFailed(f"{self.name}: the answer has no embeddings") from None
        if len(found) != len(texts):
            raise EncodingFailed(f"{self.name}: {len(found)} embeddings for {len(texts)} texts")
        return found

    def _post(self, body: dict[str, Any]) -> Any:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        request = urllib.request.Request(self._url, json.dumps(body).encode(), headers, method="POST")
        try:
            with self._opener.open(request, timeout=_TIMEOUT) as response:
                content = response.read(_MOST_BYTES + 1)
        except urllib.error.HTTPError as error:
            error.close()
            hint = "; check search.encoder.key" if error.code in (401, 403) else ""
            raise EncodingFailed(f"{self.name} answered {error.code}{hint}") from None
        except (OSError, ValueError) as error:  # ValueError: a header that cannot be sent
            reason = getattr(error, "reason", error)
            why = getattr(reason, "strerror", None) or type(reason).__name__
            raise EncodingFailed(f"{self.name} cannot be reached: {why}") from None
        if len(content) > _MOST_BYTES:
            raise EncodingFailed(f"{self.name}: the answer is too long")
        try:
            return json.loads(content)
        except ValueError:
            raise EncodingFailed(f"{self.name}: the answer is not JSON") from None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The key is for the configured service only; a redirect is an error with its status."""

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any) -> None:
        return None
