"""What every builder method does the same way: state, operands against their record, parameters, outputs."""

from __future__ import annotations

import functools
import inspect
import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from webnn_cl.compiler.ir import Node, TensorDesc, Value
from webnn_cl.dtypes import cast_parameter
from webnn_cl.errors import MLTypeError, argument_error, describe_operator
from webnn_cl.operand import MLOperand

if TYPE_CHECKING:
    from webnn_cl.ops.record import Operand, OpRecord

__all__ = ["BuilderBase", "Call", "check_desc"]

U32_MAX = 2**32 - 1
DIM_MAX = 2**31 - 1
_T = TypeVar("_T", bound=str)


class BuilderBase:
    """State that the family mixins of MLGraphBuilder rely on."""

    _max_tensor_bytes: int
    _max_rank: int

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name, method in list(vars(cls).items()):
            if not name.startswith("_") and inspect.isfunction(method):
                setattr(cls, name, _none_is_missing(method))

    def _check_can_build(self) -> None:
        raise AssertionError("MLGraphBuilder overrides this")

    def _call(self, record: OpRecord, label: str) -> Call:
        """Start a call of `record`: InvalidStateError when this builder can't build any more."""
        self._check_can_build()
        if not isinstance(label, str):
            raise argument_error(record.name, "label", repr(label), "a str")
        return Call(self, record, label)


class Call:
    """One builder call under way: parses and checks arguments, then records the node."""

    def __init__(self, builder: BuilderBase, record: OpRecord, label: str) -> None:
        self.builder = builder
        self.record = record
        self.label = label
        self.where = describe_operator(record.name, label)
        self._inputs: dict[str, Value] = {}

    def error(self, argument: str, given: object, allowed: object) -> MLTypeError:
        """The MLTypeError of this call: operator, [label], argument, what was given, what is allowed."""
        return argument_error(self.where, argument, given, allowed)

    # Operands -----------------------------------------------------------------------------------------------

    def operand(self, role: str, given: object) -> Value:
        """The value of a required operand, checked against its record (kind, builder, data type, rank)."""
        value = self._value(role, given)
        self._check_limits(self.record.operand(role), role, value)
        self._inputs[role] = value
        return value

    def optional(self, role: str, given: object | None) -> Value | None:
        """As `operand`; None stays None (a missing option)."""
        return None if given is None else self.operand(role, given)

    def many(self, role: str, given: object) -> list[Value]:
        """The values of a list operand (1 to 8192 of them)."""
        if isinstance(given, MLOperand) or not isinstance(given, Iterable):
            raise self.error(role, repr(given), "a sequence of MLOperand")
        items = list(given)
        if not 1 <= len(items) <= 8192:
            raise self.error(role, f"{len(items)} operands", "1 to 8192 operands")
        values = [self._value(f"{role}[{i}]", item) for i, item in enumerate(items)]
        for i, value in enumerate(values):
            self._check_limits(self.record.operand(role), f"{role}[{i}]", value)
            self._inputs[f"{role}.{i}"] = value
        return values

    def _value(self, role: str, given: object) -> Value:
        if not isinstance(given, MLOperand):
            raise self.error(role, repr(given), "an MLOperand")
        if given._builder is not self.builder:
            raise self.error(role, "an operand of another builder", "operands of this builder")
        return given._value

    def _check_limits(self, limits: Operand, role: str, value: Value) -> None:
        desc = value.desc
        if desc.data_type not in limits.dtypes:
            raise self.error(role, f"data type {desc.data_type}", ", ".join(limits.dtypes))
        if limits.same_as is not None:
            like = self._inputs.get(limits.same_as)
            if like is not None and desc.data_type != like.data_type:
                raise self.error(role, f"data type {desc.data_type}", f"{like.data_type}, as {limits.same_as}")
        low, high = self._rank_range(limits)
        if not low <= desc.rank <= high:
            allowed = f"rank {low}" if low == high else f"rank {low} to {high}"
            raise self.error(role, f"rank {desc.rank} (shape {list(desc.shape)})", allowed)

    def _rank_range(self, limits: Operand) -> tuple[int, int]:
        if isinstance(limits.rank, str):
            like = self._inputs[limits.rank]
            return like.desc.rank, like.desc.rank
        return limits.rank[0], min(limits.rank[1], self.builder._max_rank)

    # Parameters ---------------------------------------------------------------------------------------------

    def u32(self, argument: str, given: object, *, minimum: int = 0, maximum: int = U32_MAX) -> int:
        """An unsigned 32-bit integer; bools, floats and strings are refused."""
        return self._integer(argument, given, minimum, maximum)

    def i32(self, argument: str, given: object) -> int:
        """A signed 32-bit integer; bools, floats and strings are refused."""
        return self._integer(argument, given, -(2**31), 2**31 - 1)

    def _integer(self, argument: str, given: object, low: int, high: int) -> int:
        if isinstance(given, (bool, np.bool_)) or not isinstance(given, (int, np.integer)):
            raise self.error(argument, repr(given), f"an int from {low} to {high}")
        if not low <= int(given) <= high:
            raise self.error(argument, int(given), f"an int from {low} to {high}")
        return int(given)

    def u32_list(
        self, argument: str, given: object, *, length: int | None = None, minimum: int = 0, maximum: int = U32_MAX
    ) -> tuple[int, ...]:
        """A sequence of unsigned 32-bit integers, of exactly `length` entries when that is given."""
        items = self._sequence(argument, given, length)
        return tuple(self._integer(f"{argument}[{i}]", item, minimum, maximum) for i, item in enumerate(items))

    def _sequence(self, argument: str, given: object, length: int | None) -> list[Any]:
        if isinstance(given, (str, bytes, Mapping, MLOperand)) or not isinstance(given, (Sequence, np.ndarray)):
            raise self.error(argument, repr(given), "a sequence")
        items = list(given)
        if length is not None and len(items) != length:
            raise self.error(argument, f"{len(items)} entries", f"exactly {length} entries")
        return items

    def axes(self, argument: str, given: object | None, rank: int) -> tuple[int, ...] | None:
        """A sequence of distinct axes in 0..rank-1; None stays None."""
        if given is None:
            return None
        axes = self.u32_list(argument, given)
        if any(axis >= rank for axis in axes):
            raise self.error(argument, list(axes), f"axes below the rank {rank}")
        if len(set(axes)) != len(axes):
            raise self.error(argument, list(axes), "distinct axes")
        return axes

    def axis(self, argument: str, given: object, rank: int) -> int:
        """One axis in 0..rank-1."""
        axis = self.u32(argument, given)
        if axis >= rank:
            raise self.error(argument, axis, f"an axis below the rank {rank}")
        return axis

    def number(self, argument: str, given: object, data_type: str) -> int | float:
        """Any number (infinities and NaN too), cast to `data_type` by the specification's parameter cast."""
        return cast_parameter(self._number(argument, given), data_type)

    def f64(self, argument: str, given: object) -> float:
        """A finite number."""
        value = self._number(argument, given)
        try:
            result = float(value)
        except OverflowError:
            result = math.inf
        if not math.isfinite(result):
            raise self.error(argument, given, "a finite number")
        return result

    def _number(self, argument: str, given: object) -> int | float:
        if isinstance(given, (bool, np.bool_)) or not isinstance(given, (numbers.Real, np.number)):
            raise self.error(argument, repr(given), "a number")
        return int(given) if isinstance(given, (int, np.integer)) else float(cast(Any, given))

    def f64_list(self, argument: str, given: object, *, length: int) -> tuple[float, ...]:
        """A sequence of exactly `length` finite numbers."""
        items = self._sequence(argument, given, length)
        return tuple(self.f64(f"{argument}[{i}]", item) for i, item in enumerate(items))

    def boolean(self, argument: str, given: object) -> bool:
        """A bool; numbers are refused."""
        if not isinstance(given, (bool, np.bool_)):
            raise self.error(argument, repr(given), "True or False")
        return bool(given)

    def enum(self, argument: str, given: object, allowed: Sequence[_T]) -> _T:
        """One of the strings `allowed`."""
        for choice in allowed:
            if isinstance(given, str) and given == choice:
                return choice
        raise self.error(argument, repr(given), ", ".join(repr(a) for a in allowed))

    def enum_list(self, argument: str, given: object, allowed: Sequence[_T], *, length: int) -> tuple[_T, ...]:
        """A sequence of exactly `length` of the strings `allowed`."""
        items = self._sequence(argument, given, length)
        return tuple(self.enum(f"{argument}[{i}]", item, allowed) for i, item in enumerate(items))

    # Outputs ------------------------------------------------------------------------------------------------

    def emit(self, desc: TensorDesc, attrs: Mapping[str, Any] | None = None) -> MLOperand:
        """Record the node with one output."""
        return self.emit_many([desc], attrs)[0]

    def emit_many(self, descs: Sequence[TensorDesc], attrs: Mapping[str, Any] | None = None) -> list[MLOperand]:
        """Record the node; every output's dimensions, element count and byte length are checked first."""
        for desc in descs:
            check_desc(desc, self.where, "output", self.builder._max_rank, self.builder._max_tensor_bytes)
        node = Node(self.record, dict(self._inputs), dict(attrs or {}), label=self.label)
        node.outputs = [Value(desc, producer=node) for desc in descs]
        return [MLOperand(self.builder, value) for value in node.outputs]


def _none_is_missing(method: Callable[..., Any]) -> Callable[..., Any]:
    """`method` with None for any option standing for its default, as a missing dictionary member does in WebNN."""
    parameters = inspect.signature(method).parameters.values()
    filled = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is not None and p.name != "label"}
    if not filled:
        return method

    @functools.wraps(method)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        if any(value is None for value in options.values()):
            options = {name: value for name, value in options.items() if value is not None or name not in filled}
        return method(self, *args, **options)

    return call


def check_desc(desc: TensorDesc, where: str, argument: str, max_rank: int, max_bytes: int) -> None:
    """The specification's dimension check: dimensions, rank, element count, byte length, in this order."""
    for dim in desc.shape:
        if not 1 <= dim <= DIM_MAX:
            raise argument_error(where, f"{argument} shape", list(desc.shape), f"dimensions from 1 to {DIM_MAX}")
    if desc.rank > max_rank:
        raise argument_error(where, f"{argument} shape", f"rank {desc.rank}", f"rank 0 to {max_rank}")
    if desc.size > DIM_MAX:
        raise argument_error(where, f"{argument} shape", f"{desc.size} elements", f"at most {DIM_MAX} elements")
    if desc.nbytes > max_bytes:
        raise argument_error(where, f"{argument} shape", f"{desc.nbytes} bytes", f"at most {max_bytes} bytes")


def parse_shape(given: object, where: str, argument: str = "shape") -> tuple[int, ...]:
    """`given` as a tuple of ints; bools, floats and strings are refused."""
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, (Sequence, np.ndarray)):
        raise argument_error(where, argument, repr(given), "a sequence of ints")
    dims: list[int] = []
    for item in given:
        if isinstance(item, (bool, np.bool_)) or not isinstance(item, (int, np.integer)):
            raise argument_error(where, argument, repr(given), "a sequence of ints")
        dims.append(int(item))
    return tuple(dims)


def broadcast(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...] | None:
    """Bidirectional broadcast of two shapes; None when they don't fit."""
    rank = max(len(a), len(b))
    left, right = (1,) * (rank - len(a)) + tuple(a), (1,) * (rank - len(b)) + tuple(b)
    if any(x != y and 1 not in (x, y) for x, y in zip(left, right, strict=True)):
        return None
    return tuple(max(x, y) for x, y in zip(left, right, strict=True))


def broadcast_to(source: Sequence[int], target: Sequence[int]) -> bool:
    """Whether `source` broadcasts unidirectionally to `target`."""
    if len(source) > len(target):
        return False
    tail = target[len(target) - len(source) :]
    return all(x in (1, y) for x, y in zip(source, tail, strict=True))
