"""Each example runs as a user would run it, and says what it promises."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import webnn_cl

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
sys.path.insert(0, str(EXAMPLES))


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """One example in a process of its own."""
    command = [sys.executable, str(EXAMPLES / arguments[0]), *arguments[1:]]
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent)}
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)


def fetched(name: str) -> None:
    """Make sure of a package that an example needs; without a network the test is skipped, but never on CI."""
    packages = importlib.import_module("tests.models.packages")
    packages.available(getattr(packages, name))


def test_first_graph() -> None:
    done = run("first_graph.py")
    assert done.returncode == 0, done.stderr
    assert "times 100" in done.stdout


@pytest.mark.models
def test_classify() -> None:
    fetched("QONNX")
    done = run("classify.py")
    assert done.returncode == 0, done.stderr
    for digit in (3, 7, 1, 0):
        assert f"drawn {digit}: read {digit}" in done.stdout


@pytest.mark.models
def test_read_text_reads_its_own_picture() -> None:
    fetched("RAPIDOCR")
    done = run("read_text.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 lines read, all as drawn" in done.stdout
    assert "Compiling two networks" in done.stderr and " ms (" in done.stdout


@pytest.mark.models
def test_read_text_says_in_one_line_what_is_wrong(tmp_path: Path) -> None:
    fetched("RAPIDOCR")
    broken = tmp_path / "picture.png"
    broken.write_bytes(b"no picture")
    done = run("read_text.py", str(broken))
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("read_text: ") and len(done.stderr.splitlines()) == 1


def boxes_of(mask: np.ndarray) -> list[np.ndarray]:
    text_boxes = importlib.import_module("text_boxes")
    return [box.corners for box in text_boxes.find_text_boxes(mask.astype(np.float32))]


def test_text_boxes_of_two_bars_in_reading_order() -> None:
    """A bar grows by 1.6 x area / perimeter on each side; the mask is dilated by one pixel to the right and down."""
    probability = np.zeros((120, 200))
    probability[60:70, 20:100] = 1
    probability[20:30, 120:180] = 1
    first, second = boxes_of(probability)
    for corners, (left, top, right, bottom) in ((first, (120, 20, 180, 30)), (second, (20, 60, 100, 70))):
        grown = 1.6 * (right - left) * (bottom - top) / (2 * (right - left + bottom - top))
        expected = np.array([[left, top], [right, top], [right, bottom], [left, bottom]])
        signs = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
        np.testing.assert_allclose(corners, expected + grown * signs, atol=0.6)


def test_text_boxes_follow_a_slanted_bar() -> None:
    y, x = np.mgrid[:200, :200]
    along, across = (x - 100) * 0.8 + (y - 100) * 0.6, -(x - 100) * 0.6 + (y - 100) * 0.8
    (corners,) = boxes_of((abs(along) < 60) & (abs(across) < 6))
    direction = corners[1] - corners[0]
    np.testing.assert_allclose(direction / np.hypot(*direction), [0.8, 0.6], atol=0.02)


@pytest.mark.parametrize("seed", range(5))
def test_regions_are_those_of_a_flood_fill(seed: int) -> None:
    """Connected regions, checked against the plain way to find them."""
    text_boxes = importlib.import_module("text_boxes")
    mask = np.random.default_rng(seed).random((40, 60)) < 0.35
    expected = set()
    left = {(int(x), int(y)) for y, x in zip(*np.nonzero(mask), strict=True)}
    while left:
        queue, region = [left.pop()], set()
        while queue:
            x, y = queue.pop()
            region.add((x, y))
            near = {(x + dx, y + dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1)} & left
            left -= near
            queue += near
        expected.add(frozenset(region))
    found = set()
    for ends in text_boxes.regions(mask):
        pairs = ends.reshape(-1, 2, 2)
        found.add(frozenset((x, int(a[1])) for a, b in pairs for x in range(a[0], b[0] + 1)))
    assert found == expected


def test_damaged_package_is_fetched_again_and_never_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = importlib.import_module("model_packages")
    monkeypatch.setenv("WEBNN_CL_MODELS", str(tmp_path))
    (tmp_path / packages.QONNX.wheel).write_bytes(b"damaged")
    asked = []

    def refuse(package: object, folder: Path) -> None:
        asked.append(package)
        raise packages.FetchError("no network")

    monkeypatch.setattr(packages, "download", refuse)
    with pytest.raises(packages.FetchError, match="no network"):
        packages.QONNX.read("anything")
    assert asked == [packages.QONNX]


@pytest.fixture(scope="module")
def context() -> Iterator[webnn_cl.MLContext]:
    with webnn_cl.ML().create_context() as ctx:
        yield ctx


def sample(picture: np.ndarray, corners: np.ndarray, rows: int, columns: int, grid: int) -> np.ndarray:
    """A quadrilateral of a picture, straightened: each element the mean of grid x grid bilinear samples."""
    v, u = np.mgrid[: rows * grid, : columns * grid] + 0.5
    u, v = (u / (columns * grid))[..., None], (v / (rows * grid))[..., None]
    a, b, c, d = corners
    at = (1 - v) * ((1 - u) * a + u * b) + v * ((1 - u) * d + u * c) - 0.5
    limit = np.array(picture.shape[1::-1]) - 1
    at = np.clip(at, 0, limit)
    low = at.astype(int)
    (x0, y0), (x1, y1) = low.T.swapaxes(1, 2), np.minimum(low + 1, limit).T.swapaxes(1, 2)
    fx, fy = (at - low)[..., :1], (at - low)[..., 1:]
    top = picture[y0, x0] * (1 - fx) + picture[y0, x1] * fx
    bottom = picture[y1, x0] * (1 - fx) + picture[y1, x1] * fx
    fine = (top * (1 - fy) + bottom * fy).reshape(rows, grid, columns, grid, 3).mean(axis=(1, 3))
    return fine[..., ::-1].transpose(2, 0, 1) / 127.5 - 1


def test_cut_out_straightens_boxes(context: webnn_cl.MLContext) -> None:
    """One slanted box that is enlarged, and one that shrinks to a half and leaves columns unused."""
    text_reader = importlib.import_module("text_reader")
    kernels = text_reader.OwnKernels(context)
    picture = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    slanted = np.array([[10, 12], [40, 22], [38, 30], [8, 20]], np.float32)
    straight = np.array([[0, 0], [48, 0], [48, 32], [0, 32]], np.float32)
    source = context.create_tensor(picture.shape, "uint8", exportable=True, writable=True)
    boxes = context.create_tensor((2, 9), exportable=True, writable=True)
    out = context.create_tensor((2, 3, 16, 40), exportable=True, readable=True)
    context.write_tensor(source, picture)
    context.write_tensor(boxes, np.array([[*slanted.ravel(), 40], [*straight.ravel(), 24]], np.float32))
    kernels.cut_out(source, boxes, out)
    found = context.read_tensor(out)
    np.testing.assert_allclose(found[0], sample(picture, slanted, 16, 40, 1), atol=1e-4)
    np.testing.assert_allclose(found[1, ..., :24], sample(picture, straight, 16, 24, 2), atol=1e-4)
    assert not found[1, ..., 24:].any()


def test_arg_max_takes_the_first_of_the_largest(context: webnn_cl.MLContext) -> None:
    text_reader = importlib.import_module("text_reader")
    scores = np.random.default_rng(1).integers(0, 50, (3, 7, 100)).astype(np.float32)
    given = context.create_tensor(scores.shape, exportable=True, writable=True)
    best = context.create_tensor((3, 7), "int32", exportable=True, readable=True)
    value = context.create_tensor((3, 7), exportable=True, readable=True)
    context.write_tensor(given, scores)
    text_reader.OwnKernels(context).arg_max(given, best, value)
    np.testing.assert_array_equal(context.read_tensor(best), scores.argmax(axis=2))
    np.testing.assert_array_equal(context.read_tensor(value), scores.max(axis=2))
