"""Vectors of length 1, so that a product of two says how alike they are."""

from typing import Any

import numpy


def as_unit(vectors: Any) -> Any:
    """The rows, each with length 1; rows of zeros stay, and so does what is not a number."""
    rows = numpy.asarray(vectors, numpy.float32)
    lengths = numpy.linalg.norm(rows, axis=-1, keepdims=True)
    return rows / numpy.maximum(lengths, 1e-12)
