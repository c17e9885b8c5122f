"""An embeddings service with the API of OpenAI: POST {url}/embeddings with a model and texts."""

import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any, cast

from toolbus.search.encoders.encoder import EncodingFailed, Vectors

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
