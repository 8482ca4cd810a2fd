"""One context for the model tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import webnn_cl


@pytest.fixture(scope="module")
def context() -> Iterator[webnn_cl.MLContext]:
    """A context on the default device."""
    with webnn_cl.ML().create_context() as ctx:
        yield ctx
