"""A vector for each token, and their mean for a text: the vectors that the package wordllama carries.

They are read from its files; its own loader looks for the tokenizer in a folder that the package does not have.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from toolbus.search.encoders.unit import as_unit

_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"


def static_folder() -> Path | None:
    """The folder of the package, if it is installed."""
    found = find_spec("wordllama")
    if found is None or found.origin is None:
        return None
    folder = Path(found.origin).parent
    return folder if (folder / _WEIGHTS).is_file() and (folder / _TOKENIZER).is_file() else None


class StaticEncoder:
    """Fast and small; knows words, not sentences."""

    name = "wordllama-l2-256"

    def __init__(self, folder: Path) -> None:
        (self._vectors,) = load_file(folder / _WEIGHTS).values()
        self._tokenizer: Any = Tokenizer.from_file(str(folder / _TOKENIZER))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def encode(self, texts: Sequence[str]) -> Any:
        """The mean of the vectors of each text's tokens."""
        size = self._vectors.shape[1]
        found = numpy.zeros((len(texts), size), numpy.float32)
        for row, encoding in enumerate(self._tokenizer.encode_batch(list(texts), add_special_tokens=False)):
            if encoding.ids:
                found[row] = self._vectors[encoding.ids].mean(0, dtype=numpy.float32)
        return as_unit(found)
