"""Devices as NVML lists them: every field a value or a reason, hostile names, and which devices CUDA shows."""

from collections.abc import Callable
from typing import Any

import msgspec
import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.artifact import canonical
from assay.nvml import Listed, read_gpus, visible
from assay.record import Device, Driver, Unavailable

Card = dict[str, Any]

UUIDS = [
    "GPU-11110000-aaaa-4bbb-8ccc-000000000001",
    "GPU-11112222-aaaa-4bbb-8ccc-000000000002",
    "GPU-33330000-aaaa-4bbb-8ccc-000000000003",
]
THREE = [Listed(uuid) for uuid in UUIDS]
UNSUPPORTED = pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


class Memory(msgspec.Struct):
    total: int


def card(number: int = 0, **changes: Any) -> Card:
    """Return the answers of one card to NVML's questions, by the name of the question; an exception is raised."""
    answers = {
        "nvmlDeviceGetName": "NVIDIA H200",
        "nvmlDeviceGetUUID": UUIDS[number],
        "nvmlDeviceGetCudaComputeCapability": (9, 0),
        "nvmlDeviceGetMemoryInfo": Memory(150_754_820_096),
        "nvmlDeviceGetVbiosVersion": "96.00.9F.00.01",
        "nvmlDeviceGetEccMode": [1, 0],
        "nvmlDeviceGetMigMode": [0, 1],
        "nvmlDeviceGetPersistenceMode": 1,
        "nvmlDeviceGetPowerManagementLimit": 700_000,
        "nvmlDeviceGetMaxClockInfo": 1980,
        "nvmlDeviceGetMaxMigDeviceCount": 0,
    }
    return answers | {f"nvmlDeviceGet{name}": answer for name, answer in changes.items()}


class SimulatedNvml:
    """Answers as the module pynvml does, from given cards; a card that is an exception gives no handle."""

    NVMLError = pynvml.NVMLError
    NVML_CLOCK_SM, NVML_CLOCK_MEM = pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_MEM

    def __init__(self, *cards: Card | Exception, **changes: Any) -> None:
        self.cards = cards
        self.running = False
        self.answers: Card = {
            "nvmlInit": None,
            "nvmlShutdown": None,
            "nvmlDeviceGetCount": len(cards),
            "nvmlSystemGetDriverVersion": "580.159.04",
            "nvmlSystemGetCudaDriverVersion_v2": 13010,
            "nvmlSystemGetNVMLVersion": "13.580.159.04",
        } | changes

    def __getattr__(self, question: str) -> Callable[..., Any]:
        def ask(*arguments: Any) -> Any:
            answers = arguments[0] if arguments and isinstance(arguments[0], dict) else self.answers
            answer = answers[question]
            if isinstance(answer, Exception):
                raise answer
            self.running = {"nvmlInit": True, "nvmlShutdown": False}.get(question, self.running)
            return answer

        return ask

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Card:
        chosen = self.cards[index]
        if isinstance(chosen, Exception):
            raise chosen
        return chosen

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Card, index: int) -> Card:
        instance: Card = handle["instances"][index]
        return instance


def devices_of(nvml: SimulatedNvml, setting: str | None = None) -> list[Device]:
    devices = read_gpus(nvml, setting)[1]
    assert isinstance(devices, list)
    return devices


entries = st.one_of(
    st.integers(-2, 4).map(str),
    st.sampled_from([*UUIDS, "GPU-3", "GPU-1111", "GPU-11112", "GPU-9", "MIG-1", "none", "", " 1 ", "1x"]),
)
settings = st.lists(entries, max_size=5).map(",".join)


@given(st.integers(0, 5))
def test_unset_shows_every_device(count: int) -> None:
    assert visible(None, [Listed(None)] * count) == list(range(count))


@given(settings)
def test_what_is_shown_is_a_part_of_what_is_listed_each_once(setting: str) -> None:
    shown = visible(setting, THREE)
    assert len(set(shown)) == len(shown)
    assert set(shown) <= {0, 1, 2}


@given(st.permutations([0, 1, 2]), st.integers(1, 3), st.booleans())
def test_devices_are_shown_in_the_order_of_the_setting(order: list[int], count: int, by_uuid: bool) -> None:
    chosen = order[:count]
    setting = ",".join(UUIDS[index] if by_uuid else str(index) for index in chosen)
    assert visible(setting, THREE) == chosen


@given(settings, st.sampled_from(["-1", "3", "none", "", "GPU-9", "GPU-1", "MIG-1", "99999999999999999999"]), settings)
def test_nothing_after_an_invalid_entry_is_shown(before: str, invalid: str, after: str) -> None:
    alone = visible(before, THREE)
    assert visible(f"{before},{invalid},{after}", THREE) == alone


@given(settings)
def test_only_the_leading_valid_part_counts_and_a_repetition_hides_all(setting: str) -> None:
    assert visible(setting + ",0,0", THREE) in ([], visible(setting, THREE))


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("", []),
        ("-1", []),
        ("0,-1,1", [0]),
        ("2, 0", [2, 0]),
        ("1,1", []),
        ("+1", [1]),
        ("GPU-3", [2]),
        ("GPU-1111", []),
        ("GPU-11112,0", [1, 0]),
        ("gpu-3", []),
        ("9" * 5000, []),
    ],
)
def test_readings_of_the_variable(setting: str, expected: list[int]) -> None:
    assert visible(setting, THREE) == expected


def test_a_mig_instance_shows_its_card() -> None:
    listed = [Listed(UUIDS[0]), Listed(UUIDS[1], ("MIG-5-a", "MIG-6-b"))]
    assert visible("MIG-6", listed) == [1]
    assert visible("MIG-5-a,MIG-6-b", listed) == [1]
    assert visible(f"MIG-{UUIDS[1]}/1/0", listed) == [1]
    assert visible("MIG-", listed) == []


def test_the_simulation_asks_only_what_pynvml_answers() -> None:
    questions = [*card(), *SimulatedNvml().answers, "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetMigDeviceHandleByIndex"]
    assert [name for name in questions if not callable(getattr(pynvml, name, None))] == []


def test_a_card_is_described_in_full() -> None:
    nvml = SimulatedNvml(card())
    driver, devices, unidentified = read_gpus(nvml, None)
    assert driver == Driver(version="580.159.04", cuda="13.1", nvml="13.580.159.04")
    assert unidentified == []
    assert isinstance(devices, list)
    (device,) = devices
    assert (device.name, device.target, device.compute_capability) == ("NVIDIA H200", "sm_90", "9.0")
    assert (device.visible, device.ecc, device.mig, device.persistence) == (True, True, False, True)
    assert (device.memory_bytes, device.power_limit_milliwatts) == (150_754_820_096, 700_000)
    assert not nvml.running


def test_no_raw_serial_is_in_the_description() -> None:
    nvml = SimulatedNvml(card(), card(1, Name=f"Card {UUIDS[1]}"))
    text = canonical(devices_of(nvml)).decode()
    assert not [uuid for uuid in UUIDS if uuid in text]


@pytest.mark.parametrize(
    ("question", "field"),
    [
        ("MemoryInfo", "memory_bytes"),
        ("VbiosVersion", "vbios"),
        ("EccMode", "ecc"),
        ("MigMode", "mig"),
        ("PersistenceMode", "persistence"),
        ("PowerManagementLimit", "power_limit_milliwatts"),
        ("MaxClockInfo", "maximum_sm_clock_mhz"),
    ],
)
def test_a_field_that_is_not_supported_is_a_reason_and_spoils_no_other(question: str, field: str) -> None:
    (whole,) = devices_of(SimulatedNvml(card()))
    (partial,) = devices_of(SimulatedNvml(card(**{question: UNSUPPORTED})))
    assert getattr(partial, field) == Unavailable(reason="NVML says: Not Supported")
    others = set(Device.__struct_fields__) - {field, "maximum_memory_clock_mhz"}
    assert all(getattr(partial, name) == getattr(whole, name) for name in others)


@pytest.mark.parametrize("answer", [-1, 2**32 - 1, 2**53, 2**64 - 1])
def test_a_mark_for_not_available_is_no_number(answer: int) -> None:
    (device,) = devices_of(SimulatedNvml(card(PowerManagementLimit=answer)))
    assert isinstance(device.power_limit_milliwatts, Unavailable)
    canonical(device)


def test_a_card_without_a_uuid_is_still_described() -> None:
    (device,) = devices_of(SimulatedNvml(card(UUID=UNSUPPORTED)))
    assert device.uuid_hash == Unavailable(reason="NVML does not tell the device's UUID")


@given(st.text(st.characters(), max_size=80))
def test_a_hostile_name_is_one_harmless_line_or_a_reason(name: str) -> None:
    _, devices, unidentified = read_gpus(SimulatedNvml(card(Name=name)), None)
    assert isinstance(devices, list)
    assert len(devices) + len(unidentified) == 1
    canonical([devices, unidentified])
    assert all(device.name.splitlines() == [device.name] for device in devices)


def test_a_name_that_is_not_utf8_is_a_reason() -> None:
    broken = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
    _, devices, unidentified = read_gpus(SimulatedNvml(card(Name=broken)), None)
    assert devices == []
    assert "device 0 has no name: NVML says: 'utf-8' codec" in unidentified[0].reason


def test_a_lost_card_is_told_and_keeps_its_number() -> None:
    lost = pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
    _, devices, unidentified = read_gpus(SimulatedNvml(lost, card(1)), "1")
    assert isinstance(devices, list)
    assert [(device.name, device.visible) for device in devices] == [("NVIDIA H200", True)]
    assert unidentified == [Unavailable(reason="device 0 does not answer: NVML says: GPU is lost")]


def test_devices_stand_in_cudas_order() -> None:
    cards = [card(0, Name="A"), card(1, Name="B"), card(2, Name="C")]
    devices = devices_of(SimulatedNvml(*cards), "2,1")
    assert [(device.name, device.visible) for device in devices] == [("C", True), ("B", True), ("A", False)]


def test_a_mig_instance_in_the_variable_shows_its_card() -> None:
    slices = [{"nvmlDeviceGetUUID": "MIG-77"}, {"nvmlDeviceGetUUID": pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)}]
    sliced = card(1, MigMode=[1, 1], MaxMigDeviceCount=2) | {"instances": slices}
    devices = devices_of(SimulatedNvml(card(), sliced), "MIG-77")
    assert [(device.visible, device.mig) for device in devices] == [(True, True), (False, False)]


def test_a_driver_with_no_device_has_an_empty_list() -> None:
    driver, devices, unidentified = read_gpus(SimulatedNvml(), None)
    assert isinstance(driver, Driver)
    assert (devices, unidentified) == ([], [])


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED])
def test_no_driver_is_a_reason_for_driver_and_devices(code: int) -> None:
    error = pynvml.NVMLError(code)
    driver, devices, _ = read_gpus(SimulatedNvml(nvmlInit=error), None)
    assert driver == devices == Unavailable(reason=f"no NVIDIA driver: {error}")


def test_a_count_that_is_refused_is_not_an_empty_list() -> None:
    denied = pynvml.NVMLError(pynvml.NVML_ERROR_NO_PERMISSION)
    _, devices, _ = read_gpus(SimulatedNvml(card(), nvmlDeviceGetCount=denied), None)
    assert devices == Unavailable(reason="NVML says: Insufficient Permissions")
