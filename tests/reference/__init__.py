"""Float64 reference models of the 95 WebNN operators, written from the spec's operator semantics alone.

`evaluate` computes floats in float64 and integers exactly, and rounds once to the output type. Where the spec is silent
the project's documented choices hold (wrap on overflow, x/0 = 0, saturating float to integer casts, NaN propagates in
min/max, clamped indices, the last duplicate of a scatter wins).
"""

from tests.reference import (  # noqa: F401  (importing a family registers its models)
    activation,
    casting,
    convolution,
    elementwise,
    indexing,
    matrix,
    normalization,
    pooling,
    quantization,
    recurrent,
    reduction,
    shaping,
)
from tests.reference.numbers import DATA_TYPES
from tests.reference.registry import MODELS, Model, evaluate, exact, names, output_type

__all__ = ["DATA_TYPES", "MODELS", "Model", "evaluate", "exact", "names", "output_type"]
