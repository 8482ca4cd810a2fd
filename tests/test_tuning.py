"""Tuning: right results only, winners kept and used, damaged and foreign tables ignored."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from webnn_cl import OperationError
from webnn_cl.tiles import variants
from webnn_cl.tiles.variants import PLAIN, candidates, default_variant
from webnn_cl.tuning import store, tuner
from webnn_cl.tuning.store import TuningTable, workload
from webnn_cl.tuning.tuner import tunable_nodes, tune

WEIGHTS = np.random.default_rng(0).standard_normal((24, 20)).astype(np.float32)


@pytest.fixture
def table(tmp_path, monkeypatch):
    made = TuningTable(tmp_path / "table.json")
    monkeypatch.setattr(tuner, "load", lambda facts: made)
    monkeypatch.setattr("webnn_cl.compiler.compile.load", lambda facts: made)
    return made


def product(context):
    b = context.create_graph_builder()
    return b.build({"y": b.matmul(b.input("x", (30, 24)), b.constant(WEIGHTS))})


def kernels(graph):
    return {c.kernel.entry for c in graph._executable.commands}


def test_the_winner_is_used_and_right(context, table):
    (node,) = tunable_nodes(product(context))
    (result,) = tune(context, [node])
    assert set(result.seconds) | set(result.rejected) == set(candidates(node, context._facts))
    assert result.variant in result.seconds and not result.rejected
    x = np.ones((30, 24), np.float32)
    for name in result.seconds:
        table.put(workload(node), name, {})
        graph = product(context)
        np.testing.assert_allclose(context.compute(graph, {"x": x})["y"], x @ WEIGHTS, rtol=1e-4, atol=1e-5)
    table.put(workload(node), PLAIN, {})
    plain = kernels(product(context))
    table.put(workload(node), default_variant(node, context._facts), {})
    assert plain != kernels(product(context)) or default_variant(node, context._facts) == PLAIN


def test_what_was_measured_is_not_measured_again(context, table, tmp_path):
    (node,) = tunable_nodes(product(context))
    assert len(list(tune(context, [node, node]))) == 1
    again = TuningTable(tmp_path / "table.json")
    assert again.get(workload(node)) == table.get(workload(node)) is not None


def test_a_wrong_variant_is_not_trusted(context, table, monkeypatch):
    node = tunable_nodes(product(context))[0]
    names = [n for n in candidates(node, context._facts) if n != PLAIN]
    kinds = dict(variants._VARIANTS)

    def doctored(node, facts):
        found = dict(kinds["matmul"](node, facts))

        def wrong(node, lw):
            found[PLAIN](type(node)(node.op, {**node.inputs, "a": zeros(lw, node)}, node.attrs, node.outputs), lw)

        return {**found, names[0]: wrong}

    def zeros(lw, node):
        return lw.host_constant(np.zeros(node.inputs["a"].shape, np.float32))

    def tail(self, node):
        return self._tail

    monkeypatch.setattr("webnn_cl.compiler.lower.Lowering.tail", tail)
    monkeypatch.setitem(variants._VARIANTS, "matmul", doctored)
    (result,) = tune(context, [node])
    assert "differs" in result.rejected[names[0]] and result.variant != names[0]


def test_without_the_plain_kernel_nothing_is_trusted(context, table, monkeypatch):
    node = tunable_nodes(product(context))[0]
    kinds = dict(variants._VARIANTS)

    def fails(node, lw):
        raise OperationError("out of memory")

    failing = lambda node, facts: {**kinds["matmul"](node, facts), PLAIN: fails}  # noqa: E731
    monkeypatch.setitem(variants._VARIANTS, "matmul", failing)
    (result,) = tune(context, [node])
    assert result.rejected == {PLAIN: "out of memory"} and not result.seconds and len(table) == 0


def test_a_variant_that_no_longer_exists_is_ignored(context, table):
    (node,) = tunable_nodes(product(context))
    table.put(workload(node), "a variant of old", {})
    x = np.ones((30, 24), np.float32)
    np.testing.assert_allclose(context.compute(product(context), {"x": x})["y"], x @ WEIGHTS, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"w": 3}', '{"w": {"variant": 1}}', "\x00\x01"])
def test_a_damaged_table_counts_as_empty(tmp_path, content):
    path = tmp_path / "t.json"
    path.write_text(content)
    damaged = TuningTable(path)
    assert len(damaged) == 0
    damaged.put("w", PLAIN, {PLAIN: 1.0})
    assert json.loads(path.read_text())["w"]["variant"] == PLAIN


def test_tables_differ_by_device_and_kernels(context, monkeypatch):
    first = store.load(context._facts)._path
    monkeypatch.setattr(store, "_kernels_digest", lambda: "other kernels")
    assert store.load(context._facts)._path != first
    monkeypatch.setenv("WEBNN_CL_CACHE", "off")
    assert store.load(context._facts)._path is None


def tuning(folder, pytestconfig, **more):
    """The command on two small workloads, and its environment."""
    code = (
        "import webnn_cl.tuning.workloads as w; w.PRODUCTS = ((32, 32, 32),); w.CONVOLUTIONS = ((8, 8, 8, 3, 1, 1),);"
        "import sys; from webnn_cl.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    device = pytestconfig.getoption("--device")
    command = [sys.executable, "-c", code, "tune", *(["--device", device] if device else [])]
    environment = {**os.environ, "WEBNN_CL_CACHE": str(folder), "PYTHONPATH": str(Path(__file__).parents[1])}
    return command, environment | more


@pytest.mark.parametrize("family", ["cpu", "gpu"])
def test_a_killed_command_goes_on_where_it_was(tmp_path, pytestconfig, family):
    """Killed behind the first workload; its entry stays as it is, and the second is measured."""
    command, environment = tuning(tmp_path, pytestconfig, WEBNN_CL_KERNELS=family)

    def entries():
        files = list(tmp_path.glob("tuning/*.json"))
        return json.loads(files[0].read_text()) if files else {}

    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        while not entries() and running.poll() is None:
            time.sleep(0.01)
        running.kill()
    before = entries()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert len(before) >= 1 and f"{len(before)} workloads had been measured before" in done.stdout
    assert len(entries()) == 2 and entries().items() >= before.items()
    assert "not trusted" not in done.stdout


def test_command(tmp_path, pytestconfig):
    command, environment = tuning(tmp_path, pytestconfig)
    for expected in ("matmul(", "2 workloads had been measured before"):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        assert expected in done.stdout
    assert list(tmp_path.glob("tuning/*.json"))
