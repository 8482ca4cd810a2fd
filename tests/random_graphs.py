"""Random valid graphs of 1 to 40 operators against the reference: `python -m tests.random_graphs --count 1000`.

The reference runs while a graph grows, so every step is chosen with its values in view. Integers, data movement and
comparisons are exact and stay comparable bit for bit. Of every other float value the generator carries a bound of how
far the device may be from the reference: what the operator itself may err (tests/tolerance.py) plus what the errors of
its operands turn into, estimated by evaluating the operator at shifted operands. A step is kept only while that bound
stays small and the values finite; operators that jump (comparisons, rounding, casts to integers) take exact operands
only. So nothing chaotic grows, and a mismatch means a wrong kernel or a wrong pass.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests import drawing, reference, spec, tolerance, values
from tests.cases import T
from tests.drawing.source import shape as draw_shape
from tests.harness import call
from tests.reference.numbers import is_float, round_to, wide

Array = np.ndarray[Any, Any]

LARGEST = 40  # operators
MAX_SIZE = 6000  # elements of a value
MAX_MAGNITUDE = {"float32": 1e5, "float16": 500.0}
# Errors above this share of a value's size make a comparison worthless.
MAX_ERROR = {"float32": 1e-3, "float16": 0.05}
JUMPING = {
    *("equal", "not_equal", "greater", "greater_or_equal", "lesser", "lesser_or_equal", "is_nan", "is_infinite"),
    *("ceil", "floor", "round_even", "sign", "quantize_linear", "arg_min", "arg_max"),
}
# Operators that hand values on: an operand's error passes through them unchanged.
PASSING = tolerance.BITS | {"max", "min", "relu", "clamp", "reduce_max", "reduce_min", "max_pool2d"}


@dataclass
class Value:
    """A value of the graph: its reference, and how far the device's may be from it (0 = exact)."""

    name: str
    array: Array
    error: Array | None = None
    constant: bool = False
    producer: Step | None = None

    @property
    def exact(self) -> bool:
        return self.error is None


@dataclass
class Step:
    """One operator call: operand names (lists for concat), parameters, names of its outputs."""

    op: str
    operands: dict[str, Any]
    attrs: dict[str, Any]
    outputs: list[str]

    def names(self) -> list[str]:
        """Names of all operands."""
        given = self.operands.values()
        return [name for item in given for name in (item if isinstance(item, list) else [item])]

    def __str__(self) -> str:
        operands = [f"{role}={item}" for role, item in self.operands.items()]
        attrs = [f"{key}={value!r}" for key, value in self.attrs.items()]
        return f"{', '.join(self.outputs)} = {self.op}({', '.join([*operands, *attrs])})".replace("'", "")


@dataclass
class Graph:
    """Values and steps in the order in which they were made."""

    values: dict[str, Value] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        sources = [v for v in self.values.values() if v.producer is None]
        lines = [
            f"{v.name}: {'constant' if v.constant else 'input'} {v.array.dtype}{list(v.array.shape)}" for v in sources
        ]
        return "\n".join([*lines, *map(str, self.steps), f"outputs: {', '.join(self.outputs)}"])


class Generator:
    """Grows one graph from a seed."""

    def __init__(self, seed: int, largest: int = LARGEST) -> None:
        self.rng = np.random.default_rng(seed)
        self.source = drawing.RandomSource(self.rng)
        self.graph = Graph()
        # Mostly small ones: they compile fast and say more when they fail.
        self.target = self.source.integer(1, self.source.choice((3, 6, 6, 6, 12, largest)))

    def generate(self) -> Graph:
        """A graph of up to `target` operators, its leaves and some more values as outputs."""
        for _ in range(self.source.integer(1, 3)):
            self.new_value(T(draw_shape(self.source, (0, 5)), self.data_type(spec.TYPES["any"].split()), "small"))
        attempts = 0
        while len(self.graph.steps) < self.target and attempts < 40 * self.target:
            attempts += 1
            self.try_step()
        if not self.graph.steps:
            self.add_step("identity", {"input": next(iter(self.graph.values.values()))}, {})
        self.choose_outputs()
        return self.graph

    def data_type(self, allowed: Sequence[str]) -> str:
        """Mostly float32, often float16, the others now and then."""
        likely = [t for t in ("float32", "float32", "float32", "float16", "int32", "uint8") if t in allowed]
        return self.source.choice(likely if likely and self.source.integer(0, 3) else list(allowed))

    def new_value(self, tensor: T) -> Value:
        """A new input or constant."""
        name = f"v{len(self.graph.values)}"
        array = values.make(tensor.values, tensor.shape, tensor.data_type, self.rng)
        value = Value(name, array, constant=bool(self.source.integer(0, 1)))
        self.graph.values[name] = value
        return value

    def try_step(self) -> None:
        """Draw an operator and operands for it; keep the step when it stays well-behaved."""
        op = self.source.choice(sorted(spec.OPERANDS))
        limits = spec.OPERANDS[op][drawing.first_role(op)]
        fitting = [
            v
            for v in self.graph.values.values()
            if str(v.array.dtype) in limits.data_types and limits.ranks[0] <= v.array.ndim <= limits.ranks[1]
        ]
        if fitting and self.source.integer(0, 9):
            # Late values more often: chains, not bushes.
            first = fitting[-1 - min(self.source.integer(0, 3), len(fitting) - 1)]
        elif len(self.graph.steps) < 3 or not self.source.integer(0, 4):
            first = self.new_value(T(draw_shape(self.source, limits.ranks), self.data_type(limits.data_types), "small"))
        else:
            return
        plan = drawing.PLANNERS[op](self.source, first.array.shape, str(first.array.dtype))
        if plan is not None:
            self.add_step(op, self.operands(op, first, plan), plan.attrs)

    def operands(self, op: str, first: Value, plan: drawing.Plan) -> dict[str, Any]:
        """Values for all operands: known ones of the right type and shape where the recipe leaves that open."""
        made: dict[str, Any] = {drawing.first_role(op): first}
        for role, tensor in plan.operands.items():
            known = [
                v
                for v in self.graph.values.values()
                if v.array.shape == tensor.shape and v.array.dtype == tensor.data_type
            ]
            free = role in ("a", "b", "c", "updates", "true_value", "false_value", "bias") or role.startswith("inputs")
            if known and free and self.source.integer(0, 2):
                made[role] = self.source.choice(known)
            else:
                tame = tensor.values if tensor.values not in ("edges", "wide", "nan") else "small"
                made[role] = self.new_value(T(tensor.shape, tensor.data_type, tame))
        if op == "concat":
            return {"inputs": list(made.values())}
        return made

    def add_step(self, op: str, operands: Mapping[str, Any], attrs: dict[str, Any]) -> None:
        """Evaluate the step and append it, unless its outputs are not worth comparing."""
        inputs = {role: [v.array for v in g] if isinstance(g, list) else g.array for role, g in operands.items()}
        given = [v for g in operands.values() for v in (g if isinstance(g, list) else [g])]
        outputs = step_values(op, operands, inputs, attrs, given, self.rng)
        if outputs is None:
            return
        names = {role: [v.name for v in g] if isinstance(g, list) else g.name for role, g in operands.items()}
        step = Step(op, names, attrs, [f"v{len(self.graph.values) + k}" for k in range(len(outputs))])
        self.graph.steps.append(step)
        for name, (array, error) in zip(step.outputs, outputs, strict=True):
            self.graph.values[name] = Value(name, array, error, producer=step)

    def choose_outputs(self) -> None:
        """All values that nothing uses, and a few of the others."""
        used = {name for step in self.graph.steps for name in step.names()}
        made = [name for step in self.graph.steps for name in step.outputs]
        self.graph.outputs = [name for name in made if name not in used or not self.source.integer(0, 7)]


def step_values(
    op: str,
    operands: Mapping[str, Any],
    inputs: dict[str, Any],
    attrs: dict[str, Any],
    given: Sequence[Value],
    rng: np.random.Generator,
) -> list[tuple[Array, Array | None]] | None:
    """Rounded outputs and their error bounds; None when the step must not be taken."""
    if not all(v.exact for v in given) and op in JUMPING:
        return None
    exact = reference.exact(op, inputs, attrs)
    data_type = reference.output_type(op, inputs, attrs)
    if not is_float(data_type) and not all(v.exact for v in given):
        return None
    allowed = tolerance.tolerance_of(op, inputs, attrs, exact)
    shifts = propagated(op, operands, inputs, attrs, exact, rng) if not all(v.exact for v in given) else None
    outputs = []
    for k, (raw, rule) in enumerate(zip(exact, allowed, strict=True)):
        if raw.size > MAX_SIZE:
            return None
        array = round_to(raw, data_type)
        error = output_error(op, raw, array, rule, None if shifts is None else shifts[k])
        if not worth_comparing(array, error):
            return None
        outputs.append((array, error))
    return outputs


def output_error(op: str, raw: Array, array: Array, rule: tolerance.Tolerance, shift: Array | None) -> Array | None:
    """How far the device may be from the rounded reference; None when it must be equal."""
    if not is_float(array.dtype):
        # Off by one is allowed next to a tie of quantization and resampling; such values are compared so at the end.
        return np.broadcast_to(rule.absolute, array.shape) if np.any(np.asarray(rule.absolute) > 0) else None
    if op in tolerance.BITS | tolerance.VALUES:
        return shift
    with np.errstate(all="ignore"):
        error = tolerance.allowed(wide(raw), str(array.dtype), rule) + np.abs(wide(array) - wide(raw))
    if shift is None:
        return error
    # Both sides round to float16, maybe to neighbours.
    return error + shift + (tolerance.ulp(wide(raw), "float16") if array.itemsize == 2 else 0.0)


def worth_comparing(array: Array, error: Array | None) -> bool:
    """Whether the value is finite, of moderate size and known well enough; exact values may be anything."""
    if error is None:
        return True
    if not is_float(array.dtype) or not np.all(np.isfinite(array)):
        return False
    data_type, size = str(array.dtype), np.abs(wide(array))
    if size.max() > MAX_MAGNITUDE[data_type]:
        return False
    return bool(np.all(error <= MAX_ERROR[data_type] * max(1.0, float(size.max()))) and np.all(np.isfinite(error)))


def propagated(
    op: str,
    operands: Mapping[str, Any],
    inputs: dict[str, Any],
    attrs: dict[str, Any],
    exact: Sequence[Array],
    rng: np.random.Generator,
) -> list[Array]:
    """What the operands' errors do to the outputs: the largest change over a few ways to shift the operands."""
    patterns: list[Callable[[Array], Array]] = [
        lambda x: np.ones(x.shape),
        lambda x: -np.ones(x.shape),
        lambda x: np.where(x < 0, -1.0, 1.0),
        *[lambda x: rng.choice([-1.0, 1.0], x.shape)] * 2,
    ]
    worst = [np.zeros(e.shape) for e in exact]
    for pattern in patterns:
        shifted = {}
        for role, item in operands.items():
            items = item if isinstance(item, list) else [item]
            moved = [v.array if v.exact else wide(v.array) + pattern(v.array) * v.error for v in items]
            if isinstance(item, list) and any(m.dtype == np.float64 for m in moved):
                moved = [wide(m) for m in moved]
            shifted[role] = moved if isinstance(item, list) else moved[0]
        with np.errstate(all="ignore"):
            changed = reference.exact(op, shifted, attrs)
        for k, (new, old) in enumerate(zip(changed, exact, strict=True)):
            with np.errstate(all="ignore"):
                worst[k] = np.maximum(worst[k], np.nan_to_num(np.abs(wide(new) - wide(old)), nan=np.inf))
    safety = 1.0 if op in PASSING else 1.5
    return [safety * w for w in worst]


# Running -------------------------------------------------------------------------------------------------------------


def evaluate(context: Any, graph: Graph) -> dict[str, Array]:
    """The graph's outputs on the device."""
    builder = context.create_graph_builder()
    known: dict[str, Any] = {}
    feeds: dict[str, Array] = {}
    needed = {name for step in graph.steps for name in step.names()}
    for value in graph.values.values():
        if value.producer is not None or value.name not in needed:
            continue
        if value.constant:
            known[value.name] = builder.constant(value.array)
        else:
            known[value.name] = builder.input(value.name, value.array.shape, str(value.array.dtype))
            feeds[value.name] = value.array
    for step in graph.steps:
        operands = {r: [known[n] for n in g] if isinstance(g, list) else known[g] for r, g in step.operands.items()}
        known.update(zip(step.outputs, call(builder, step.op, operands, step.attrs), strict=True))
    built = builder.build({name: known[name] for name in graph.outputs})
    try:
        return dict(context.compute(built, {name: array for name, array in feeds.items() if name in built.inputs}))
    finally:
        built.destroy()


def wrong_output(value: Value, actual: Array) -> str | None:
    """What is wrong with the device's value, if anything."""
    expected = value.array
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return f"{value.name}: got {actual.dtype}{list(actual.shape)}"
    with np.errstate(all="ignore"):
        same = (actual == expected) | (np.isnan(wide(actual)) & np.isnan(wide(expected)))
        distance = np.abs(wide(actual).astype(np.float64) - wide(expected).astype(np.float64))
    limit = np.zeros(expected.shape) if value.error is None else value.error
    bad = np.argwhere(~(same | (distance <= limit)))
    if not bad.size:
        return None
    at = tuple(int(i) for i in bad[0])
    return (
        f"{value.name}: {len(bad)} of {expected.size} wrong, first at {at}: got {actual[at]!r}, "
        f"expected {expected[at]!r}, allowed {float(limit[at]):.3g}"
    )


def mismatches(context: Any, graph: Graph) -> list[str]:
    """Wrong outputs of the graph, or the error that it raised."""
    try:
        results = evaluate(context, graph)
    except Exception as error:  # whatever it is, it is a failure of this graph
        return [f"{type(error).__name__}: {str(error)[:500]}"]
    lines = [wrong_output(graph.values[name], actual) for name, actual in results.items()]
    return [line for line in lines if line]


# Shrinking -----------------------------------------------------------------------------------------------------------


def cone(graph: Graph, outputs: Sequence[str], cut: frozenset[str] = frozenset()) -> Graph:
    """The part of the graph that the outputs need; values in `cut` become inputs that hold their reference."""
    needed, steps = set(outputs), []
    for step in reversed(graph.steps):
        if any(name in needed and name not in cut for name in step.outputs):
            steps.append(step)
            needed.update(step.names())
    made = {name for step in steps for name in step.outputs}
    kept = {
        name: value if name in made and name not in cut else Value(name, value.array, constant=value.constant)
        for name, value in graph.values.items()
        if name in needed
    }
    return Graph(kept, steps[::-1], list(outputs))


def shrunk(context: Any, graph: Graph) -> Graph:
    """A small graph that still fails: one output, then as many operators as possible replaced by their values."""
    best = graph
    for name in graph.outputs:
        candidate = cone(graph, [name])
        if mismatches(context, candidate):
            best = candidate
            break
    cut: frozenset[str] = frozenset()
    for step in best.steps:
        trial = cut | frozenset(name for name in step.outputs if name not in best.outputs)
        if trial != cut and mismatches(context, cone(best, best.outputs, trial)):
            cut = trial
    return cone(best, best.outputs, cut)


def check(context: Any, seed: int, largest: int = LARGEST) -> str | None:
    """None when the graph of this seed is right, else a report with the smallest failing part."""
    graph = Generator(seed, largest).generate()
    found = mismatches(context, graph)
    if not found:
        return None
    small = shrunk(context, graph)
    again = mismatches(context, small)
    return "\n".join(
        [
            f"seed {seed} (python -m tests.random_graphs --seed {seed} --count 1 --largest {largest}):",
            *found[:3],
            "smallest failing part (values that were cut off are inputs that hold the reference):",
            str(small),
            *again[:3],
        ]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run graphs from the command line; exit status 1 when one fails."""
    import webnn_cl

    parser = argparse.ArgumentParser(prog="python -m tests.random_graphs", description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000, help="graphs to run")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first graph; the others follow")
    parser.add_argument("--largest", type=int, default=LARGEST, help="operators in the largest graph")
    options = parser.parse_args(arguments)
    failed = 0
    with webnn_cl.ML().create_context() as context:
        for done, seed in enumerate(range(options.seed, options.seed + options.count), 1):
            report = check(context, seed, options.largest)
            if report:
                failed += 1
                print(report, end="\n\n", flush=True)
            if done % 100 == 0:
                print(f"{done} graphs, {failed} failed", flush=True)
    print(f"{options.count} graphs on {context.device.name}, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
