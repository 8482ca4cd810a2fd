"""The command line, run in this process, and once as a command of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import wave
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import webnn_cl
from webnn_cl.cli import main, one_line

Capture = pytest.CaptureFixture[str]


def write_model(path: Path, nodes: list[onnx.NodeProto], shape: list[int | str], **weights: np.ndarray) -> Path:
    """A model of one input x and one output y."""
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


@pytest.fixture
def relu(tmp_path: Path) -> Path:
    return write_model(tmp_path / "relu.onnx", [helper.make_node("Relu", ["x"], ["y"])], [2, 3])


@pytest.fixture
def free(tmp_path: Path) -> Path:
    return write_model(tmp_path / "free.onnx", [helper.make_node("Relu", ["x"], ["y"])], ["batch", 3])


@pytest.fixture
def product(tmp_path: Path) -> Path:
    weights = np.eye(4, 5, dtype=np.float32)
    return write_model(tmp_path / "product.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"])], [3, 4], w=weights)


def fails(capsys: Capture, *arguments: object) -> str:
    """Run a command that must fail: status 1, nothing on stdout, and one line on stderr, which is returned."""
    try:
        status = main([str(a) for a in arguments])
    except SystemExit as end:
        status = end.code
    out, err = capsys.readouterr()
    assert status == 1 and out == ""
    assert len(err.splitlines()) == 1 and err.startswith("webnn-cl"), err
    return err


def test_devices_table_names_every_device_and_choice(capsys: Capture) -> None:
    assert main(["devices"]) == 0
    out = capsys.readouterr().out
    for device in webnn_cl.ML().devices():
        assert device.name in out and device.driver_version in out
    for wish in ("'default'", "'high-performance'", "'low-power'", "accelerated=False"):
        assert wish in out


def test_devices_json(capsys: Capture) -> None:
    assert main(["devices", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    listed = webnn_cl.ML().devices()
    assert [row["name"] for row in told["devices"]] == [device.name for device in listed]
    assert told["devices"][0]["global_memory_bytes"] == listed[0].global_memory_bytes
    assert told["choices"]["power_preference='default'"]["index"] == listed[0].index
    assert all(choice["reason"] for choice in told["choices"].values())


def test_devices_says_what_to_install_when_there_is_none(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr("webnn_cl.cli.devices.list_devices", tuple)
    assert "pip install" in fails(capsys, "devices")


def test_a_reader_that_goes_away_is_no_failure() -> None:
    command = [sys.executable, "-m", "webnn_cl", "devices"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(timeout=120) == 0


def test_run_reads_an_array_and_saves_the_output(relu: Path, tmp_path: Path, capsys: Capture) -> None:
    array = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)
    np.save(tmp_path / "in.npy", array)
    assert main(["run", str(relu), "--input", f"x={tmp_path / 'in.npy'}", "--save", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert "y: float32[2, 3], min 0, max 6" in out and "[0 2 0 4 0 6]" in out
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "y.npy"), np.maximum(array, 0))


def test_run_seeds_its_random_inputs(relu: Path, capsys: Capture) -> None:
    said = []
    for seed in ("1", "1", "2"):
        assert main(["run", str(relu), "--seed", seed]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] != said[2]


@pytest.mark.parametrize("option", [("--shape", "x=4,3"), ("--free-dim", "batch=4")])
def test_run_fixes_free_dimensions(free: Path, option: tuple[str, str], capsys: Capture) -> None:
    assert main(["run", str(free), *option]) == 0
    assert "x float32[4, 3]" in capsys.readouterr().out


def test_run_takes_a_free_dimension_from_the_file(free: Path, tmp_path: Path, capsys: Capture) -> None:
    np.save(tmp_path / "in.npy", np.ones((5, 3), np.float64))  # converted: no value changes
    assert main(["run", str(free), "--input", f"x={tmp_path / 'in.npy'}"]) == 0
    assert "x float32[5, 3]" in capsys.readouterr().out


def test_run_reads_pictures_and_sounds(tmp_path: Path, capsys: Capture) -> None:
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (8, 4), (255, 0, 51)).save(tmp_path / "p.png")
    model = write_model(tmp_path / "p.onnx", [helper.make_node("Relu", ["x"], ["y"])], [1, 3, 2, 4])
    assert main(["run", str(model), "--input", f"x={tmp_path / 'p.png'}", "--save", str(tmp_path)]) == 0
    expected = np.array([1, 0, 0.2], np.float32)[None, :, None, None] * np.ones((1, 3, 2, 4), np.float32)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected, rtol=1e-6)

    with wave.open(str(tmp_path / "s.wav"), "wb") as file:
        file.setparams((2, 2, 16000, 2, "NONE", "not compressed"))
        file.writeframes(np.array([[16384, 0], [-32768, -32768]], "<i2").tobytes())
    model = write_model(tmp_path / "s.onnx", [helper.make_node("Neg", ["x"], ["y"])], [1, 4])
    assert main(["run", str(model), "--input", f"x={tmp_path / 's.wav'}", "--save", str(tmp_path)]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.array([[-0.25, 1, 0, 0]], np.float32))


@pytest.mark.parametrize("bits", [8, 24, 32])
def test_sounds_of_other_widths(bits: int, tmp_path: Path) -> None:
    from webnn_cl.cli.files import read_wav

    values = [0, 1 << (bits - 2), -(1 << (bits - 1))]
    width = bits // 8
    raw = b"".join((v + 128 if bits == 8 else v).to_bytes(width, "little", signed=bits != 8) for v in values)
    with wave.open(str(tmp_path / "s.wav"), "wb") as file:
        file.setparams((1, width, 8000, 3, "NONE", "not compressed"))
        file.writeframes(raw)
    np.testing.assert_array_equal(read_wav(tmp_path / "s.wav", "x"), np.array([0, 0.5, -1], np.float32))


def test_bench_json(product: Path, capsys: Capture) -> None:
    pytest.importorskip("onnxruntime")
    assert main(["bench", str(product), "--runs", "3", "--compare", "onnxruntime", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["runs"] == 3 and told["inputs"] == {"x": ["float32", [3, 4]]}
    for runtime in ("webnn_cl", "onnxruntime"):
        latency = told["latency_ms"][runtime]
        assert 0 < latency["p10"] <= latency["median"] <= latency["p90"]
    assert told["gflop"] == pytest.approx(2 * 3 * 4 * 5 / 1e9)
    assert told["build_s"]["cold"] > 0 and told["build_s"]["warm"] > 0
    assert told["memory_bytes"]["constants"] >= 4 * 5 * 4 and told["launches"] >= 1


def test_bench_report(relu: Path, capsys: Capture) -> None:
    assert main(["bench", str(relu), "--runs", "2"]) == 0
    out = capsys.readouterr().out
    for word in ("median", "p10", "p90", "GFLOP/s", "cold", "warm", "constants", "launches"):
        assert word in out


def test_check_tells_what_can_not_be_expressed(relu: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["check", str(relu)]) == 0
    assert "Relu" in capsys.readouterr().out
    nodes = [helper.make_node("Unheard", ["x"], ["a"], name="first"), helper.make_node("NonZero", ["a"], ["y"])]
    assert main(["check", str(write_model(tmp_path / "bad.onnx", nodes, [2, 3]))]) == 2
    out = capsys.readouterr().out
    assert "first" in out and "Unheard" in out


def test_run_of_what_can_not_be_expressed(tmp_path: Path, capsys: Capture) -> None:
    path = write_model(tmp_path / "bad.onnx", [helper.make_node("Unheard", ["x"], ["y"], name="first")], [2, 3])
    err = fails(capsys, "run", path)
    assert "Unheard" in err and "first" in err


@pytest.mark.parametrize("command", ["run", "bench", "check"])
def test_malformed_models(command: str, relu: Path, tmp_path: Path, capsys: Capture) -> None:
    bad = tmp_path / "bad.onnx"
    bad.write_bytes(b"this is no model at all")
    assert "bad.onnx" in fails(capsys, command, bad)
    bad.write_bytes(b"")
    assert "bad.onnx" in fails(capsys, command, bad)
    whole = relu.read_bytes()
    bad.write_bytes(whole[: len(whole) // 2])
    assert "bad.onnx" in fails(capsys, command, bad)
    assert "nowhere.onnx" in fails(capsys, command, tmp_path / "nowhere.onnx")
    assert "is not a file" in fails(capsys, command, tmp_path)


def test_huge_model(tmp_path: Path, capsys: Capture) -> None:
    """Shapes that no device holds are refused before anything is allocated."""
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    path = write_model(tmp_path / "huge.onnx", nodes, ["n", 1 << 20, 1 << 20])
    fails(capsys, "run", path, "--free-dim", "n=1048576")


def test_wrong_feeds(relu: Path, free: Path, tmp_path: Path, capsys: Capture) -> None:
    np.save(tmp_path / "wrong.npy", np.zeros((2, 4), np.float32))
    assert "[2, 4]" in fails(capsys, "run", relu, "--input", f"x={tmp_path / 'wrong.npy'}")
    np.save(tmp_path / "text.npy", np.array([["a", "b", "c"]] * 2))
    assert "can't be float32" in fails(capsys, "run", relu, "--input", f"x={tmp_path / 'text.npy'}")
    np.save(tmp_path / "big.npy", np.full((2, 3), 2**53 - 1))
    assert "without change" in fails(capsys, "run", relu, "--input", f"x={tmp_path / 'big.npy'}")
    (tmp_path / "bad.npy").write_bytes(b"not numpy")
    assert "bad.npy" in fails(capsys, "run", relu, "--input", f"x={tmp_path / 'bad.npy'}")
    (tmp_path / "bad.wav").write_bytes(b"not sound")
    assert "bad.wav" in fails(capsys, "run", relu, "--input", f"x={tmp_path / 'bad.wav'}")
    (tmp_path / "p.png").write_bytes(b"")
    assert "channels" in fails(capsys, "run", relu, "--input", f"x={tmp_path / 'p.png'}")
    assert "none.npy" in fails(capsys, "run", relu, "--input", f"x={tmp_path / 'none.npy'}")
    assert "batch" in fails(capsys, "run", free)


def test_unknown_names(relu: Path, tmp_path: Path, capsys: Capture) -> None:
    np.save(tmp_path / "in.npy", np.zeros((2, 3), np.float32))
    assert "'z'" in fails(capsys, "run", relu, "--input", f"z={tmp_path / 'in.npy'}")
    assert "z" in fails(capsys, "run", relu, "--shape", "z=1,2")
    assert "depth" in fails(capsys, "run", relu, "--free-dim", "depth=2")
    assert "no such device" in fails(capsys, "run", relu, "--device", "no such device")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["fly"],
        ["run"],
        ["run", "a.onnx", "--shape", "x"],
        ["run", "a.onnx", "--shape", "x=1,b"],
        ["run", "a.onnx", "--shape", "x=0"],
        ["run", "a.onnx", "--free-dim", "batch=-1"],
        ["run", "a.onnx", "--input", "x"],
        ["bench", "a.onnx", "--runs", "0"],
        ["bench", "a.onnx", "--compare", "abacus"],
        ["devices", "--what"],
    ],
)
def test_wrong_arguments_are_one_line(arguments: list[str], capsys: Capture) -> None:
    fails(capsys, *arguments)


@pytest.mark.parametrize("command", ["devices", "run", "bench", "check"])
def test_help(command: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    assert end.value.code == 0
    assert f"webnn-cl {command}" in capsys.readouterr().out


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        main(["run", str(tmp_path / "nowhere.onnx"), "--debug"])


def test_one_line_is_one_line() -> None:
    assert one_line(ValueError("a\n  b\n\nc")) == "a; b; c"
    assert one_line(KeyError("k")) == "KeyError: 'k'"
    assert len(one_line(ValueError("x" * 9999))) <= 2000


def test_as_a_command_of_its_own(relu: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "webnn_cl", "run", str(relu)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0 and "y: float32[2, 3]" in done.stdout, done.stderr
    done = subprocess.run(
        [sys.executable, "-m", "webnn_cl", "check", "nowhere.onnx"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1 and done.stderr == "webnn-cl check: nowhere.onnx is not a file\n"
