"""What would settle a claim: a command that the workflow knows, on a machine that the claim is about."""

import re
import shlex
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import claim, replaced

from assay.record import Cause, Outcome, Tier
from assay.remedies import REPORT, SAME, TEETH, device_for, remedy

ROOT = Path(__file__).parents[1]
RULES = {
    name
    for path in (ROOT / "Snakefile", *ROOT.glob("rules/*.smk"))
    for name in re.findall(r"^rule (\w+):", path.read_text("utf-8"), re.MULTILINE)
}


@given(
    st.sampled_from(get_args(Tier)),
    st.none() | st.sampled_from(["sm_80", "gfx942", "<b>"]),
    st.sampled_from(get_args(Outcome)),
    st.none() | st.sampled_from(get_args(Cause)),
    st.sampled_from(["current", "stale"]),
)
def test_every_open_claim_has_a_command_that_the_workflow_knows(
    tier: Tier, target: str | None, outcome: Outcome, cause: Cause | None, freshness: str
) -> None:
    one = replaced(claim(tier=tier, target=target, outcome=outcome, cause=cause), freshness=freshness)
    found = remedy(one)
    assert (found is None) == (freshness == "current" and outcome in ("passed", "inapplicable"))
    if found is not None:
        words = shlex.split(found.command)
        assert words[:3] == ["snakemake", "--cores", "1"]
        assert {word for word in words[3:] if word != "-R"} <= RULES
        assert found.machine


def test_a_blocked_claim_names_the_device_that_it_waits_for() -> None:
    found = remedy(claim(tier="ran", target="sm_120", outcome="untested", cause="no-device"))
    assert found is not None
    assert found.machine == "a machine with an NVIDIA GPU of compute capability 12.0 (sm_120)"
    assert found.command == REPORT


def test_amds_targets_are_called_amds() -> None:
    assert device_for("gfx942") == "a machine with an AMD GPU that is gfx942"


@pytest.mark.parametrize("target", ["sm_", "sm_9", "sm_x0", "sm_90; rm -rf /", "sm_٩٠"])
def test_a_target_of_another_kind_is_called_by_its_name(target: str) -> None:
    assert device_for(target) == f"a machine with a GPU that is {target}"


@pytest.mark.parametrize(
    ("one", "machine", "command"),
    [
        (claim(outcome="cantTell", cause="noise", tier="timed"), "clocks steady", f"{REPORT} -R timing"),
        (claim(outcome="cantTell", cause="timeout", tier="accurate"), SAME, f"{REPORT} -R gpu"),
        (claim(outcome="failed", cause="wrong-value"), "once the fault is mended", REPORT),
        (
            claim(outcome="failed", cause="instructions", tier="compiled", variant="ieee/64x64x32"),
            f"{SAME}, once the fault is mended (tl.dot multiplies float32 in tf32 unless it has "
            'input_precision="ieee")',
            REPORT,
        ),
        (claim(outcome="untested", cause="upstream"), "once what failed before it is mended", REPORT),
        (claim(outcome="untested", cause="not-measured", tier="teeth", target=None), "any machine", TEETH),
        (claim(outcome="cantTell", cause="timeout", tier="teeth", target=None), SAME, f"{TEETH} -R plant"),
        (claim(outcome="untested", cause="not-measured", tier="compiled"), SAME, f"{REPORT} -R compile"),
    ],
)
def test_each_way_of_being_open_has_its_own_remedy(one: object, machine: str, command: str) -> None:
    found = remedy(one)  # type: ignore[arg-type]
    assert found is not None
    assert machine in found.machine
    assert found.command == command


def test_a_stale_claim_only_has_to_be_made_again() -> None:
    found = remedy(replaced(claim(outcome="failed", cause="crash"), freshness="stale"))
    assert found is not None
    assert (found.machine, found.command) == (SAME, REPORT)
