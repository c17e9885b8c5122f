"""A vector for each token, and their mean for a text: the vectors that the package wordllama carries.

They are read from its files. Its code is not imported: it is compiled, and not for every machine.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import numpy
from tokenizers import Tokenizer

from toolbus.search.encoders.unit import as_unit

_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_load = cast("Callable[[Path], dict[str, Any]]", import_module("safetensors.numpy").load_file)
_MOST_TOKENS = 512


def static_folder() -> Path | None:
    """The folder of the package, if it is installed."""
    found = find_spec("wordllama")
    if found is None or found.origin is None:
        return None
    folder = Path(found.origin).parent
    return folder if (folder / _WEIGHTS).is_file() and (folder / _TOKENIZER).is_file() else None


class StaticEncoder:
    """Fast and small; knows words, not sentences."""

    name = "wordllama (static vectors)"
    kept_as = "wordllama-l2-supercat-256"
    local = True

    def __init__(self, folder: Path) -> None:
        self._vectors: Any = _load(folder / _WEIGHTS)["embedding.weight"]
        self._tokenizer: Any = Tokenizer.from_file(str(folder / _TOKENIZER))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(_MOST_TOKENS)

    def encode(self, texts: Sequence[str]) -> Any:
        """A vector for each text."""
        size = len(self._vectors)
        found = numpy.zeros((len(texts), self._vectors.shape[1]), numpy.float32)
        for row, encoding in enumerate(self._tokenizer.encode_batch(list(texts), add_special_tokens=False)):
            tokens = [token for token in encoding.ids if token < size]
            if tokens:
                found[row] = self._vectors[tokens].astype(numpy.float32).mean(0)
        return as_unit(found)
