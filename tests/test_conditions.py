"""The card's state: against the real NVML as far as it is here, and against one that answers as a test says."""

import os
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from assay.conditions import SLOWED_BY, Card, disturbances, find_card, read_conditions
from assay.record import Conditions, Unavailable

ABSENT = Unavailable(reason="not asked")


class Nvml:
    """Answers like pynvml: `answers` maps a function's name (without nvmlDeviceGet) to a value or a refusal."""

    NVMLError = pynvml.NVMLError
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(self, uuid: str = "GPU-1", **answers: Any) -> None:
        self.uuid, self.answers = uuid, answers

    def nvmlInit(self) -> None:
        """Succeed."""

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        if uuid != self.uuid:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return uuid

    def __getattr__(self, name: str) -> Any:
        answer = self.answers.get(name.removeprefix("nvmlDeviceGet"), pynvml.NVML_ERROR_NOT_SUPPORTED)

        def get(handle: str, *arguments: int) -> Any:
            if answer == pynvml.NVML_ERROR_NOT_SUPPORTED:
                raise pynvml.NVMLError(answer)
            return answer[arguments[0]] if isinstance(answer, dict) else answer

        return get


def processes(*numbers: int) -> list[SimpleNamespace]:
    return [SimpleNamespace(pid=number) for number in numbers]


def read(**answers: Any) -> Conditions:
    return Card(Nvml(**answers), "GPU-1").conditions()


def state(events: int | Unavailable = ABSENT, others: int | Unavailable = ABSENT) -> Conditions:
    return Conditions(
        sm_clock_mhz=ABSENT,
        memory_clock_mhz=ABSENT,
        temperature_celsius=ABSENT,
        power_milliwatts=ABSENT,
        event_reasons=events,
        other_processes=others,
    )


def test_the_real_nvml_knows_no_device_of_an_invented_uuid() -> None:
    card = find_card("00000000-0000-0000-0000-000000000000")
    assert isinstance(card, Unavailable)
    assert card.reason.startswith("NVML")
    assert set(vars_of(read_conditions(card))) == {card}


def vars_of(conditions: Conditions) -> list[Any]:
    return [getattr(conditions, name) for name in conditions.__struct_fields__]


def test_the_masks_are_those_of_the_library() -> None:
    names = ["SwPowerCap", "HwSlowdown", "SwThermalSlowdown", "HwThermalSlowdown", "HwPowerBrakeSlowdown"]
    assert list(SLOWED_BY) == [getattr(pynvml, f"nvmlClocksEventReason{name}") for name in names]


def test_every_field_has_its_own_source() -> None:
    found = read(
        ClockInfo={1: 1980, 2: 3201},
        Temperature={0: 36},
        PowerUsage=78922,
        CurrentClocksEventReasons=4,
        ComputeRunningProcesses=processes(os.getpid()),
    )
    assert vars_of(found) == [1980, 3201, 36, 78922, 4, 0]


def test_a_field_that_is_not_supported_says_so_and_leaves_the_others() -> None:
    found = read(PowerUsage=78922)
    assert found.power_milliwatts == 78922
    assert found.temperature_celsius == Unavailable(reason="NVML: Not Supported")
    assert found.other_processes == Unavailable(reason="NVML: Not Supported")


@pytest.mark.parametrize("mark", [2**32 - 1, -1])
def test_the_librarys_mark_for_not_available_is_no_reading(mark: int) -> None:
    assert read(PowerUsage=mark).power_milliwatts == Unavailable(reason=f"NVML answers {mark}: not available")


@pytest.mark.parametrize(
    ("numbers", "others"),
    [((os.getpid(),), 0), ((os.getpid(), 1, 2), 2), ((-5,), 0), ((-5, -6), 1), ((os.getpid(), os.getpid()), 0)],
)
def test_this_process_is_not_counted_even_where_it_has_another_number(numbers: tuple[int, ...], others: int) -> None:
    assert read(ComputeRunningProcesses=processes(*numbers)).other_processes == others


def test_an_empty_list_of_processes_is_one_that_hides_them() -> None:
    reason = "NVML lists no process here, not even this one"
    assert read(ComputeRunningProcesses=[]).other_processes == Unavailable(reason=reason)


@pytest.mark.parametrize("kind", ["GPU", "MIG"])
def test_the_card_is_found_by_its_uuid(kind: str) -> None:
    card = find_card("1", Nvml(uuid=f"{kind}-1"))
    assert isinstance(card, Card)
    assert card.handle == f"{kind}-1"


def test_an_unknown_uuid_is_a_reason() -> None:
    assert find_card("2", Nvml()) == Unavailable(reason="NVML knows no device of this UUID: Not Found")


def test_disturbances_count_the_rounds_beside_which_they_were_seen() -> None:
    rounds = [state(0x1, 0), state(0x4, 0), state(0x44, 2), state(), state(0x2, 1)]
    assert disturbances(rounds) == [
        "power limit beside 2 of 5 rounds",
        "hardware thermal slowdown beside 1 of 5 rounds",
        "other processes on the card beside 2 of 5 rounds",
    ]


def test_a_quiet_card_is_not_disturbed() -> None:
    assert disturbances([state(0, 0), state(0x1, 0), state()]) == []
