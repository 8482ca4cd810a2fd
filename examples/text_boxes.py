"""From a text-probability map to rotated boxes around the lines of text, in numpy alone.

These are the steps that the authors of the detector (DB, "Real-time Scene Text Detection with Differentiable
Binarization", AAAI 2020) put behind their network: threshold, connected regions, the smallest rectangle around each,
its mean probability as the score, and growth by a distance in proportion to area / perimeter, because the network
was trained on shrunken regions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
Floats = NDArray[np.floating]


@dataclass(frozen=True)
class TextBox:
    """One line of text: corners from top-left clockwise, shape (4, 2) of (x, y) in pixels, and a score in 0..1."""

    corners: Floats
    score: float

    @property
    def width(self) -> float:
        """Length of the longer of the two horizontal sides, in pixels."""
        top_left, top_right, bottom_right, bottom_left = self.corners
        return float(max(np.hypot(*(top_right - top_left)), np.hypot(*(bottom_right - bottom_left))))

    @property
    def height(self) -> float:
        """Length of the longer of the two vertical sides, in pixels."""
        top_left, top_right, bottom_right, bottom_left = self.corners
        return float(max(np.hypot(*(bottom_left - top_left)), np.hypot(*(bottom_right - top_right))))

    def upright(self) -> TextBox:
        """The same box, turned a quarter when it stands on end, so that its text runs along the first side."""
        if self.height < 1.5 * self.width:
            return self
        return TextBox(np.roll(self.corners, -1, axis=0), self.score)

    def upside_down(self) -> TextBox:
        """The same box, to be read from its other end."""
        return TextBox(np.roll(self.corners, 2, axis=0), self.score)


def find_text_boxes(
    probability: Floats, *, threshold: float = 0.3, min_score: float = 0.5, growth: float = 1.6, min_side: float = 3.0
) -> list[TextBox]:
    """Boxes of the lines in a (height, width) map of text probabilities, in reading order, in pixels of the map."""
    boxes = []
    for points in regions(dilate(probability > threshold)):
        box = smallest_rectangle(points)
        if min(box.width, box.height) < min_side:
            continue
        score = mean_inside(probability, box.corners)
        if score < min_score:
            continue
        grown = grow(box.corners, growth)
        if min(grown.width, grown.height) >= min_side + 2:
            boxes.append(TextBox(clockwise(grown.corners), score))
    return reading_order(boxes)


def dilate(mask: Mask) -> Mask:
    """Every pixel that is set, or whose left, upper or upper left neighbour is."""
    out = mask.copy()
    out[:, 1:] |= mask[:, :-1]
    out[1:] |= out[:-1].copy()
    return out


def regions(mask: Mask) -> list[NDArray[np.int64]]:
    """Connected regions (eight neighbours): for each an (n, 2) array of (x, y), the ends of its horizontal runs."""
    rows, starts, ends = runs(mask)
    if not rows.size:
        return []
    labels = join(rows.size, *touching(rows, starts, ends))
    order = np.argsort(labels, kind="stable")
    cuts = np.flatnonzero(np.diff(labels[order])) + 1
    ends_of_runs = np.stack([np.stack([starts, rows], 1), np.stack([ends - 1, rows], 1)], axis=1)
    return [ends_of_runs[part].reshape(-1, 2) for part in np.split(order, cuts)]


def runs(mask: Mask) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Horizontal runs of set pixels, top to bottom: their rows, first columns and columns after the last."""
    edges = np.diff(np.pad(mask.astype(np.int8), ((0, 0), (1, 1))), axis=1)
    rows, starts = np.nonzero(edges == 1)
    _, ends = np.nonzero(edges == -1)
    return rows, starts, ends


def touching(
    rows: NDArray[np.int64], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of runs of neighbouring rows that touch, corners included."""
    stride = int(ends.max()) + 2
    above = (rows - 1) * stride
    # Runs are sorted by row * stride + column, so that those of the row above that touch are one slice of the list.
    first = np.searchsorted(rows * stride + ends, above + starts, side="left")
    last = np.searchsorted(rows * stride + starts, above + ends, side="right")
    counts = np.maximum(last - first, 0)
    lower = np.repeat(np.arange(rows.size), counts)
    offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return lower, np.repeat(first, counts) + offsets


def join(count: int, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
    """Labels 0..count-1 made equal along the pairs (left, right): connected components by pointer jumping."""
    labels = np.arange(count)
    while True:
        a, b = labels[left], labels[right]
        if np.array_equal(a, b):
            return labels
        np.minimum.at(labels, np.maximum(a, b), np.minimum(a, b))
        while not np.array_equal(labels, labels[labels]):
            labels = labels[labels]


def convex_hull(points: NDArray[np.int64]) -> NDArray[np.int64]:
    """Corners of the convex hull of (n, 2) integer points, in order (Andrew's monotone chain)."""
    unique = np.unique(points, axis=0)
    if len(unique) < 3:
        return unique
    halves = []
    for chain in (unique.tolist(), unique[::-1].tolist()):
        half: list[list[int]] = []
        for x, y in chain:
            while len(half) > 1:
                (ax, ay), (bx, by) = half[-2], half[-1]
                if (bx - ax) * (y - ay) - (by - ay) * (x - ax) > 0:
                    break
                half.pop()
            half.append([x, y])
        halves += half[:-1]
    return np.array(halves)


def smallest_rectangle(points: NDArray[np.int64]) -> TextBox:
    """The rectangle of least area around points; one of its sides lies along an edge of their convex hull."""
    hull = convex_hull(points).astype(np.float64)
    edges = np.roll(hull, -1, axis=0) - hull
    lengths = np.hypot(edges[:, 0], edges[:, 1])
    along = edges[lengths > 0] / lengths[lengths > 0, None] if len(hull) > 1 else np.array([[1.0, 0.0]])
    across = np.stack([-along[:, 1], along[:, 0]], axis=1)
    u, v = along @ hull.T, across @ hull.T
    best = int(np.argmin(np.ptp(u, axis=1) * np.ptp(v, axis=1)))
    low_u, high_u, low_v, high_v = u[best].min(), u[best].max(), v[best].min(), v[best].max()
    corners = np.array([[low_u, low_v], [high_u, low_v], [high_u, high_v], [low_u, high_v]])
    return TextBox(corners @ np.stack([along[best], across[best]]), 1.0)


def grow(corners: Floats, ratio: float) -> TextBox:
    """A rectangle moved outwards on every side by ratio * area / perimeter."""
    box = TextBox(corners, 1.0)
    along = (corners[1] - corners[0]) / max(np.hypot(*(corners[1] - corners[0])), 1e-9)
    across = (corners[3] - corners[0]) / max(np.hypot(*(corners[3] - corners[0])), 1e-9)
    distance = ratio * box.width * box.height / (2 * (box.width + box.height))
    signs = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * distance
    return TextBox(corners + signs @ np.stack([along, across]), 1.0)


def clockwise(corners: Floats) -> Floats:
    """Corners ordered top-left, top-right, bottom-right, bottom-left."""
    by_x = corners[np.argsort(corners[:, 0], kind="stable")]
    left, right = by_x[:2], by_x[2:]
    top_left, bottom_left = left[np.argsort(left[:, 1], kind="stable")]
    top_right, bottom_right = right[np.argsort(right[:, 1], kind="stable")]
    return np.stack([top_left, top_right, bottom_right, bottom_left])


def mean_inside(image: Floats, corners: Floats) -> float:
    """Mean of the pixels whose centres lie in a convex quadrilateral (its edge included)."""
    low = np.clip(np.floor(corners.min(axis=0)).astype(int), 0, np.array(image.shape)[::-1] - 1)
    high = np.clip(np.ceil(corners.max(axis=0)).astype(int), 0, np.array(image.shape)[::-1] - 1)
    x, y = np.meshgrid(np.arange(low[0], high[0] + 1), np.arange(low[1], high[1] + 1))
    sides = []
    for (ax, ay), (bx, by) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        sides.append((bx - ax) * (y - ay) - (by - ay) * (x - ax))
    turn = np.stack(sides)
    inside = (turn >= -1e-6).all(axis=0) | (turn <= 1e-6).all(axis=0)
    patch = image[low[1] : high[1] + 1, low[0] : high[0] + 1]
    return float(patch[inside].mean()) if inside.any() else 0.0


def reading_order(boxes: list[TextBox]) -> list[TextBox]:
    """Boxes from top to bottom, and from left to right where their middles lie within half a line of each other."""
    lines: list[list[TextBox]] = []
    for box in sorted(boxes, key=lambda b: float(b.corners[:, 1].mean())):
        middle = float(box.corners[:, 1].mean())
        last = lines[-1][0] if lines else None
        if last is not None and middle - float(last.corners[:, 1].mean()) < 0.5 * min(last.height, box.height):
            lines[-1].append(box)
        else:
            lines.append([box])
    return [box for line in lines for box in sorted(line, key=lambda b: float(b.corners[:, 0].min()))]
