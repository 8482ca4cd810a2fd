"""Two devices at once: PoCL shows one CPU as two, in a process of its own."""

from __future__ import annotations

import pytest

from tests.work import python

SET_UP = """
import random, threading
import numpy as np, pyopencl as cl
import webnn_cl
from tests.work import Kernels, affine, in_threads, tensor

ml = webnn_cl.ML()
devices = [d for d in ml.devices() if "portable computing language" in d.platform.lower()]
if len(devices) < 2:
    print("SKIP"); raise SystemExit
one, two = devices[:2]
a, b = ml.create_context(device=one), ml.create_context(device=two)
assert a.device != b.device and a.cl_context != b.cl_context
"""


def run(code: str) -> None:
    """Run `code` behind SET_UP where PoCL shows two devices."""
    out = python(SET_UP + code, POCL_DEVICES="pthread basic", timeout=200)
    if "SKIP" in out:
        pytest.skip("device: PoCL is not here to show two devices")
    assert out.strip().endswith("ok"), out


def test_work_on_both_at_once() -> None:
    run("""
kernels = [Kernels(c.cl_context) for c in (a, b)]
graphs = [affine(c, 3.0, (1000,)) for c in (a, b)]
def work(index):
    context, graph = (a, b)[index % 2], graphs[index % 2]
    for value in range(50):
        x, y = tensor(context, float(value), (1000,)), tensor(context, shape=(1000,))
        context.dispatch(graph, {"x": x}, {"y": y})
        assert (context.read_tensor(y) == 3 * value).all()
in_threads(4, work)
print("ok")
""")


def test_tensors_and_graphs_stay_with_their_device() -> None:
    run("""
graph, x, y = affine(a, 2.0), tensor(b, 1.0), tensor(a)
for wrong in (lambda: a.dispatch(graph, {"x": x}, {"y": y}), lambda: b.dispatch(graph, {"x": x}, {"y": x}),
              lambda: a.read_tensor(x), lambda: b.write_tensor(y, np.ones(1, np.float32)), lambda: a.export_tensor(x),
              lambda: a.map_tensor(x), lambda: b.copy_tensor(x, y), lambda: a.create_graph_builder().constant(x)):
    try:
        wrong()
    except webnn_cl.MLTypeError as error:
        assert "another context" in str(error), error
    else:
        raise AssertionError
print("ok")
""")


def test_a_chain_across_both_devices() -> None:
    """Graph on one, the user's kernel on the other, and back, in order without waiting."""
    run("""
kernel = Kernels(b.cl_context)
triple = affine(a, 3.0, (4096,))
x, y, back = (tensor(a, shape=(4096,)) for _ in range(3))
there = tensor(b, shape=(4096,), exportable=True)
results = []
for value in range(30):
    a.write_tensor(x, np.full(4096, value, np.float32))
    a.dispatch(triple, {"x": x}, {"y": y})
    b.copy_tensor(y, there)
    with b.export_tensor(there) as lease:
        kernel.twice(lease.queue, lease.buffer, 4096)
    a.copy_tensor(there, back)
    results.append(a.read_tensor_async(back))
for value, future in enumerate(results):
    assert (future.result(60) == 6 * value).all()
print("ok")
""")


def test_a_lease_to_the_other_devices_queue_is_a_copy_that_comes_back() -> None:
    run("""
kernel = Kernels(b.cl_context)
t = tensor(a, 5.0, (64,), exportable=True)
with a.export_tensor(t, queue=b.queue) as lease:
    assert not lease.zero_copy and lease.buffer.context == b.cl_context and lease.buffer.size == 256
    assert lease.array.get().tolist() == [5.0] * 64
    lease.done(kernel.twice(lease.queue, lease.buffer, 64))
assert (a.read_tensor(t) == 10).all()
try:
    with a.export_tensor(t, queue=b.queue) as lease:
        kernel.twice(lease.queue, lease.buffer, 64)
        raise KeyError
except KeyError:
    pass
assert (a.read_tensor(t) == 20).all()
print("ok")
""")


def test_one_pyopencl_context_with_both_devices() -> None:
    run("""
shared = cl.Context([one.cl_device, two.cl_device])
try:
    ml.create_context(opencl=shared)
except webnn_cl.MLTypeError as error:
    assert "device=" in str(error)
else:
    raise AssertionError
p = ml.create_context(opencl=shared, device=one)
q = ml.create_context(opencl=shared, device=two)
assert (p.device, q.device) == (one, two) and p.cl_context == q.cl_context
src, dst = tensor(p, 7.0, (1000,), exportable=True), tensor(q, shape=(1000,), exportable=True)
q.copy_tensor(src, dst)
assert (q.read_tensor(dst) == 7).all()
kernel = Kernels(shared)
with p.export_tensor(src, queue=q.queue) as lease:
    assert lease.zero_copy and lease.ready is not None
    kernel.twice(lease.queue, lease.buffer, 1000)
assert (p.read_tensor(src) == 14).all()
try:
    ml.create_context(opencl=cl.Context([one.cl_device]), device=two)
except webnn_cl.MLTypeError:
    print("ok")
""")


def test_copies_in_opposite_directions_do_not_deadlock() -> None:
    run("""
shared = cl.Context([one.cl_device, two.cl_device])
pairs = [(a, b), (ml.create_context(opencl=shared, device=one), ml.create_context(opencl=shared, device=two))]
for p, q in pairs:
    left = [tensor(p, float(i), (256,), exportable=True) for i in range(4)]
    right = [tensor(q, float(-i), (256,), exportable=True) for i in range(4)]
    def work(index):
        chance = random.Random(index)
        for _ in range(100):
            i, j = chance.randrange(4), chance.randrange(4)
            if chance.random() < 0.5:
                q.copy_tensor(left[i], right[j])
            else:
                p.copy_tensor(right[j], left[i])
            if chance.random() < 0.1:
                with p.map_tensor(tensor(p, 1.0)) as view:
                    assert view[0] == 1
            if chance.random() < 0.2:
                value = q.read_tensor(right[j])
                assert (value == value[0]).all()
    in_threads(6, work)
    p.finish(); q.finish()
print("ok")
""")


def test_blocked_copies_are_noticed_on_both_sides() -> None:
    """A copy whose source is leased holds its destination: reading that on the lease's thread would wait for itself."""
    run("""
src, dst = tensor(a, 3.0, exportable=True), tensor(b)
lease = a.export_tensor(src)
b.copy_tensor(src, dst)
for blocked in (lambda: b.read_tensor(dst), b.finish, lambda: b.map_tensor(dst)):
    try:
        blocked()
    except webnn_cl.InvalidStateError as error:
        assert "lease" in str(error)
    else:
        raise AssertionError
future = b.read_tensor_async(dst)
assert not future.done()
lease.release()
assert future.result(60) == [3.0] and b.read_tensor(dst) == [3.0]
print("ok")
""")


def test_losing_one_side_of_a_copy() -> None:
    run("""
src, dst = tensor(a, 3.0, exportable=True), tensor(b, 1.0)
lease = a.export_tensor(src)
b.copy_tensor(src, dst)
pending = b.read_tensor_async(dst)
a.destroy()
try:
    b.finish()
except webnn_cl.OperationError as error:
    assert "copy_tensor" in str(error)
else:
    raise AssertionError
assert isinstance(pending.exception(60), webnn_cl.OperationError), "the read must not give the old data"
b.write_tensor(dst, np.full(1, 8, np.float32))
assert b.read_tensor(dst) == [8.0] and not b.is_lost
a = ml.create_context(device=one)
src = tensor(a, 4.0)
other = tensor(b, exportable=True)
held = b.export_tensor(other)
b.copy_tensor(src, other)
b.destroy()
a.finish()
assert a.read_tensor(src) == [4.0]
print("ok")
""")


def test_the_variable_and_device_choose_one_of_the_two() -> None:
    run("""
import os
os.environ["WEBNN_CL_DEVICE"] = str(two.index)
with ml.create_context() as chosen:
    assert chosen.device == two
print("ok")
""")
