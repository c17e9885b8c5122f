"""Vectors of length 1, whose product is their likeness."""

from typing import Any

import numpy


def as_unit(vectors: Any) -> Any:
    """The same directions, each of length 1; a vector without a direction stays zero."""
    matrix = numpy.asarray(vectors, numpy.float32)
    return matrix / numpy.maximum(numpy.linalg.norm(matrix, axis=1, keepdims=True), 1e-9)
