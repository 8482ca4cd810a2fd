"""One context for all tests of the importer, so that kernels are built once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import webnn_cl


@pytest.fixture(scope="session")
def context() -> Iterator[webnn_cl.MLContext]:
    with webnn_cl.ML().create_context() as made:
        yield made
