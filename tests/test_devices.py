"""Enumeration and choice of devices: every platform and type, odd drivers, preferences, explicit wishes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyopencl as cl
import pytest

import webnn_cl
from tests.work import python
from webnn_cl.opencl import choice, icd
from webnn_cl.opencl.devices import MLDevice, list_devices

CPU, GPU, ACCELERATOR, CUSTOM = 2, 4, 8, 16


@dataclass
class FakePlatform:
    """A platform as pyopencl shows one."""

    name: str = "Fake"
    vendor: str = "Nobody"
    devices: Any = ()

    def get_devices(self) -> Any:
        if isinstance(self.devices, Exception):
            raise self.devices
        for device in self.devices:
            device.platform = self
        return list(self.devices)


@dataclass(eq=False)
class FakeDevice:
    """A device as pyopencl shows one."""

    name: str
    type: int
    host_unified_memory: bool = False
    max_compute_units: int = 8
    max_clock_frequency: int = 1000
    native_vector_width_float: int = 1
    global_mem_size: int = 1 << 30
    vendor: str = "Nobody"
    driver_version: str = "1.0"
    extensions: str = "cl_khr_fp64 cl_khr_fp16"
    max_work_group_size: int = 256
    local_mem_size: int = 32768
    max_mem_alloc_size: int = 1 << 28
    mem_base_addr_align: int = 1024
    opencl_c_version: str = "OpenCL C 1.2"
    available: bool = True
    platform: Any = field(default=None, repr=False)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Replace the platforms that the library sees."""
    monkeypatch.delenv(choice.DEVICE_VARIABLE, raising=False)

    def use(*platforms: FakePlatform | Exception) -> None:
        def get_platforms() -> list[Any]:
            if platforms and isinstance(platforms[0], Exception):
                raise platforms[0]
            return list(platforms)

        monkeypatch.setattr(cl, "get_platforms", get_platforms)

    return use


DISCRETE = FakeDevice("Big GPU", GPU, max_compute_units=60)
INTEGRATED = FakeDevice("Small GPU", GPU, host_unified_memory=True)
NPU = FakeDevice("NPU", ACCELERATOR)
HOST = FakeDevice("Host", CPU, host_unified_memory=True)


def names(devices: Any) -> list[str]:
    """Names in order."""
    return [d.name for d in devices]


def test_lists_the_real_devices_with_their_facts() -> None:
    devices = webnn_cl.ML().devices()
    assert devices, "the suite needs an OpenCL device"
    for index, device in enumerate(devices):
        assert device.index == index
        assert device.name and device.platform and device.driver_version
        assert device.compute_units > 0 and device.max_work_group_size > 0
        assert device.global_memory_bytes > 0 and device.local_memory_bytes > 0
        assert isinstance(device.cl_device, cl.Device)
        assert device.has_fp64 == ("cl_khr_fp64" in device.extensions)
        assert device.name in str(device) and device.platform in repr(device)


@pytest.mark.parametrize(
    ("preference", "accelerated", "expected"),
    [
        ("default", True, ["Big GPU", "Small GPU", "NPU", "Host"]),
        ("high-performance", True, ["Big GPU", "Small GPU", "NPU", "Host"]),
        ("high-performance", False, ["Big GPU", "Small GPU", "NPU", "Host"]),
        ("low-power", True, ["NPU", "Small GPU", "Host", "Big GPU"]),
        ("low-power", False, ["NPU", "Small GPU", "Host", "Big GPU"]),
        ("default", False, ["Host", "Big GPU", "Small GPU", "NPU"]),
    ],
)
def test_order_of_kinds(fake: Any, preference: str, accelerated: bool, expected: list[str]) -> None:
    fake(FakePlatform(devices=[HOST, NPU, INTEGRATED, DISCRETE]))
    devices = list_devices()
    assert names(choice.ranked(devices, preference, accelerated)) == expected
    assert choice.choose(preference, accelerated).device.name == expected[0]


def test_devices_are_listed_best_first_with_their_place_as_index(fake: Any) -> None:
    fake(FakePlatform(devices=[HOST, NPU]), FakePlatform(devices=[DISCRETE]))
    assert [(d.index, d.name) for d in list_devices()] == [(0, "Big GPU"), (1, "NPU"), (2, "Host")]


def test_strength_within_a_kind(fake: Any) -> None:
    weak = FakeDevice("weak", GPU, max_compute_units=10, max_clock_frequency=1000)
    wide = FakeDevice("wide", GPU, max_compute_units=10, max_clock_frequency=1000, native_vector_width_float=4)
    fast = FakeDevice("fast", GPU, max_compute_units=10, max_clock_frequency=3000)
    roomy = FakeDevice("roomy", GPU, max_compute_units=10, max_clock_frequency=1000, global_mem_size=1 << 34)
    twin = FakeDevice("twin", GPU, max_compute_units=10, max_clock_frequency=1000)
    fake(FakePlatform(devices=[weak, fast, roomy, wide, twin]))
    assert names(list_devices()) == ["wide", "fast", "roomy", "weak", "twin"]


def test_a_fact_of_zero_is_unknown_not_zero(fake: Any) -> None:
    known = FakeDevice("known", CPU, max_clock_frequency=3000, native_vector_width_float=8)
    unknown = FakeDevice("unknown", CPU, max_clock_frequency=0, native_vector_width_float=16)
    fake(FakePlatform(devices=[known]), FakePlatform(devices=[unknown]))
    assert names(list_devices()) == ["unknown", "known"]
    lanes = FakeDevice("lanes", CPU, max_clock_frequency=3000, native_vector_width_float=0, max_compute_units=9)
    fake(FakePlatform(devices=[known, lanes]))
    assert names(list_devices()) == ["lanes", "known"]


def test_devices_of_several_types_and_simulators_come_last(fake: Any) -> None:
    several = FakeDevice("several", CPU | GPU | ACCELERATOR, max_compute_units=1000)
    simulator = FakeDevice("Oclgrind Simulator", CPU, max_compute_units=1000)
    custom = FakeDevice("custom", CUSTOM, max_compute_units=1000)
    simulators = FakePlatform("Oclgrind", devices=[simulator])
    fake(FakePlatform(devices=[several, custom]), simulators, FakePlatform(devices=[HOST]))
    devices = list_devices()
    assert names(devices) == ["Host", "several", "Oclgrind Simulator", "custom"]
    assert [d.type for d in devices] == ["cpu", "gpu+accelerator+cpu", "cpu", "custom"]
    assert names(choice.ranked(devices, "low-power"))[0] == "Host"


def test_survives_platforms_without_devices_and_platforms_that_raise(fake: Any) -> None:
    fake(
        FakePlatform("empty", devices=[]),
        FakePlatform("clover", devices=cl.RuntimeError("clGetDeviceIDs failed: DEVICE_NOT_FOUND")),
        FakePlatform("broken", devices=ValueError("driver bug")),
        FakePlatform("good", devices=[HOST]),
    )
    assert names(list_devices()) == ["Host"]


def test_survives_devices_that_do_not_answer(fake: Any) -> None:
    class Silent(FakeDevice):
        @property
        def max_clock_frequency(self) -> int:  # type: ignore[override]
            raise cl.LogicError("clGetDeviceInfo failed: INVALID_VALUE")

        @max_clock_frequency.setter
        def max_clock_frequency(self, value: int) -> None:
            del value

    fake(FakePlatform(devices=[Silent("silent", CPU), FakeDevice("away", GPU, available=False)]))
    assert names(list_devices()) == ["silent"]


@pytest.mark.parametrize(
    "failure", [cl.LogicError("clGetPlatformIDs failed: PLATFORM_NOT_FOUND_KHR"), RuntimeError("no CL platforms")]
)
def test_no_platform_at_all(fake: Any, failure: Exception) -> None:
    fake(failure)
    assert webnn_cl.ML().devices() == ()
    with pytest.raises(webnn_cl.NotSupportedError) as caught:
        webnn_cl.ML().create_context()
    assert "searched" in str(caught.value) and "pip install" in str(caught.value)
    assert f"the OpenCL loader: {failure}" in str(caught.value)
    with pytest.raises(webnn_cl.NotSupportedError):
        webnn_cl.ML().create_context_async().result(30)


def test_no_device_names_the_searched_folder(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fake()
    monkeypatch.setenv("OCL_ICD_VENDORS", "/some/folder")
    with pytest.raises(webnn_cl.NotSupportedError, match="/some/folder"):
        webnn_cl.ML().create_context()


def test_no_device_names_what_each_platform_answered(fake: Any) -> None:
    lame = FakeDevice("Lame", GPU, available=False)
    refused = cl.RuntimeError("clGetDeviceIDs failed: DEVICE_NOT_FOUND")
    fake(FakePlatform("Empty"), FakePlatform("Broken", devices=refused), FakePlatform("Off", devices=[lame]))
    with pytest.raises(webnn_cl.NotSupportedError) as caught:
        webnn_cl.ML().create_context()
    message = str(caught.value)
    assert "Empty: no device; " in message and f"Broken: {refused}; " in message
    assert "Off: no device that is available" in message


def test_require_filters_the_candidates(fake: Any) -> None:
    fake(FakePlatform(devices=[DISCRETE, HOST]))
    assert choice.choose(require=lambda d: d.type == "cpu").device.name == "Host"
    with pytest.raises(webnn_cl.NotSupportedError, match=r"Big GPU(.|\n)*Host"):
        choice.choose(require=lambda d: d.global_memory_bytes > 1 << 40)
    with pytest.raises(webnn_cl.NotSupportedError, match="require"):
        choice.choose(device="Host", require=lambda d: d.type == "gpu")


def test_device_by_index_name_and_text(fake: Any) -> None:
    epyc = FakeDevice("AMD EPYC", CPU, driver_version="2026.2")
    pocl = FakeDevice("pthread-AMD EPYC", CPU, driver_version="3.0-rc2")
    fake(FakePlatform("Intel(R) OpenCL", devices=[epyc]), FakePlatform("Portable Computing Language", devices=[pocl]))
    pick = lambda wish: choice.choose(device=wish).device.name  # noqa: E731
    assert pick(0) == list_devices()[0].name and pick("1") == list_devices()[1].name
    assert pick("AMD EPYC") == "AMD EPYC"  # an exact name, though it is a part of the other
    assert pick("pthread") == pick("portable") == pick("3.0-rc2") == "pthread-AMD EPYC"
    assert pick("Computing Language / pthread-AMD EPYC / 3.0") == "pthread-AMD EPYC"
    for wish in ("nothing like it", "EPYC", 2, -1, "7"):
        with pytest.raises(webnn_cl.NotSupportedError, match=r"0: (.|\n)*1: "):
            pick(wish)
    for wrong in (1.5, True, object(), b"AMD"):
        with pytest.raises(webnn_cl.MLTypeError):
            pick(wrong)


def test_one_device_under_two_platforms_is_listed_twice_and_ambiguous_by_name(fake: Any) -> None:
    fake(FakePlatform("one", devices=[FakeDevice("same", CPU)]), FakePlatform("two", devices=[FakeDevice("same", CPU)]))
    assert names(list_devices()) == ["same", "same"]
    with pytest.raises(webnn_cl.NotSupportedError, match="2 devices"):
        choice.choose(device="same")
    assert choice.choose(device="two").device.platform == "two"


def test_the_variable_names_a_device(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(FakePlatform(devices=[DISCRETE, HOST]))
    monkeypatch.setenv("WEBNN_CL_DEVICE", "host")
    chosen = choice.choose()
    assert chosen.device.name == "Host" and "WEBNN_CL_DEVICE" in chosen.reason
    assert choice.choose(device="Big GPU").device.name == "Big GPU"
    monkeypatch.setenv("WEBNN_CL_DEVICE", "1")
    assert choice.choose().device.name == "Host"
    monkeypatch.setenv("WEBNN_CL_DEVICE", "unknown")
    with pytest.raises(webnn_cl.NotSupportedError, match="WEBNN_CL_DEVICE"):
        choice.choose()


def test_every_choice_has_a_reason(fake: Any) -> None:
    fake(FakePlatform(devices=[DISCRETE, HOST, INTEGRATED]))
    assert "discrete GPU" in choice.choose().reason
    assert "low-power" in choice.choose("low-power").reason
    assert "CPU" in choice.choose(accelerated=False).reason
    assert "index 1" in choice.choose(device=1).reason


def test_real_contexts_by_every_kind_of_wish() -> None:
    ml = webnn_cl.ML()
    first = ml.devices()[0]
    for wish in (first, first.cl_device, first.index, str(first.index), str(first)):
        with ml.create_context(device=wish) as context:
            assert context.device == first
            assert context.device_reason


def test_mldevices_are_equal_by_device() -> None:
    first, again = webnn_cl.ML().devices()[0], webnn_cl.ML().devices()[0]
    assert first == again and hash(first) == hash(again) and first is not again
    assert first != "text"
    assert MLDevice.of(first.cl_device).index == -1


def test_intel_runtime_is_registered_only_when_the_variable_is_unset(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    library = tmp_path / "lib" / "libintelocl.so"
    library.parent.mkdir()
    library.write_bytes(b"")
    system = tmp_path / "vendors"
    system.mkdir()
    (system / "mesa.icd").write_text("libMesaOpenCL.so.1\n")
    monkeypatch.setattr(icd, "SYSTEM_VENDORS", system)
    monkeypatch.setattr(icd, "intel_runtime", lambda: library)
    monkeypatch.delenv("OCL_ICD_VENDORS", raising=False)
    import os
    from pathlib import Path

    with icd._intel_registered():
        folder = Path(os.environ["OCL_ICD_VENDORS"])
        assert {p.name: p.read_text().strip() for p in folder.iterdir()} == {
            "mesa.icd": "libMesaOpenCL.so.1",
            "webnn_cl_intel.icd": str(library),
        }
    assert "OCL_ICD_VENDORS" not in os.environ and not folder.exists()
    monkeypatch.setenv("OCL_ICD_VENDORS", "/chosen/by/the/user")
    with icd._intel_registered():
        assert os.environ["OCL_ICD_VENDORS"] == "/chosen/by/the/user"


def test_a_query_before_ours_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(icd, "intel_runtime", lambda: tmp_path / "libintelocl.so")
    monkeypatch.delenv("OCL_ICD_VENDORS", raising=False)
    monkeypatch.setattr(icd, "_too_late", False)
    with pytest.warns(RuntimeWarning, match="before webnn_cl"):
        icd._note_if_too_late([FakePlatform(vendor="The pocl project")])
    assert "before webnn_cl" in str(icd.too_late_message())
    icd._note_if_too_late([FakePlatform(vendor="Intel(R) Corporation")])
    assert icd.too_late_message() is None


def test_listing_devices_twice_and_from_threads_in_a_fresh_process() -> None:
    code = """
import threading, webnn_cl
found = []
threads = [threading.Thread(target=lambda: found.append(webnn_cl.ML().devices())) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
assert len(found) == 8 and len(set(map(len, found))) == 1 and found[0], found
print(len(found[0]))
"""
    assert int(python(code)) >= 1
