"""Targets and compute capabilities."""

from typing import get_args

import pytest

from assay.targets import (
    TARGETS,
    AmdTarget,
    NvidiaTarget,
    TargetName,
    capability_of,
    capability_text,
    multiplies,
    parse_capability,
    target_of,
    toolchain,
    unsuited,
)


@pytest.mark.parametrize(
    ("found", "needed", "refused"),
    [("8.0", None, False), ("8.0", "8.0", False), ("8.6", "9.0", True), ("12.0", "9.0", False), ("9.0", "10.0", True)],
)
def test_capabilities_are_compared_as_numbers(found: str, needed: str | None, refused: bool) -> None:
    reason = unsuited("a card", target_of(parse_capability(found)), needed)
    assert (reason is not None) == refused
    if reason is not None:
        assert reason == f"a card is {found}; {needed} or newer is needed"


@pytest.mark.parametrize(
    ("found", "newest", "refused"),
    [
        ("9.0", None, False),
        ("9.0", "9.0", False),
        ("10.0", "9.0", True),
        ("8.0", "10.0", False),
        ("12.0", "10.0", True),
    ],
)
def test_code_of_one_architecture_is_refused_by_a_newer_one(found: str, newest: str | None, refused: bool) -> None:
    reason = unsuited("a card", target_of(parse_capability(found)), None, newest)
    assert (reason is not None) == refused
    if reason is not None:
        assert reason == f"a card is {found}; {newest} or older is needed"


@pytest.mark.parametrize("name", get_args(NvidiaTarget))
def test_a_target_of_nvidia_and_its_capability_name_each_other(name: str) -> None:
    capability = capability_of(name)
    assert capability is not None
    assert target_of(capability) == name
    assert parse_capability(capability_text(capability)) == capability
    assert toolchain(name) == ("cuda", 10 * capability[0] + capability[1], 32)


@pytest.mark.parametrize("name", get_args(AmdTarget))
def test_a_target_of_amd_has_no_capability_and_serves_whatever_asks_for_none(name: str) -> None:
    assert capability_of(name) is None
    assert unsuited(name, name, None) is None
    assert unsuited(name, name, "9.0", "9.0") == f"{name} has no CUDA compute capability; 9.0 or newer is needed"
    assert unsuited("MI300X", name, None, "9.0") == "MI300X has no CUDA compute capability; 9.0 or older is needed"
    assert toolchain(name)[:2] == ("hip", name)


def test_every_target_has_a_limit_and_cdna_4_alone_of_amds_another_one() -> None:
    assert list(TARGETS) == list(get_args(TargetName))
    limits = {name: TARGETS[name].shared_limit_bytes for name in get_args(AmdTarget)}
    assert {name for name, limit in limits.items() if limit != 65536} == {"gfx950"}
    assert limits["gfx950"] == 163840


def test_gcn_and_cdna_run_64_threads_in_step_and_rdna_32() -> None:
    waves = {name: toolchain(name)[2] for name in get_args(AmdTarget)}
    assert waves == {"gfx90a": 64, "gfx942": 64, "gfx950": 64, "gfx1100": 32, "gfx1201": 32}


def test_cdna_3_alone_of_amds_multiplies_tf32_and_turing_only_float16() -> None:
    assert [name for name in get_args(AmdTarget) if multiplies(name, "tf32")] == ["gfx942"]
    assert all(multiplies(name, "bf16") for name in get_args(AmdTarget))
    assert [name for name in get_args(NvidiaTarget) if not multiplies(name, "tf32")] == ["sm_75"]
    assert multiplies("sm_75", "f16")
    assert not multiplies("sm_75", "bf16")


def test_architecture_specific_names_have_the_plain_capability() -> None:
    assert capability_of("sm_90a") == (9, 0)
    assert capability_of("sm_120f") == (12, 0)
