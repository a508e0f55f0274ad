"""Known changes of the compiler are recognised by what it made, in the releases between which they happened."""

import pytest
from records import SOFTMAX, build, replaced

from assay.known_changes import KNOWN, known_changes
from assay.record import Build, Instructions

BEFORE, AFTER, LATER = (3, 7, 1), (3, 8, 0), (3, 9, 0)


def made(target: str, ptx: dict[str, int], stack: int = 0) -> Build:
    """Return a build for a target whose code has these instructions and this stack."""
    plain = build(SOFTMAX.variants[0], target, "ragged")
    code = replaced(plain.binaries[0], instructions=Instructions(assembly=ptx, machine={}), stack_bytes=stack)
    changed: Build = replaced(plain, binaries=[code])
    return changed


FUSED = {"fma.f32": 4096}
CASES = [
    ("triton #10176", made("sm_100", {"tcgen05.tf32": 4}), made("sm_100", FUSED)),
    ("triton #9609", made("sm_80", {"mma.tf32": 2}), made("sm_80", FUSED)),
    ("triton #9609", made("sm_90", {"wgmma.tf32": 2}), made("sm_90", FUSED)),
    ("sm_80 stack", made("sm_80", FUSED), made("sm_80", FUSED, 1280)),
]


def names(
    precision: str, older: Build, newer: Build, before: tuple[int, ...] = BEFORE, after: tuple[int, ...] = AFTER
) -> list[str]:
    return [known.name for known in known_changes(precision, (before, after), older, newer)]


@pytest.mark.parametrize(("name", "older", "newer"), CASES)
def test_each_is_recognised(name: str, older: Build, newer: Build) -> None:
    assert names("ieee", older, newer) == [name]


@pytest.mark.parametrize(("name", "older", "newer"), CASES)
def test_none_is_seen_the_other_way_round(name: str, older: Build, newer: Build) -> None:
    assert names("ieee", newer, older) == []


@pytest.mark.parametrize(("name", "older", "newer"), CASES)
@pytest.mark.parametrize("between", [((3, 6, 0), BEFORE), (AFTER, LATER)])
def test_none_is_seen_between_other_releases(
    name: str, older: Build, newer: Build, between: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    assert names("ieee", older, newer, *between) == []


@pytest.mark.parametrize(("name", "older", "newer"), CASES)
def test_a_release_that_is_missing_in_between_hides_none(name: str, older: Build, newer: Build) -> None:
    assert names("ieee", older, newer, (3, 6, 0), LATER) == [name]


@pytest.mark.parametrize(("name", "older", "newer"), CASES)
def test_a_precision_that_asks_for_tensor_cores_shows_none(name: str, older: Build, newer: Build) -> None:
    assert names("tf32", older, newer) == []


def test_a_stack_elsewhere_or_one_that_was_there_before_is_another_matter() -> None:
    assert names("ieee", made("sm_90", FUSED), made("sm_90", FUSED, 1280)) == []
    assert names("ieee", made("sm_80", FUSED, 16), made("sm_80", FUSED, 1280)) == []


def test_a_build_that_failed_shows_none() -> None:
    for _, older, newer in CASES:
        assert names("ieee", older, replaced(newer, binaries=[])) == []
        assert names("ieee", replaced(older, binaries=[]), newer) == []


def test_other_tensor_core_instructions_in_their_place_are_another_matter() -> None:
    assert names("ieee", made("sm_100", {"tcgen05.tf32": 4}), made("sm_100", {"mma.tf32": 4})) == []


def test_all_are_tried_here() -> None:
    assert {known.name for known in KNOWN} == {name for name, *_ in CASES}
