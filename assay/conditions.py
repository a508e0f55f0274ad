"""Reads the card's state through NVML: clocks, temperature, power, what slows it, and who else uses it.

NVML ignores CUDA_VISIBLE_DEVICES, so the card is found by its UUID. In virtual machines, MIG and WSL single fields are
not supported: each is a value or a typed reason.
"""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pynvml

from assay.privacy import one_line
from assay.record import Conditions, Unavailable

SLOWED_BY = {
    0x4: "power limit",
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
"""The event reasons that lower clocks under load (nvml.h, nvmlClocksEventReasons)."""


@dataclass(frozen=True)
class Card:
    """One device as NVML knows it. `nvml` is the module `pynvml`, initialised."""

    nvml: Any
    handle: Any

    def conditions(self) -> Conditions:
        """Return the state now, each field a value or the reason why there is none."""
        nvml = self.nvml
        return Conditions(
            sm_clock_mhz=self._value(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM),
            memory_clock_mhz=self._value(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_MEM),
            temperature_celsius=self._value(nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU),
            power_milliwatts=self._value(nvml.nvmlDeviceGetPowerUsage),
            event_reasons=self._value(nvml.nvmlDeviceGetCurrentClocksEventReasons),
            other_processes=self._others(),
        )

    def _read(self, read: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return read(self.handle, *arguments)
        except self.nvml.NVMLError as error:
            return Unavailable(reason=one_line(f"NVML: {error}"))

    def _value(self, read: Callable[..., Any], *arguments: Any) -> int | Unavailable:
        value = self._read(read, *arguments)
        if isinstance(value, Unavailable):
            return value
        # -1, NVML's mark for "not available", reads as 2^32-1 in an unsigned field (nvml.h).
        return int(value) if 0 <= value < 2**32 - 1 else Unavailable(reason=f"NVML answers {value}: not available")

    def _others(self) -> int | Unavailable:
        """Count the processes on the card but this one, which is among them even where a container renumbers it."""
        listed = self._read(self.nvml.nvmlDeviceGetComputeRunningProcesses)
        if isinstance(listed, Unavailable):
            return listed
        numbers = {process.pid for process in listed}
        if not numbers:
            return Unavailable(reason="NVML lists no process here, not even this one")
        return len(numbers - {os.getpid()}) if os.getpid() in numbers else len(numbers) - 1


def find_card(uuid: str, nvml: Any = pynvml) -> Card | Unavailable:
    """Return the card of a CUDA device's UUID (without prefix), a whole GPU or a MIG slice, or why NVML has none."""
    reason = ""
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return Unavailable(reason=one_line(f"NVML: {error}"))
    for kind in ("GPU", "MIG"):
        try:
            return Card(nvml, nvml.nvmlDeviceGetHandleByUUID(f"{kind}-{uuid}"))
        except nvml.NVMLError as error:
            reason = reason or one_line(f"NVML knows no device of this UUID: {error}")
    return Unavailable(reason=reason)


def read_conditions(card: Card | Unavailable) -> Conditions:
    """Return a card's state; without a card, its reason in every field."""
    if isinstance(card, Card):
        return card.conditions()
    return Conditions(
        sm_clock_mhz=card,
        memory_clock_mhz=card,
        temperature_celsius=card,
        power_milliwatts=card,
        event_reasons=card,
        other_processes=card,
    )


def disturbances(rounds: Sequence[Conditions]) -> list[str]:
    """Return what may have disturbed the samples, each in words with the number of rounds beside which it was seen."""
    seen: Counter[str] = Counter()
    # Few states differ, and there can be 100,000 rounds.
    for (events, others), times in Counter((state.event_reasons, state.other_processes) for state in rounds).items():
        if not isinstance(events, Unavailable):
            seen.update({name: times for mask, name in SLOWED_BY.items() if events & mask})
        if not isinstance(others, Unavailable) and others > 0:
            seen["other processes on the card"] += times
    return [f"{what} beside {count} of {len(rounds)} rounds" for what, count in seen.items()]
