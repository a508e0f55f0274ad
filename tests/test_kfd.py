"""AMD's GPUs as the Linux driver lists them: a folder laid out like its part of sysfs."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import environment
from assay.kfd import count, read_gpus, read_shown, target_of
from assay.record import Device, Driver, Unavailable

HIDING = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
PROCESSOR = {"cpu_cores_count": 64, "simd_count": 0, "gfx_target_version": 0}


def card(number: int, version: int = 90402, **more: int) -> dict[str, int]:
    return {"gfx_target_version": version, "unique_id": 1000 + number, "drm_render_minor": 128 + number, **more}


def lines(properties: Mapping[str, int]) -> str:
    return "".join(f"{name} {value}\n" for name, value in properties.items())


def machine(root: Path, *nodes: Mapping[str, int]) -> Path:
    """Lay out a processor and these nodes; each GPU has 1 GiB of its own beside the host's."""
    for number, properties in enumerate([PROCESSOR, *nodes]):
        folder = root / "class/kfd/kfd/topology/nodes" / str(number)
        for bank, (kind, size) in enumerate([(0, 2**40), (1, 2**30)]):
            place = folder / "mem_banks" / str(bank)
            place.mkdir(parents=True)
            (place / "properties").write_text(lines({"heap_type": kind, "size_in_bytes": size}), "ascii")
        (folder / "properties").write_text(lines(properties), "ascii")
    return root


def devices(variables: Mapping[str, str], sysfs: Path) -> list[Device]:
    found = read_gpus(variables, sysfs)
    assert found is not None
    assert isinstance(found[1], list)
    return found[1]


@pytest.mark.parametrize(
    ("version", "target"),
    [(90402, "gfx942"), (90010, "gfx90a"), (90500, "gfx950"), (110000, "gfx1100"), (120001, "gfx1201")],
)
def test_the_drivers_version_is_llvms_processor(version: int, target: str) -> None:
    assert target_of(version) == target


def test_without_the_driver_there_is_nothing(tmp_path: Path) -> None:
    assert read_gpus({}, tmp_path) is None
    assert count(tmp_path) == 0
    assert count(machine(tmp_path)) == 0, "a processor is no GPU"


def test_a_card_is_described_as_far_as_the_driver_tells(tmp_path: Path) -> None:
    sysfs = machine(tmp_path, card(0, max_engine_clk_fcompute=2100))
    product = sysfs / "class/drm/renderD128/device/product_name"
    product.parent.mkdir(parents=True)
    product.write_text("AMD Instinct\x1b[31m MI300X\n", "ascii")
    (found,) = devices({}, sysfs)
    assert (found.name, found.target, found.visible) == ("AMD Instinct MI300X", "gfx942", True)
    assert found.compute_capability == Unavailable(reason="compute capabilities are CUDA's")
    assert (found.memory_bytes, found.maximum_sm_clock_mhz) == (2**30, 2100)
    assert isinstance(found.uuid_hash, str)
    assert found.ecc == found.power_limit_milliwatts == Unavailable(reason="AMD SMI is not asked")


def test_what_the_driver_leaves_out_is_a_reason(tmp_path: Path) -> None:
    sysfs = machine(tmp_path, {"gfx_target_version": 120001})
    for bank in sysfs.glob("class/kfd/kfd/topology/nodes/1/mem_banks/*/properties"):
        bank.write_bytes(b"size_in_bytes much\n\xff")
    (found,) = devices({}, sysfs)
    assert found.name == "AMD gfx1201"
    assert found.uuid_hash == Unavailable(reason="the driver tells no unique id")
    assert found.memory_bytes == Unavailable(reason="the driver lists no memory of the card's own")
    driver = (read_gpus({}, sysfs) or [None])[0]
    assert isinstance(driver, Driver)
    assert isinstance(driver.version, Unavailable)


@pytest.mark.parametrize(
    ("variables", "shown"),
    [
        ({}, [0, 1, 2]),
        ({"HIP_VISIBLE_DEVICES": "2,0"}, [2, 0]),
        ({"CUDA_VISIBLE_DEVICES": "1"}, [1]),
        ({"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "1"}, [0]),
        ({"ROCR_VISIBLE_DEVICES": "2,1", "HIP_VISIBLE_DEVICES": "1"}, [1]),
        ({"ROCR_VISIBLE_DEVICES": f"GPU-{1002:016x}"}, [2]),
        ({"HIP_VISIBLE_DEVICES": "-1"}, []),
    ],
)
def test_the_visible_devices_come_first(tmp_path: Path, variables: Mapping[str, str], shown: list[int]) -> None:
    versions = [90010, 90402, 110000]
    found = devices(variables, machine(tmp_path, *(card(at, version) for at, version in enumerate(versions))))
    assert [device.target for device in found if device.visible] == [target_of(versions[at]) for at in shown]
    assert [device.visible for device in found] == [True] * len(shown) + [False] * (3 - len(shown))


@given(st.dictionaries(st.sampled_from(HIDING), st.text("0123,-GPUx ", max_size=8)))
def test_each_device_is_listed_once_whatever_hides_it(
    tmp_path_factory: pytest.TempPathFactory, variables: Mapping[str, str]
) -> None:
    sysfs = machine(tmp_path_factory.mktemp("sys"), *(card(at) for at in range(3)))
    assert len({device.uuid_hash for device in devices(variables, sysfs)}) == 3


@given(st.lists(st.sampled_from(["0", "1", "0,1", "-1"]), min_size=3, max_size=3))
def test_a_job_is_shown_the_first_visible_device_and_no_other(
    tmp_path_factory: pytest.TempPathFactory, values: list[str]
) -> None:
    variables, sysfs = dict(zip(HIDING, values, strict=True)), machine(tmp_path_factory.mktemp("kfd"), card(0), card(1))
    first = [device for device in devices(variables, sysfs) if device.visible][:1]
    assert [(one.device, one.uuid, one.selector) for one in read_shown(variables, sysfs)] == [
        (device, None, None) for device in first
    ]


def test_amds_devices_are_captured_where_nvidias_driver_is_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = Unavailable(reason="no NVIDIA driver")
    monkeypatch.setattr(environment, "_nvidia_gpus", lambda _setting: (absent, absent, []))
    driver, found, _ = environment.gpus({}, machine(tmp_path, card(0)))
    assert isinstance(driver, Driver)
    assert isinstance(found, list)
    assert [device.target for device in found] == ["gfx942"]
    assert environment.gpus({}, tmp_path / "none") == (absent, absent, [])
