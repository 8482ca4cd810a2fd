"""MLGraphBuilder: inputs, constants, operators, build."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from webnn_cl.arrays import described_data
from webnn_cl.compiler.ir import Constant, Graph, TensorDesc, Value
from webnn_cl.dtypes import cast_parameter, dtype_of, normalize_data_type
from webnn_cl.errors import InvalidStateError, MLError, MLTypeError, argument_error, printable
from webnn_cl.future import MLFuture, run_in_thread
from webnn_cl.graph import MLGraph
from webnn_cl.operand import MLOperand
from webnn_cl.ops.activation import ActivationMixin
from webnn_cl.ops.base import BuilderBase, check_desc, parse_shape
from webnn_cl.ops.casting import CastingMixin
from webnn_cl.ops.convolution import ConvolutionMixin
from webnn_cl.ops.custom import CustomMixin
from webnn_cl.ops.indexing import IndexingMixin
from webnn_cl.ops.logical import LogicalMixin
from webnn_cl.ops.matrix import MatrixMixin
from webnn_cl.ops.normalization import NormalizationMixin
from webnn_cl.ops.pooling import PoolingMixin
from webnn_cl.ops.quantization import QuantizationMixin
from webnn_cl.ops.record import MAX_RANK
from webnn_cl.ops.recurrent import RecurrentMixin
from webnn_cl.ops.reduction import ReductionMixin
from webnn_cl.ops.resample import ResampleMixin
from webnn_cl.ops.shaping import ShapingMixin
from webnn_cl.ops.softmax import SoftmaxMixin
from webnn_cl.tensor import MLTensor

if TYPE_CHECKING:
    from types import TracebackType

    from webnn_cl.context import MLContext

__all__ = ["MLGraphBuilder"]


class MLGraphBuilder(
    LogicalMixin,
    ActivationMixin,
    CastingMixin,
    QuantizationMixin,
    CustomMixin,
    ShapingMixin,
    IndexingMixin,
    ReductionMixin,
    SoftmaxMixin,
    ConvolutionMixin,
    MatrixMixin,
    NormalizationMixin,
    PoolingMixin,
    RecurrentMixin,
    ResampleMixin,
    BuilderBase,
):
    """Builds one graph for `context` (W3C WebNN, "The MLGraphBuilder interface").

    Operators are methods: operands and required values positional, options by keyword, ``label=`` on each. Every
    method raises InvalidStateError once the builder was built or destroyed or the context is lost, and MLTypeError
    for any argument that the operator doesn't take. ``with MLGraphBuilder(ctx) as b:`` destroys it at the end.
    """

    def __init__(self, context: MLContext) -> None:
        context._check_alive()
        self._context = context
        self._max_tensor_bytes = context._max_tensor_bytes
        self._max_rank = MAX_RANK
        self._inputs: dict[str, Value] = {}
        self._constants: weakref.WeakSet[Constant] = weakref.WeakSet()
        self._tensors_used: list[tuple[Value, MLTensor]] = []
        self._state = ""

    # State --------------------------------------------------------------------------------------------------

    @property
    def context(self) -> MLContext:
        """The context that graphs of this builder run on."""
        return self._context

    def destroy(self) -> None:
        """Free the constants held for the build; later calls raise InvalidStateError. Built graphs live on."""
        if not self._state:
            self._state = "destroyed"
        self._inputs.clear()
        for constant in self._constants if self._state == "destroyed" else ():
            if not constant.lasting:
                constant.array = None

    def __enter__(self) -> MLGraphBuilder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.destroy()

    def _check_can_build(self) -> None:
        self._context._check_alive()
        if self._state:
            raise InvalidStateError(f"this MLGraphBuilder was {self._state}; make a new one for another graph")

    # Inputs and constants -----------------------------------------------------------------------------------

    def input(self, name: str, shape: Sequence[int], data_type: object = "float32") -> MLOperand:
        """Declare a graph input.

        `name` is non-empty and unique among this builder's inputs. Raises MLTypeError for a bad name, type or shape.
        """
        self._check_can_build()
        if not isinstance(name, str) or not name:
            raise argument_error("input", "name", repr(name), "a non-empty str")
        where = f"input {printable(name)!r}"
        if name in self._inputs:
            raise argument_error("input", "name", repr(name), "a name that this builder has no input of yet")
        desc = TensorDesc(normalize_data_type(data_type, f"{where}: data_type"), parse_shape(shape, where))
        check_desc(desc, where, "input", self._max_rank, self._max_tensor_bytes)
        value = self._inputs[name] = Value(desc, name=name)
        return MLOperand(self, value)

    def constant(
        self, data: object, *, shape: Sequence[int] | None = None, data_type: object | None = None
    ) -> MLOperand:
        """A constant operand; `data` is copied at the call.

        * an array of one of the eight data types; ``shape`` may give 1-D data its shape. uint16 arrays are float16
          bits. No values are converted.
        * raw bytes (bytes, bytearray, memoryview, uint8 array) with `data_type` and `shape`
        * a number with `data_type`: a scalar, cast by the specification's parameter cast (saturating, half to even)
        * an MLTensor of ``context.create_constant_tensor``: shared, not copied

        Raises MLTypeError when data, shape and type don't match.
        """
        if isinstance(data, MLTensor):
            return self._constant_tensor(data, shape, data_type)
        self._check_can_build()
        if isinstance(data, (int, float, np.number)) and not isinstance(data, (bool, np.bool_)):
            return self._constant_number(data, shape, data_type)
        dims = None if shape is None else parse_shape(shape, "constant")
        desc, array = described_data(data, dims, data_type, "constant")
        check_desc(desc, "constant", "data", self._max_rank, self._max_tensor_bytes)
        return self._new_constant(desc, Constant(array.copy()))

    def _constant_tensor(self, tensor: MLTensor, shape: object, data_type: object) -> MLOperand:
        if shape is not None or data_type is not None:
            raise MLTypeError("constant: an MLTensor has its own shape and data_type; don't give them")
        tensor._check_usable_constant(self._context)
        self._check_can_build()
        storage = tensor._storage
        shared = getattr(storage, "constant", None)
        if shared is None:
            shared = storage.constant = Constant(storage=storage.buffer)
        operand = self._new_constant(tensor._desc, shared)
        self._tensors_used.append((operand._value, tensor))
        return operand

    def _constant_number(self, number: Any, shape: Sequence[int] | None, data_type: object | None) -> MLOperand:
        if data_type is None:
            if not isinstance(number, np.generic):
                raise argument_error("constant", "data_type", None, "a data type, when data is a number")
            data_type = number.dtype
        if shape is not None and parse_shape(shape, "constant"):
            raise argument_error("constant", "shape", list(shape), "no shape or [], when data is a number")
        name = normalize_data_type(data_type, "constant: data_type")
        item = int(number) if isinstance(number, (int, np.integer)) else float(number)
        array = np.array(cast_parameter(item, name), dtype=dtype_of(name).numpy)
        return self._new_constant(TensorDesc(name, ()), Constant(array))

    def _lasting_constant(self, constant: Constant) -> MLOperand:
        """An operand of data that somebody else owns and keeps as it is, such as a session its weights."""
        self._check_can_build()
        assert constant.lasting and constant.array is not None
        desc = TensorDesc(normalize_data_type(constant.array.dtype), constant.array.shape)
        check_desc(desc, "constant", "data", self._max_rank, self._max_tensor_bytes)
        return self._new_constant(desc, constant)

    def _new_constant(self, desc: TensorDesc, constant: Constant) -> MLOperand:
        self._constants.add(constant)
        return MLOperand(self, Value(desc, constant=constant))

    # Build --------------------------------------------------------------------------------------------------

    def build(self, outputs: Mapping[str, MLOperand]) -> MLGraph:
        """Compile the graph of all that `outputs` (name -> operand) need; the builder is used up.

        Raises MLTypeError for outputs that are empty, foreign, inputs or constants (the builder stays usable),
        OperationError when the device can't compile or hold the graph.
        """
        graph = self._claim(outputs)
        return MLGraph(self._context, graph)

    def build_async(self, outputs: Mapping[str, MLOperand]) -> MLFuture[MLGraph]:
        """As `build`, compiled on another thread; every failure arrives through the future."""
        context = self._context
        try:
            graph = self._claim(outputs)
        except MLError as error:
            return MLFuture.rejected(error)
        return run_in_thread(lambda: MLGraph(context, graph), "webnn_cl build")

    def _claim(self, outputs: Mapping[str, MLOperand]) -> Graph:
        """Check the arguments of build() and mark this builder as built."""
        self._check_can_build()
        if not isinstance(outputs, Mapping) or not outputs:
            raise argument_error("build", "outputs", repr(outputs), "a non-empty mapping of names to operands")
        values = {name: self._output_value(name, operand) for name, operand in outputs.items()}
        graph = Graph.reachable_from(values)
        reachable = {id(value) for value in graph.values()}
        for value, tensor in self._tensors_used:
            if id(value) in reachable:
                tensor._check_usable_constant(self._context)
        self._state = "built"
        return graph

    def _output_value(self, name: object, operand: object) -> Value:
        if not isinstance(name, str) or not name:
            raise argument_error("build", "outputs", f"the name {name!r}", "non-empty str names")
        if not isinstance(operand, MLOperand) or operand._builder is not self:
            raise argument_error("build", f"outputs[{name!r}]", repr(operand), "an operand of this builder")
        if operand._value.producer is None:
            kind = "a graph input" if operand._value.name is not None else "a constant"
            raise argument_error("build", f"outputs[{name!r}]", kind, "an operator's output (wrap it in identity())")
        return operand._value
