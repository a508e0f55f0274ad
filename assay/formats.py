"""How the report writes numbers, amounts and what is absent."""

from collections.abc import Callable, Iterable
from statistics import median
from typing import TypeVar

from assay.record import Digest, Estimate, NonFinite, Number, Rate, Unavailable

T = TypeVar("T")

ABSENT = "–"
"""Stands in a table cell where there is nothing to say; the row's verdict says why."""


def short(digest: Digest) -> str:
    """Return enough of a digest to find the whole one by."""
    return digest[:12]


def numeral(value: Number, digits: int = 3) -> str:
    """Return a number to `digits` significant digits, or the name of one that is not finite."""
    if isinstance(value, NonFinite):
        return {"nan": "NaN", "inf": "infinite", "-inf": "-infinite"}[value.nonfinite]
    mantissa, exponent, power = f"{value:.{digits}g}".partition("e")
    return f"{mantissa}e{int(power)}" if exponent else mantissa


def scientific(value: Number) -> str:
    """Return an error to three digits, always with its exponent, so that a column of them compares at a glance."""
    if isinstance(value, NonFinite) or not value:
        return numeral(value)
    mantissa, _, power = f"{value:.2e}".partition("e")
    return f"{mantissa}e{int(power)}"


def milliseconds(nanoseconds: float | Unavailable) -> str:
    """Return a time in ms to four digits, trailing zeros kept."""
    return shown(nanoseconds) if isinstance(nanoseconds, Unavailable) else f"{nanoseconds / 1e6:#.4g}".rstrip(".")


def interval(value: Estimate, write: Callable[[float], str]) -> str:
    """Return a median with its interval, each as `write` has it."""
    return f"{write(value.median)} ({write(value.low)} to {write(value.high)})"


def ratio(value: float) -> str:
    """Return a ratio of times to four places, since differences of 0.0005 are told apart, a large one to 4 digits."""
    return f"{value:.4f}" if abs(value) < 10 else numeral(value, 4)


def percent(fraction: float, digits: int = 3) -> str:
    """Return a fraction in per cent."""
    return f"{numeral(100 * fraction, digits)} %"


def rate(value: Rate | Unavailable) -> str:
    """Return a rate to four digits, a thousand of its unit as one of the next: TFLOP/s, TB/s."""
    if isinstance(value, Unavailable):
        return ABSENT
    if value.value < 1000:
        return f"{value.value:#.4g} {value.unit}"
    thousands = value.value / 1000
    return f"{f'{thousands:#.4g}'.rstrip('.') if thousands < 10000 else f'{thousands:.0f}'} T{value.unit[1:]}"


def seconds(nanoseconds: int) -> str:
    """Return a duration in s to three digits."""
    return f"{numeral(nanoseconds / 1e9)} s"


def mebibytes(count: int | Unavailable) -> str:
    """Return an amount of memory in MiB, to three digits or whole."""
    if isinstance(count, Unavailable):
        return shown(count)
    amount = count / 2**20
    return f"{amount:.0f} MiB" if amount >= 100 else f"{amount:.3g} MiB"


def runs(numbers: Iterable[int]) -> str:
    """Return whole numbers in ascending order, neighbours joined: 3, 7 to 9."""
    found: list[list[int]] = []
    for value in sorted(set(numbers)):
        if found and value == found[-1][1] + 1:
            found[-1][1] = value
        else:
            found.append([value, value])
    return ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in found)


def gibibytes(count: int | Unavailable) -> str:
    """Return an amount of memory in GiB."""
    return shown(count) if isinstance(count, Unavailable) else f"{count / 2**30:.1f} GiB"


def watts(milliwatts: int | Unavailable) -> str:
    """Return a power in W."""
    return shown(milliwatts) if isinstance(milliwatts, Unavailable) else f"{milliwatts / 1000:g} W"


def megahertz(value: int | Unavailable) -> str:
    """Return a clock in MHz."""
    return shown(value) if isinstance(value, Unavailable) else f"{value} MHz"


def shown(value: str | bool | float | Unavailable) -> str:
    """Return a value as text, yes or no for a flag, or why it is unavailable."""
    if isinstance(value, Unavailable):
        return f"unavailable ({value.reason})"
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)


def spread(values: Iterable[int | Unavailable], unit: str, scale: float = 1.0) -> str:
    """Return the median and range of readings, and how many could not be read."""
    readings = list(values)
    known = sorted(value / scale for value in readings if not isinstance(value, Unavailable))
    if not known:
        reasons = {value.reason for value in readings if isinstance(value, Unavailable)}
        return f"unavailable ({'; '.join(sorted(reasons)) or 'nothing was read'})"
    missing = len(readings) - len(known)
    note = f"; {missing} of {len(readings)} readings unavailable" if missing else ""
    return f"{median(known):.4g} {unit}, from {known[0]:.4g} to {known[-1]:.4g}{note}"


def distinct(items: Iterable[T]) -> list[T]:
    """Return the items without repetition, in the order of their first appearance."""
    return list(dict.fromkeys(items))


def listing(items: Iterable[str], most: int, noun: str) -> str:
    """Return items joined by commas, or how many there are where more than `most`."""
    names = distinct(items)
    return ", ".join(names) if len(names) <= most else f"{len(names)} {noun}"
