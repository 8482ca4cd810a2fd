"""The CPU kernels of convolutions: every variant over odd shapes and options, against float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl as cl
import pytest

from tests.reference.convolution import reorder
from tests.reference.registry import exact
from webnn_cl import ML, MLTypeError
from webnn_cl.tiles import variants
from webnn_cl.tiles.winograd import LARGE

FILTERS = {"conv2d": ("oihw", "hwio", "ohwi", "ihwo"), "conv_transpose2d": ("iohw", "hwoi", "ohwi")}


@pytest.fixture(autouse=True)
def on_a_cpu(context: Any) -> None:
    if not context._facts.is_cpu:
        pytest.skip("device is no CPU: these kernels are not used")


@pytest.fixture
def force(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let nodes take the variant that is named here, and count those that do."""
    taken = []
    default = variants.default_variant

    def use(name: str) -> list[str]:
        def choose(node: Any, facts: Any) -> str:
            found = name if name in variants.candidates(node, facts) else default(node, facts)
            taken.append(found)
            return found

        monkeypatch.setattr(variants, "default_variant", choose)
        return taken

    return use


class Case:
    """One convolution with its data: arrays in the layouts of `options`."""

    def __init__(self, op: str, x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, **options: Any) -> None:
        self.op, self.options = op, options
        self.x = np.ascontiguousarray(reorder(x, "nchw", options["input_layout"]))
        self.w = np.ascontiguousarray(reorder(w, FILTERS[op][0], options["filter_layout"]))
        self.bias = bias
        self.terms = w[0].size if op == "conv2d" else w[:, 0].size

    def __repr__(self) -> str:
        bias = "" if self.bias is None else "bias, "
        return f"{self.op}({self.x.dtype}{list(self.x.shape)}, {list(self.w.shape)}, {bias}{self.options})"

    def inputs(self) -> dict[str, np.ndarray]:
        return {"input": self.x, "filter": self.w} | ({} if self.bias is None else {"bias": self.bias})

    def wanted(self) -> np.ndarray:
        with np.errstate(all="ignore"):
            return exact(self.op, self.inputs(), self.options)[0]

    def node(self, builder: Any, constant: bool = True) -> Any:
        x = builder.input("x", self.x.shape, self.x.dtype)
        w = builder.constant(self.w) if constant else builder.input("w", self.w.shape, self.w.dtype)
        bias = None if self.bias is None else builder.constant(self.bias)
        return getattr(builder, self.op)(x, w, bias=bias, **self.options)

    def run(self, context: Any, constant: bool = True) -> np.ndarray:
        builder = context.create_graph_builder()
        graph = builder.build({"y": self.node(builder, constant)})
        return context.compute(graph, {"x": self.x} if constant else {"x": self.x, "w": self.w})["y"]

    def error(self, actual: np.ndarray) -> float:
        """Largest distance from float64, relative to the largest result."""
        wanted = self.wanted()
        assert actual.shape == wanted.shape, self
        assert np.isfinite(actual).all(), self
        return float(np.abs(actual - wanted).max() / max(np.abs(wanted).max(), 1e-20))


def draw(rng: np.random.Generator, op: str, depthwise: bool = False, **fixed: Any) -> Case:
    """A random convolution that has at least one output pixel; `fixed` overrides what is drawn."""
    while True:
        groups = int(rng.choice([1, 1, 1, 2, 3]))
        c, o = int(rng.integers(1, 20)) * groups, int(rng.integers(1, 36)) * groups
        if depthwise:
            groups = o = c = int(rng.integers(2, 70))
        options = {
            "padding": tuple(int(p) for p in rng.integers(0, 4, 4)),
            "strides": tuple(int(s) for s in rng.choice([1, 1, 2, 3], 2)),
            "dilations": tuple(int(d) for d in rng.choice([1, 1, 1, 2, 3], 2)),
            "groups": groups,
            "input_layout": str(rng.choice(["nchw", "nhwc"])),
            "filter_layout": str(rng.choice(FILTERS[op])),
        }
        taps = tuple(int(k) for k in rng.integers(1, 6, 2))
        options |= {k: v for k, v in fixed.items() if k in options}
        taps, c, o = fixed.get("taps", taps), fixed.get("channels", c), fixed.get("outputs", o)
        n, h, w = int(rng.choice([1, 1, 2, 3])), *(int(e) for e in rng.integers(1, 40, 2))
        sizes = [e + sum(options["padding"][2 * d : 2 * d + 2]) for d, e in enumerate((h, w))]
        reach = [(taps[d] - 1) * options["dilations"][d] + 1 for d in (0, 1)]
        if op == "conv2d":
            if any(size < r for size, r in zip(sizes, reach, strict=True)):
                continue
            shape = (o, c // options["groups"], *taps)
        else:
            pads = [sum(options["padding"][2 * d : 2 * d + 2]) for d in (0, 1)]
            if any((e - 1) * options["strides"][d] + reach[d] <= pads[d] for d, e in enumerate((h, w))):
                continue
            options["output_padding"] = tuple(int(rng.integers(0, s)) for s in options["strides"])
            shape = (c, o // options["groups"], *taps)
        data_type = fixed.get("data_type", str(rng.choice(["float32", "float32", "float16"])))
        x, filter = (rng.standard_normal(s).astype(data_type) for s in ((n, c, h, w), shape))
        bias = rng.standard_normal(o).astype(data_type) if rng.random() < 0.6 else None
        return Case(op, x, filter, bias, **options)


def check(context: Any, case: Case, constant: bool = True, allowed: float = 2e-6) -> None:
    """Within `allowed` of the largest result, or the spacing of float16."""
    error = case.error(case.run(context, constant))
    assert error <= (1e-3 if case.x.dtype == np.float16 else allowed), (case, error)


@pytest.mark.parametrize("op", ["conv2d", "conv_transpose2d"])
@pytest.mark.parametrize("name", ["rows", "pixels"])
@pytest.mark.parametrize("seed", range(4))
def test_kernels_that_serve_every_option(context: Any, force: Any, name: str, op: str, seed: int) -> None:
    rng = np.random.default_rng([1, seed])
    taken = force(name)
    for _ in range(25):
        check(context, draw(rng, op), constant=rng.random() < 0.8)
    assert set(taken) == {name}


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_rows_of_few_and_of_many_channels(context: Any, force: Any, layout: str) -> None:
    """Rows copied together, runs that are longer than a register sums, and panels with columns left over."""
    force("rows")
    rng = np.random.default_rng(2)
    for channels in (1, 3, 4, 15, 16, 17, 200):
        for outputs in (1, 8, 9, 16, 24, 40):
            fixed = {"taps": (3, 3), "groups": 1, "padding": (1, 1, 1, 1), "dilations": (1, 1)}
            check(context, draw(rng, "conv2d", channels=channels, outputs=outputs, input_layout=layout, **fixed))


@pytest.mark.parametrize("seed", range(4))
def test_few_input_channels(context: Any, force: Any, seed: int) -> None:
    """Windows of every kind over one to fifteen channels; the images lie in either order."""
    rng = np.random.default_rng([12, seed])
    taken = force("few")
    for _ in range(25):
        taps = tuple(int(k) for k in rng.integers(1, 8, 2))
        channels = int(rng.choice([1, 2, 3, 4, 7, 15]))
        if taps[0] * taps[1] * channels > 256:
            continue
        fixed = {"channels": channels, "taps": taps, "groups": 1, "input_layout": "nhwc"}
        case = draw(rng, "conv2d", **fixed)
        check(context, case, constant=rng.random() < 0.8)
        # The same image, transposed by the graph: read where it lies.
        planar = np.ascontiguousarray(case.x.transpose(0, 3, 1, 2))
        builder = context.create_graph_builder()
        bias = None if case.bias is None else builder.constant(case.bias)
        x = builder.transpose(builder.input("x", planar.shape, planar.dtype), permutation=[0, 2, 3, 1])
        y = builder.conv2d(x, builder.constant(case.w), bias=bias, **case.options)
        graph = builder.build({"y": y})
        assert graph._executable.kernel_count == 1
        assert case.error(context.compute(graph, {"x": planar})["y"]) <= (1e-3 if case.x.dtype == np.float16 else 2e-6)
    assert set(taken) == {"few"}


@pytest.mark.parametrize(("layout", "name"), [("nchw", "pixels"), ("nhwc", "few")])
def test_what_few_input_channels_take(context: Any, force: Any, layout: str, name: str) -> None:
    taken = force("")
    rng = np.random.default_rng(14)
    fixed = {"channels": 3, "outputs": 20, "taps": (3, 3), "groups": 1, "strides": (2, 2), "dilations": (1, 1)}
    check(context, draw(rng, "conv2d", input_layout=layout, **fixed))
    assert taken == [name]


def test_few_input_channels_of_wide_images(context: Any, force: Any) -> None:
    """More columns than a work-item copies at once."""
    taken = force("few")
    rng = np.random.default_rng(13)
    for width, stride in ((2500, 1), (2501, 2), (1203, 3)):
        x, w = rng.standard_normal((2, 3, 7, width)), rng.standard_normal((20, 3, 5, 3))
        options = {"padding": (2, 1, 1, 0), "strides": (1, stride), "input_layout": "nhwc", "filter_layout": "oihw"}
        check(context, Case("conv2d", x.astype(np.float32), w.astype(np.float32), None, **options))
    assert set(taken) == {"few"}


@pytest.mark.parametrize("seed", range(4))
def test_depthwise(context: Any, force: Any, seed: int) -> None:
    rng = np.random.default_rng([3, seed])
    taken = force("depthwise")
    for _ in range(25):
        check(context, draw(rng, "conv2d", depthwise=True), constant=rng.random() < 0.8)
    assert set(taken) == {"depthwise"}


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_few_outputs_take_lanes_of_pixels(context: Any, force: Any, layout: str) -> None:
    """By rule, with and without groups; some copy a group in pieces, in some rows follow each other without a gap."""
    taken = force("by rule")
    rng = np.random.default_rng(12)
    shapes = ((3, 1, 2), (5, 4, 4), (9, 8, 8), (2, 5, 3), (3, 16, 16), (2, 130, 9), (1, 40, 1), (1, 16, 6))
    for groups, inputs, outputs in shapes:
        for stride in (1, 2, 3):
            x = rng.standard_normal((2, groups * inputs, 21, 22)).astype(np.float32)
            w = rng.standard_normal((groups * outputs, inputs, 3, 3)).astype(np.float32)
            options = {"padding": (1, 1, 1, 1), "strides": (stride, stride), "groups": groups}
            case = Case("conv2d", x, w, None, **options, input_layout=layout, filter_layout="oihw")
            check(context, case)
    assert set(taken) == {"pixels"}


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_transposed_convolutions_take_lanes_of_pixels(context: Any, force: Any, stride: int, layout: str) -> None:
    """By rule, where planes would be turned or channels not fill a panel; the phases of a row leave together."""
    taken = force("by rule")
    rng = np.random.default_rng(13)
    for outputs in (1, 3, 12, 40) if layout == "nchw" else (1, 3, 12):
        x = rng.standard_normal((2, 20, 17, 19)).astype(np.float32)
        w, bias = rng.standard_normal((20, outputs, 4, 4)).astype(np.float32), np.arange(outputs, dtype=np.float32)
        options = {"padding": (1, 1, 1, 1), "strides": (stride, stride), "groups": 1, "output_padding": (stride - 1, 0)}
        check(context, Case("conv_transpose2d", x, w, bias, **options, input_layout=layout, filter_layout="iohw"))
    assert set(taken) == {"pixels"}


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_one_tap_is_a_product(context: Any, layout: str) -> None:
    rng = np.random.default_rng(4)
    fixed = {"taps": (1, 1), "groups": 1, "padding": (0, 0, 0, 0), "strides": (1, 1), "input_layout": layout}
    for _ in range(40):
        check(context, draw(rng, "conv2d", **fixed), constant=rng.random() < 0.8)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_windows_that_tile_the_output(context: Any, force: Any, layout: str) -> None:
    """Transposed convolutions as one product; one output channel leaves pairs of pixels interleaved."""
    taken = force("blocks")
    rng = np.random.default_rng(11)
    for outputs in (1, 1, 2, 5, 8, 16, 24, 40):
        for taps in ((2, 2), (3, 2), (1, 4), (2, 3)):
            fixed = {"taps": taps, "strides": taps, "padding": (0, 0, 0, 0), "dilations": (1, 1), "groups": 1}
            case = draw(rng, "conv_transpose2d", outputs=outputs, input_layout=layout, **fixed)
            case.options["output_padding"] = (0, 0)
            check(context, case, constant=rng.random() < 0.8)
    assert "blocks" in taken
    assert layout == "nchw" or set(taken) == {"blocks"}


FEW = {"channels": 3, "taps": (4, 3), "groups": 1, "input_layout": "nhwc"}
PLAIN_3X3 = {"taps": (3, 3), "groups": 1, "strides": (1, 1)}
WIDE_3X3 = PLAIN_3X3 | {"channels": 19, "outputs": 27}


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("name", ["winograd", "winograd2"])
@pytest.mark.parametrize("seed", range(3))
def test_winograd(context: Any, force: Any, name: str, layout: str, seed: int) -> None:
    rng = np.random.default_rng([5, seed])
    taken = force(name)
    for _ in range(15):
        fixed = {"channels": int(rng.integers(8, 80)), "outputs": int(rng.integers(8, 60)), "input_layout": layout}
        allowed = 2e-5 if name == "winograd" else 4e-6
        check(context, draw(rng, "conv2d", **PLAIN_3X3, **fixed), allowed=allowed)
    assert set(taken) == {name}


@pytest.mark.parametrize("name", ["winograd", "winograd2"])
@pytest.mark.parametrize("channels", [8, 64, 130, 512, 1030])
@pytest.mark.parametrize("kind", ["normal", "positive", "heavy", "edges", "even", "ramp", "far from 0"])
def test_winograd_errs_less_than_2e_5_of_the_largest_result(
    context: Any, force: Any, name: str, channels: int, kind: str
) -> None:
    """F(4x4, 3x3) as far as its error allows it, F(2x2, 3x3) for any number of channels."""
    taken = force(name)
    rng = np.random.default_rng([6, channels])
    x, w = rng.standard_normal((1, channels, 16, 20)), rng.standard_normal((16, channels, 3, 3))
    if kind == "positive":
        x, w = np.abs(x), np.abs(w)
    elif kind == "heavy":
        x = x**5
    elif kind == "edges":
        w = np.broadcast_to(np.array([[1, 0, -1], [2, 0, -2], [1, 0, -1]]), w.shape)
    elif kind == "even":
        w = w / 5 + rng.standard_normal((16, channels, 1, 1))
    elif kind == "ramp":
        w = rng.standard_normal((16, channels, 1, 1)) * np.outer([1, 2, 3], [1, 2, 3])
    elif kind == "far from 0":
        x = x + 3
    options = {"padding": (1, 1, 1, 1), "input_layout": "nhwc", "filter_layout": "oihw"}
    case = Case("conv2d", x.astype(np.float32), w.astype(np.float32), None, **options)
    assert case.error(case.run(context)) < 2e-5
    assert ("winograd" in taken) == (name == "winograd" and channels <= LARGE.most_channels)


def test_winograd_is_for_constant_filters_and_can_be_turned_off(
    context: Any, force: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixed = {"channels": 32, "outputs": 32, "data_type": "float32", "padding": (1, 1, 1, 1)}
    case = draw(np.random.default_rng(7), "conv2d", **PLAIN_3X3, **fixed)
    taken = force("winograd")
    case.run(context)
    case.run(context, constant=False)
    monkeypatch.setenv("WEBNN_CL_WINOGRAD", "0")
    case.run(context)
    monkeypatch.delenv("WEBNN_CL_WINOGRAD")
    exact = ML().create_context(device=context.device, precision="exact")
    assert (context.precision, exact.precision) == ("fast", "exact")
    with exact:
        check(exact, case)
    assert taken == ["winograd", "rows", "rows", "rows"]


def test_a_precision_that_there_is_not() -> None:
    with pytest.raises(MLTypeError, match="precision: got 'fp8'; allowed: fast, exact"):
        ML().create_context(precision="fp8")


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("name", ["rows", "pixels", "few", "winograd", "winograd2"])
def test_what_is_not_finite_reaches_its_window_and_no_further(context: Any, force: Any, name: str, layout: str) -> None:
    force(name)
    rng = np.random.default_rng(8)
    x, w = rng.standard_normal((1, 9, 13, 14)).astype(np.float32), rng.standard_normal((11, 9, 3, 3)).astype(np.float32)
    x[0, 3, 5, 6], x[0, 4, 0, 0], x[0, 2, 12, 13], x[0, 1, 8, 8] = np.inf, np.nan, 3e38, -np.inf
    case = Case("conv2d", x, w, None, padding=(1, 1, 1, 1), input_layout=layout, filter_layout="oihw")
    actual = case.run(context)
    with np.errstate(all="ignore"):
        wanted = case.wanted().astype(np.float32)
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(wanted))
    np.testing.assert_array_equal(np.isinf(actual), np.isinf(wanted))
    small = np.abs(wanted) < 1e6
    np.testing.assert_allclose(actual[small], wanted[small], atol=1e-3)


IN_BOTH_LAYOUTS = ("rows", "pixels", "winograd", "winograd2", "depthwise", "product")


@pytest.mark.parametrize(
    ("name", "layout"), [*((name, layout) for name in IN_BOTH_LAYOUTS for layout in ("nchw", "nhwc")), ("few", "nhwc")]
)
def test_an_epilogue_of_every_variant(context: Any, force: Any, name: str, layout: str) -> None:
    """relu(conv + x + row) / 2, fused where results leave."""
    taken = force(name)
    rng = np.random.default_rng(9)
    fixed: dict[str, Any] = {"input_layout": layout, "data_type": "float32"}
    if name == "few":
        fixed |= FEW
    if name in ("winograd", "winograd2", "product"):
        fixed |= WIDE_3X3 if name != "product" else PLAIN_3X3 | {"taps": (1, 1), "padding": (0, 0, 0, 0)}
    for _ in range(12):
        case = draw(rng, "conv2d", depthwise=name == "depthwise", **fixed)
        wanted = case.wanted()
        other = rng.standard_normal(wanted.shape).astype(np.float32)
        row = rng.standard_normal((wanted.shape[1], 1, 1) if layout == "nchw" else wanted.shape[3:]).astype(np.float32)
        builder = context.create_graph_builder()
        y = case.node(builder) + builder.input("other", other.shape)
        y = builder.relu(y + builder.constant(row)) / 2
        actual = context.compute(builder.build({"y": y}), {"x": case.x, "other": other})["y"]
        close = np.maximum(wanted + other + row, 0) / 2
        assert np.abs(actual - close).max() <= 2e-5 * np.abs(wanted).max() + 1e-6, case
    assert set(taken) == {name}


def imported(context: Any, values: np.ndarray, **use: bool) -> tuple[Any, cl.Buffer]:
    """A tensor in the middle of a buffer of NaN, and that buffer."""
    margin = 4096
    around = np.full(2 * margin + values.nbytes, 0xFF, np.uint8)
    around[margin : margin + values.nbytes] = values.reshape(-1).view(np.uint8)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    whole = cl.Buffer(context.cl_context, flags, hostbuf=around)
    part = whole.get_sub_region(margin, values.nbytes)
    return context.import_buffer(part, values.shape, values.dtype, **use), whole


@pytest.mark.parametrize("name", ["rows", "pixels", "few", "winograd", "winograd2", "depthwise", "product"])
def test_nothing_outside_a_tensor_is_used_or_written(context: Any, force: Any, name: str) -> None:
    force(name)
    rng = np.random.default_rng(10)
    fixed: dict[str, Any] = {"data_type": "float32"}
    if name == "few":
        fixed |= FEW
    if name in ("winograd", "winograd2", "product"):
        fixed |= WIDE_3X3 if name != "product" else PLAIN_3X3 | {"taps": (1, 1), "padding": (0, 0, 0, 0)}
    for _ in range(20):
        case = draw(rng, "conv2d", depthwise=name == "depthwise", **fixed)
        builder = context.create_graph_builder()
        graph = builder.build({"y": case.node(builder, constant=name.startswith("winograd"))})
        bound = {"x": imported(context, case.x)[0]}
        if not name.startswith("winograd"):
            bound["w"] = imported(context, case.w)[0]
        out, whole = imported(context, np.zeros(case.wanted().shape, np.float32), readable=True)
        context.dispatch(graph, bound, {"y": out})
        assert case.error(context.read_tensor(out)) <= 2e-5, case
        host = np.empty(whole.size, np.uint8)
        cl.enqueue_copy(context.queue, host, whole)
        assert (host[:4096] == 0xFF).all() and (host[4096 + out.nbytes :] == 0xFF).all(), case
