"""README.md is true: its programs run, and its tables name every command, variable and extra that there is."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pyopencl as cl
import pytest
from onnx import TensorProto, helper

import webnn_cl
from webnn_cl.cli import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def write_model(path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def test_the_first_program_prints_what_it_computes(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(blocks("python")[0], "README.md", "exec"), {})
    assert capsys.readouterr().out == "[[ 2.  2.]\n [11. 11.]]\n"


def test_the_onnx_program_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_model(tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    scope = {"webnn_cl": webnn_cl, "array": np.array([-1, 2], np.float32)}
    exec(compile(blocks("python")[1], "README.md", "exec"), scope)
    np.testing.assert_array_equal(scope["outputs"][0], [0, 2])
    scope["session"].destroy()


def test_the_rented_tensor_is_written_by_the_kernel() -> None:
    source = "kernel void seven(global float *x) { x[get_global_id(0)] = 7; }"
    with webnn_cl.ML().create_context() as context:
        kernel = cl.Kernel(cl.Program(context.cl_context, source).build(), "seven")
        scope = {"context": context, "my_kernel": kernel}
        exec(
            compile(blocks("python")[2].replace("exportable=True", "exportable=True, readable=True"), "r", "exec"),
            scope,
        )
        assert (context.read_tensor(scope["tensor"]) == 7).all()


def test_every_command_is_in_the_table() -> None:
    for command in COMMANDS:
        assert f"| `webnn-cl {command.__name__.rpartition('.')[2]} " in README


def test_every_variable_is_in_the_table() -> None:
    """The library's, the examples' and the tests': read anywhere, told in one place."""
    read = set()
    for folder in ("webnn_cl", "examples", "tests"):
        for path in (ROOT / folder).rglob("*.py"):
            read |= set(re.findall(r"WEBNN_CL_[A-Z]+", path.read_text(encoding="utf-8")))
    table = {
        name for row in README.splitlines() if row.startswith("| `") for name in re.findall(r"WEBNN_CL_[A-Z]+", row)
    }
    assert read - {"WEBNN_CL_"} == table


def test_every_extra_is_in_the_table() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    section = text.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    for extra in re.findall(r"^(\w+) = \[", section, re.MULTILINE):
        assert f"| `{extra}` |" in README


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\((?!http)([^)]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_two_commands_come_first() -> None:
    job, tests = blocks("sh")[:2]
    assert job.endswith("examples/read_text.py\n") and tests.endswith("-m pytest -n 2\n")
