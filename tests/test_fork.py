"""A forked child is refused with the way out, instead of hanging in the parent's OpenCL runtime."""

from __future__ import annotations

import os

import pytest

from tests.work import python

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="device: this system has no fork")

CHILD = """
import os, sys
import numpy as np
import webnn_cl

def in_child(work):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException as error:
            print(type(error).__name__, error, flush=True)
        finally:
            os._exit(status)
    return os.waitpid(pid, 0)[1] == 0

def refused(*calls):
    def work():
        for call in calls:
            try:
                call()
            except webnn_cl.InvalidStateError as error:
                assert "spawn" in str(error), error
            else:
                raise AssertionError(call)
    return work
"""


def run(code: str) -> None:
    """Run `code` behind CHILD; it ends by printing ok."""
    out = python(CHILD + code, timeout=60)
    assert out.strip().endswith("ok"), out


def test_a_child_of_a_process_that_listed_devices() -> None:
    run("""
ml = webnn_cl.ML()
devices = ml.devices()
assert devices
assert in_child(refused(ml.devices, ml.create_context, webnn_cl.ML().devices,
                        lambda: ml.create_context(device=devices[0]),
                        lambda: ml.create_context_async().result(30)))
with ml.create_context() as context:  # the parent goes on
    assert context.read_tensor(context.create_tensor([1], readable=True)) == [0]
print("ok")
""")


def test_objects_of_the_parent_in_a_child() -> None:
    run("""
import asyncio, gc
context = webnn_cl.ML().create_context()
tensor = context.create_tensor([1], readable=True, writable=True, exportable=True)
other = context.create_tensor([1], readable=True)
builder = context.create_graph_builder()
graph = builder.build({"y": builder.identity(builder.input("x", [1]))})
fresh = context.create_graph_builder()
lease = context.export_tensor(tensor)
pending = context.read_tensor_async(tensor)
async def awaited():
    return await context.read_tensor_async(other)
assert in_child(refused(
    lambda: context.create_tensor([1]), lambda: context.create_constant_tensor(np.zeros(1, np.float32)),
    lambda: context.write_tensor(tensor, np.zeros(1, np.float32)), lambda: context.read_tensor(tensor),
    lambda: context.read_tensor_async(tensor).result(), lambda: asyncio.run(awaited()),
    lambda: context.dispatch(graph, {"x": tensor}, {"y": other}), lambda: context.compute(graph, {"x": [1.0]}),
    context.finish, lambda: context.export_tensor(tensor), lambda: context.map_tensor(tensor),
    lambda: context.copy_tensor(tensor, other), lambda: webnn_cl.MLGraphBuilder(context), lambda: fresh.input("x", [1]),
    lambda: pending.result(5), lambda: lease.buffer))
def harmless():
    global context, tensor, other, graph, lease, pending, builder, fresh
    assert tensor.shape == (1,) and not context.is_lost and "MLTensor" in repr(tensor)
    lease.release(); tensor.destroy(); graph.destroy(); context.destroy(); fresh.destroy()
    del context, tensor, other, graph, lease, pending, builder, fresh
    gc.collect()
assert in_child(harmless)
lease.release()
assert pending.result(60) == [0]
print("ok")
""")


def test_a_lock_held_by_another_thread_at_the_fork_does_not_hang_the_child() -> None:
    run("""
import threading
context = webnn_cl.ML().create_context()
tensor = context.create_tensor([1], readable=True, writable=True)
held, go = threading.Event(), threading.Event()
def hold():
    with context._timeline.lock:
        held.set(); go.wait(30)
thread = threading.Thread(target=hold); thread.start(); held.wait(30)
def work():
    refused(lambda: context.read_tensor(tensor), lambda: context.write_tensor(tensor, np.zeros(1, np.float32)),
            context.finish, lambda: context.create_tensor([1]), lambda: context.export_tensor(tensor))()
    tensor.destroy(); context.destroy()
assert in_child(work)
go.set(); thread.join()
print("ok")
""")


def test_a_child_forked_before_any_use_works() -> None:
    run("""
def work():
    with webnn_cl.ML().create_context() as context:
        assert context.read_tensor(context.create_tensor([2], readable=True)).tolist() == [0, 0]
assert in_child(work)
work()
assert in_child(refused(webnn_cl.ML().create_context))
print("ok")
""")


def test_spawned_children_work() -> None:
    """What the message recommends."""
    code = """
import multiprocessing, sys
import webnn_cl
def main():
    assert webnn_cl.ML().devices()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(tests.work.read_zero) == 0
    print("ok")
import tests.work
if __name__ == "__main__":
    main()
"""
    assert python(code).strip().endswith("ok")


def test_multiprocessing_fork_gets_the_message() -> None:
    code = """
import multiprocessing
import tests.work, webnn_cl
assert webnn_cl.ML().devices()
with multiprocessing.get_context("fork").Pool(1) as pool:
    try:
        pool.apply(tests.work.read_zero)
    except webnn_cl.InvalidStateError as error:
        assert "spawn" in str(error)
        print("ok")
"""
    assert python(code).strip().endswith("ok")
