"""CustomOp: a user's own OpenCL C kernel, on tensors or as a node of a graph."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl

from webnn_cl.compiler.ir import TensorDesc
from webnn_cl.compiler.kernel import Kernel, program_source
from webnn_cl.dtypes import cast_parameter, dtype_of, normalize_data_type
from webnn_cl.errors import MLTypeError, OperationError, argument_error
from webnn_cl.interop.guard import GuardedLaunch
from webnn_cl.interop.source import KEYWORDS, body_source, half_indexing, wrap_source
from webnn_cl.opencl.program import built_kernels, make_kernel
from webnn_cl.ops.base import check_desc, parse_shape
from webnn_cl.ops.record import MAX_RANK

if TYPE_CHECKING:
    from webnn_cl.context import MLContext
    from webnn_cl.opencl.facts import DeviceFacts
    from webnn_cl.opencl.memory import Storage
    from webnn_cl.tensor import MLTensor

__all__ = ["CustomOp"]

Descs = Mapping[str, TensorDesc]
Sizes = int | Sequence[int] | Callable[..., int | Sequence[int]] | None
DEFAULT_LOCAL = 64


class CustomOp:
    """An operator whose kernel the user writes in OpenCL C.

    Either `body` is given, the statements for one element: the signature, the index ``i`` (a long, over the elements
    of the first output) and the bounds check are generated. Or `source` is given, whole OpenCL C text with a kernel
    called `name` whose arguments are the inputs, the outputs, then the parameters, in the order given here.

    `inputs`, `outputs`: argument names. Buffers are packed row-major. ``LOAD(x, i)`` and ``STORE(y, i, value)`` read
    and write an element of any type; float16 tensors need them on devices without the fp16 extension (values
    are floats). ``x_SIZE``, ``x_RANK``, ``x_DIM0`` ... are constants.
    `output_shapes`: called with the inputs (objects with ``.shape`` and ``.data_type``), returns one shape per output;
    by default every output has the first input's shape. `output_types`: data types, or a callable as `output_shapes`;
    by default the first input's.
    `params`: names of float32 scalars, or a mapping of names to data types; values come with each use.
    `header`: text before the kernel (functions, types); `defines`: macros before everything.
    `global_size`, `local_size`: ints, or a callable of the inputs; by default one work-item per element of the first
    output, in groups of 64 (of 1 with `source`).
    `check`: run guarded: inputs and outputs lie between canaries, and a kernel that writes out of its bounds or into
    an input raises OperationError. That copies and waits: for tests.

    Raises MLTypeError for arguments that don't fit. A kernel that does not compile raises OperationError with the
    build log (lines counted in the user's text) and the device, when it is first used.
    """

    def __init__(
        self,
        name: str,
        *,
        inputs: Sequence[str],
        outputs: Sequence[str],
        body: str | None = None,
        source: str | None = None,
        output_shapes: Callable[..., Sequence[Sequence[int]]] | None = None,
        output_types: Sequence[object] | Callable[..., Sequence[object]] | None = None,
        params: Sequence[str] | Mapping[str, object] = (),
        header: str = "",
        defines: Mapping[str, object] | None = None,
        global_size: Sizes = None,
        local_size: Sizes = None,
        check: bool = False,
    ) -> None:
        if (body is None) == (source is None):
            raise MLTypeError(f"CustomOp {name!r}: give either body= or source=")
        self.name = _identifier(name, "name")
        self.inputs = _names(inputs, "inputs")
        self.outputs = _names(outputs, "outputs")
        typed = params if isinstance(params, Mapping) else dict.fromkeys(params, "float32")
        self.params = {_identifier(k, "params"): normalize_data_type(v, f"CustomOp {name}") for k, v in typed.items()}
        everything = (*self.inputs, *self.outputs, *self.params)
        if len(set(everything)) != len(everything):
            raise argument_error(f"CustomOp {name}", "inputs, outputs, params", list(everything), "distinct names")
        self._body, self._source = body, source
        self._output_shapes, self._output_types = output_shapes, output_types
        self._header, self._defines = header, dict(defines or {})
        self._global_size, self._local_size = global_size, local_size
        self.check = bool(check)
        # A generated kernel may not be called as a built-in function is, such as "step".
        self._entry = self.name if source is not None else f"user_{self.name}"
        self._kernels: weakref.WeakKeyDictionary[cl.Context, dict[str, cl.Kernel]] = weakref.WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"<CustomOp {self.name}({', '.join(self.inputs)}) -> {', '.join(self.outputs)}>"

    # Text and shapes ----------------------------------------------------------------------------------------

    def source(self, *inputs: Any, fp16: bool = False) -> str:
        """The full text given to the compiler for `inputs` (anything with ``.shape`` and ``.data_type``)."""
        descs = {n: TensorDesc(x.data_type, tuple(x.shape)) for n, x in zip(self.inputs, inputs, strict=True)}
        return program_source([self._kernel(descs, self._infer(descs, MAX_RANK, 2**63 - 1), fp16)])

    def _infer(self, inputs: Descs, max_rank: int, max_bytes: int) -> dict[str, TensorDesc]:
        """Output descriptors for `inputs`, from the user's functions."""
        where = f"CustomOp {self.name}"
        first = next(iter(inputs.values()), None)
        if self._output_shapes is not None:
            shapes = list(self._output_shapes(*inputs.values()))
        elif first is not None:
            shapes = [first.shape] * len(self.outputs)
        else:
            raise argument_error(where, "output_shapes", None, "a function, when there are no inputs")
        given = self._output_types
        types = list(given(*inputs.values())) if callable(given) else list(given or ())
        types = types or [first.data_type if first is not None else "float32"] * len(self.outputs)
        if len(shapes) != len(self.outputs) or len(types) != len(self.outputs):
            raise argument_error(where, "outputs", f"{len(shapes)} shapes, {len(types)} types", len(self.outputs))
        found = {}
        for name, shape, kind in zip(self.outputs, shapes, types, strict=True):
            desc = TensorDesc(normalize_data_type(kind, where), parse_shape(shape, where, f"shape of {name}"))
            check_desc(desc, where, name, max_rank, max_bytes)
            found[name] = desc
        return found

    def _kernel(self, inputs: Descs, outputs: Descs, has_fp16: bool) -> Kernel:
        tensors = {**inputs, **outputs}
        user_text = (self._body or "") + (self._source or "")
        halves = [n for n, d in tensors.items() if d.data_type == "float16"]
        indexed = None if has_fp16 else half_indexing(user_text, halves)
        if indexed is not None:
            raise OperationError(
                f"CustomOp {self.name}: {indexed!r} is float16 and the device lacks cl_khr_fp16, so it can't be "
                f"indexed directly: read it with LOAD({indexed}, i) and write it with STORE({indexed}, i, value)"
            )
        own = self._source is not None
        text = self._source if self._source is not None else body_source(
            self.name, self._entry, self._body or "", inputs, outputs, self.params
        )
        code = wrap_source(self._header, text, self.name, tensors, own, has_fp16)
        return Kernel("", self._entry, self._defines, code, isolated=True)

    def _sizes(self, inputs: Descs, outputs: Descs) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Global and local size; the global one is rounded up when the bounds check is ours."""
        work = _evaluate(self._global_size, inputs) or (next(iter(outputs.values())).size,)
        default = (DEFAULT_LOCAL if self._body is not None and len(work) == 1 else 1,) + (1,) * (len(work) - 1)
        group = _evaluate(self._local_size, inputs) or default
        if len(work) != len(group):
            raise argument_error(f"CustomOp {self.name}", "local_size", group, f"{len(work)} dimensions")
        if self._source is not None and any(w % g for w, g in zip(work, group, strict=True)):
            raise argument_error(f"CustomOp {self.name}", "global_size", work, f"multiples of local_size {group}")
        return tuple(-(-w // g) * g for w, g in zip(work, group, strict=True)), group

    def _arguments(self, outputs: Descs, params: Mapping[str, object]) -> list[np.generic]:
        """Scalars behind the buffers: parameters, and the element count of a generated kernel."""
        where = f"CustomOp {self.name}"
        if set(params) != set(self.params):
            raise argument_error(where, "params", sorted(params), f"exactly {sorted(self.params)}")
        values: list[np.generic] = []
        for name, kind in self.params.items():
            value = params[name]
            if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.number)):
                raise argument_error(where, name, repr(value), "a number")
            number = int(value) if isinstance(value, (int, np.integer)) else float(value)
            storage = np.float32 if dtype_of(kind).is_float else dtype_of(kind).numpy.type
            values.append(storage(cast_parameter(number, kind)))
        if self._body is not None:
            values.append(np.int64(next(iter(outputs.values())).size))
        return values

    # Straight on tensors --------------------------------------------------------------------------------------

    def __call__(
        self,
        context: MLContext,
        *,
        inputs: Mapping[str, MLTensor],
        outputs: Mapping[str, MLTensor],
        params: Mapping[str, object] | None = None,
    ) -> None:
        """Enqueue the kernel on exportable tensors, in the context's order, without waiting.

        A tensor that is leased defers it, as any dependent work. Raises MLTypeError for tensors that are foreign,
        destroyed, not exportable, of the wrong type or shape, or given twice; OperationError when it fails.
        """
        context._check_alive()
        read = {n: self._tensor(context, n, inputs) for n in self.inputs}
        written = {n: self._tensor(context, n, outputs) for n in self.outputs}
        self._check_tensors(inputs, outputs)
        in_descs = {n: t._desc for n, t in read.items()}
        out_descs = self._infer(in_descs, MAX_RANK, context._max_tensor_bytes)
        for name, tensor in written.items():
            if tensor._desc != out_descs[name]:
                raise argument_error(f"CustomOp {self.name}", name, tensor._desc, out_descs[name])
            if self._storage(name, tensor).read_only:
                raise argument_error(f"CustomOp {self.name}", name, "read-only memory", "a writable buffer")
        scalars = self._arguments(out_descs, params or {})
        kernel = self._built(context._cl, context._cl_device, context._facts, in_descs, out_descs)
        storages = [self._storage(n, t) for n, t in (*read.items(), *written.items())]
        sizes = self._sizes(in_descs, out_descs)
        guard = self._guard(in_descs, out_descs)

        def run(queue: cl.CommandQueue) -> list[cl.Event]:
            return [self._enqueue(queue, kernel, [s.buffer for s in storages], scalars, *sizes, guard)]

        context._timeline.submit(list(read.values()), list(written.values()), run)

    def _tensor(self, context: MLContext, name: str, given: Mapping[str, MLTensor]) -> MLTensor:
        from webnn_cl.tensor import MLTensor

        where = f"CustomOp {self.name}"
        tensor = given.get(name) if isinstance(given, Mapping) else None
        if not isinstance(tensor, MLTensor):
            raise argument_error(where, name, repr(tensor), "an MLTensor")
        if tensor._context is not context:
            raise argument_error(where, name, "a tensor of another context", "tensors of this context")
        if tensor._destroyed:
            raise argument_error(where, name, "a destroyed tensor", "live tensors")
        if not tensor.exportable:
            raise argument_error(where, name, "a tensor made without exportable=True", "exportable tensors")
        return tensor

    def _storage(self, name: str, tensor: MLTensor) -> Storage:
        """The memory of `tensor`, which another thread may have destroyed since it was checked."""
        storage: Storage | None = getattr(tensor, "_storage", None)
        if storage is None:
            raise argument_error(f"CustomOp {self.name}", name, "a destroyed tensor", "live tensors")
        return storage

    def _check_tensors(self, inputs: Mapping[str, MLTensor], outputs: Mapping[str, MLTensor]) -> None:
        where = f"CustomOp {self.name}"
        if set(inputs) != set(self.inputs) or set(outputs) != set(self.outputs):
            raise argument_error(where, "inputs and outputs", [*inputs, *outputs], [*self.inputs, *self.outputs])
        written = [id(t) for t in outputs.values()]
        if len(set(written)) != len(written) or set(written) & {id(t) for t in inputs.values()}:
            raise argument_error(where, "outputs", "a tensor given twice", "outputs that are no inputs")

    def _built(
        self, context: cl.Context, device: cl.Device, facts: DeviceFacts, inputs: Descs, outputs: Descs
    ) -> cl.Kernel:
        kernel = self._kernel(inputs, outputs, facts.has_fp16)
        held = self._kernels.setdefault(context, {})
        if kernel.key not in held:
            try:
                held[kernel.key] = make_kernel(built_kernels(context, device, [kernel])[kernel], kernel)
            except OperationError as error:
                raise OperationError(f"CustomOp {self.name}: {error}") from error
        return held[kernel.key]

    def _guard(self, inputs: Descs, outputs: Descs) -> GuardedLaunch | None:
        """How to run guarded; None when this operator runs as it is."""
        if not self.check:
            return None
        tensors = {**inputs, **outputs}
        return GuardedLaunch(self.name, tuple(tensors), len(inputs), tuple(d.nbytes for d in tensors.values()))

    def _enqueue(
        self,
        queue: cl.CommandQueue,
        kernel: cl.Kernel,
        buffers: Sequence[cl.Buffer],
        scalars: Sequence[np.generic],
        global_size: tuple[int, ...],
        local_size: tuple[int, ...],
        guard: GuardedLaunch | None,
    ) -> cl.Event:
        """Set all arguments and enqueue; under the timeline's lock, since kernel objects hold their arguments."""
        try:
            if guard is not None:
                return guard.enqueue(queue, kernel, buffers, scalars, global_size, local_size)
            kernel.set_args(*buffers, *scalars)
            return cl.enqueue_nd_range_kernel(queue, kernel, global_size, local_size)
        except cl.Error as error:
            raise OperationError(f"CustomOp {self.name}: {queue.device.name.strip()} refused it: {error}") from error


def _identifier(name: object, argument: str) -> str:
    if not isinstance(name, str) or not name.isidentifier() or not name.isascii() or name in KEYWORDS:
        raise argument_error("CustomOp", argument, repr(name), "a C identifier that is no keyword, nor 'i'")
    return name


def _names(names: Sequence[str], argument: str) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise argument_error("CustomOp", argument, repr(names), "a sequence of names")
    if argument == "outputs" and not names:
        raise argument_error("CustomOp", argument, "none", "at least one output")
    return tuple(_identifier(name, argument) for name in names)


def _evaluate(sizes: Sizes, inputs: Descs) -> tuple[int, ...] | None:
    given = sizes(*inputs.values()) if callable(sizes) else sizes
    if given is None:
        return None
    values = (int(given),) if isinstance(given, (int, np.integer)) else tuple(int(v) for v in given)
    if not 1 <= len(values) <= 3 or any(v < 1 for v in values):
        raise argument_error("CustomOp", "global_size, local_size", values, "1 to 3 positive ints")
    return values
