"""The command `compare`: what got worse is marked and decides the exit code; the same bundles give the same words."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forge import forge
from packed import archive_of, payload_of
from records import MATMUL, Tree, device, replaced

from assay.__main__ import main
from assay.artifact import canonical, decode_artifact, seal
from assay.compare import MARGIN, show
from assay.differences import find_differences
from assay.opening import open_bytes
from assay.record import StageName, Verdict, number

Change = Callable[[Any], Any]
FAILED = Verdict(outcome="failed", cause="wrong-value", reason="1 of 65536 elements past the bound")


@pytest.fixture(scope="module")
def payload(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The records of a run on an H200."""
    found = payload_of(Tree(tmp_path_factory.mktemp("tree"), (MATMUL,), device()).lay_out().folder)
    return changed(found, "timing", lambda timing: with_samples(timing, lambda _: 1.0))


def changed(payload: dict[str, bytes], stage: StageName, change: Change) -> dict[str, bytes]:
    """Return a payload in which the result of a stage is another."""
    (path,) = [name for name in payload if name.endswith(f"/{stage}.json")]
    artifact = decode_artifact(payload[path], stage, path)
    again = seal(replaced(artifact, result=change(artifact.result)))
    return {**payload, path: canonical(again)}


def with_samples(timing: Any, factor: Callable[[Any], float]) -> Any:
    """Return times by events whose samples are narrow, each entrant's by a factor of its own."""

    def sampled(sweep: Any, row: Any) -> Any:
        generator = random.Random(row.entrant)
        middle = factor(row) * row.events.median
        samples = [middle * generator.uniform(1, 1.001) for _ in sweep.rounds]
        return replaced(row, samples_ns=samples)

    sweeps = [replaced(sweep, rows=[sampled(sweep, row) for row in sweep.rows]) for sweep in timing.sweeps]
    return replaced(timing, sweeps=sweeps)


def compare(a: dict[str, bytes], b: dict[str, bytes], margin: float = MARGIN, as_json: bool = False) -> int:
    """Compare two bundles that open; that only sound ones get this far is tried at the end, with bundles on disk."""
    one, other = [open_bytes(data, name) for name, data in (archive_of(a, "assay-a"), archive_of(b, "assay-b"))]
    return show(find_differences(one, other, margin), as_json)


def section(said: str, name: str) -> str:
    return next(part for part in said.split("\n\n") if part.startswith(name))


def first_claim(payload: dict[str, bytes], **changes: Any) -> dict[str, bytes]:
    """Return a payload in which the first claim about accuracy on sm_90 is another."""

    def change(claims: Any) -> Any:
        place = next(n for n, c in enumerate(claims.claims) if (c.tier, c.target) == ("accurate", "sm_90"))
        listed = list(claims.claims)
        listed[place] = replaced(listed[place], **changes)
        return replaced(claims, claims=listed)

    return changed(payload, "claims", change)


def test_nothing_changed_between_a_bundle_and_itself(
    payload: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare(payload, payload) == 0
    said = capsys.readouterr().out
    assert section(said, "Environment") == "Environment: 0 differences"
    assert section(said, "Claims") == "Claims: 0 lost, 0 gained, 0 changed"
    assert section(said, "Accuracy") == (
        "Accuracy: normalised errors that differ: 0; past the bound in B and not in A: 0"
    )
    # Each entrant, and not the twin.
    assert section(said, "Timing").count("\n- same: matmul 2048x2048x2048, ") == 6
    assert said.endswith("\n\nNothing got worse from A to B.\n")
    assert "is ignored on purpose" in said


def test_when_a_run_took_place_changes_nothing(payload: dict[str, bytes]) -> None:
    later = dict(payload)
    for path in [name for name in payload if name.startswith("results/")]:
        stage: Any = Path(path).stem
        artifact = decode_artifact(payload[path], stage, path)
        run = replaced(artifact.run, started="2031-01-01T00:00:00Z", duration_ns=7)
        later[path] = canonical(seal(replaced(artifact, run=run)))
    assert compare(payload, later, 0.002) == 0


def test_a_claim_that_is_lost_is_worse(payload: dict[str, bytes], capsys: pytest.CaptureFixture[str]) -> None:
    lost = first_claim(payload, outcome="untested", cause="no-device", reason="no sm_90 device here")
    assert compare(payload, lost) == 1
    said = capsys.readouterr().out
    assert section(said, "Claims") == (
        "Claims: 1 lost, 0 gained, 0 changed\n"
        "! lost: matmul ieee/64x64x32, accurate on sm_90: verified -> blocked (no sm_90 device here)"
    )
    assert said.endswith("\n\nWorse in B, each marked with !: claims 1, errors 0, times 0.\n")
    assert compare(lost, payload) == 0
    assert section(capsys.readouterr().out, "Claims") == (
        "Claims: 0 lost, 1 gained, 0 changed\n- gained: matmul ieee/64x64x32, accurate on sm_90: blocked -> verified"
    )


def test_a_claim_lost_to_a_search_is_said_and_is_not_worse(
    payload: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    left_out = first_claim(payload, outcome="inapplicable", cause="pruned", reason="slow in the short round")
    assert compare(payload, left_out) == 0
    assert "\n- lost: matmul ieee/64x64x32, accurate on sm_90: " in section(capsys.readouterr().out, "Claims")


def test_a_claim_that_fails_is_worse(payload: dict[str, bytes], capsys: pytest.CaptureFixture[str]) -> None:
    untested = first_claim(payload, outcome="untested", cause="no-device", reason="no device")
    failed = first_claim(payload, outcome="failed", cause="wrong-value", reason="\x1b[31m3 elements\nare wrong")
    assert compare(untested, failed) == 1
    assert section(capsys.readouterr().out, "Claims") == (
        "Claims: 0 lost, 0 gained, 1 changed\n"
        "! changed: matmul ieee/64x64x32, accurate on sm_90: blocked -> failed (3 elements are wrong)"
    )


def slower(payload: dict[str, bytes], factor: Callable[[Any], float]) -> dict[str, bytes]:
    return changed(payload, "timing", lambda timing: with_samples(timing, factor))


@pytest.mark.parametrize(
    ("factor", "verdict", "worse"), [(1.05, "slower", True), (0.95, "faster", False), (1.01, "same", False)]
)
def test_times_are_judged_from_the_samples(
    payload: dict[str, bytes],
    factor: float,
    verdict: str,
    worse: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    after = slower(payload, lambda row: factor if row.entrant == "ieee/64x64x32" else 1.0)
    assert compare(payload, after) == int(worse)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "ieee/64x64x32: " in line]
    assert line.startswith(f"{'!' if worse else '-'} {verdict}: matmul 2048x2048x2048, ieee/64x64x32: 0.40")
    assert f"ratio {factor}" in line


def test_times_by_replay_say_so(payload: dict[str, bytes], capsys: pytest.CaptureFixture[str]) -> None:
    def bound(timing: Any) -> Any:
        rows = [replaced(row, launch_bound=True) for row in timing.sweeps[0].rows]
        return replaced(timing, sweeps=[replaced(timing.sweeps[0], rows=rows)])

    assert compare(payload, changed(payload, "timing", bound)) == 0
    assert capsys.readouterr().out.count(" ms by replay, ratio ") == 6


def test_the_margin_decides(payload: dict[str, bytes]) -> None:
    after = slower(payload, lambda row: 1.05)
    assert [compare(payload, after, margin) for margin in (0.04, 0.06)] == [1, 0]


def test_a_library_that_got_slower_is_said_and_is_not_worse(
    payload: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare(payload, slower(payload, lambda row: 2.0 if row.kind == "peer" else 1.0)) == 0
    assert "- slower: matmul 2048x2048x2048, cuBLAS fp32 (library): " in capsys.readouterr().out


def checked(payload: dict[str, bytes], **changes: Any) -> dict[str, bytes]:
    def change(gpu: Any) -> Any:
        first = gpu.checks[0]
        comparison = replaced(first.comparisons[0], **changes)
        return replaced(gpu, checks=[replaced(first, comparisons=[comparison]), *gpu.checks[1:]])

    return changed(payload, "gpu", change)


@pytest.mark.parametrize(("past", "mark"), [(0, "-"), (3, "!")])
def test_an_error_past_its_bound_is_worse(
    payload: dict[str, bytes], past: int, mark: str, capsys: pytest.CaptureFixture[str]
) -> None:
    after = checked(payload, normalised_error=0.5, past_bound=past)
    assert compare(payload, after) == int(past > 0)
    assert section(capsys.readouterr().out, "Accuracy").splitlines()[1:] == [
        f"{mark} matmul ieee/64x64x32, gpu, largest of aligned-256x256x1024: 1.24e-6 -> 5.00e-1"
    ]


def test_an_error_that_is_no_number_is_shown_as_such(
    payload: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    after = checked(payload, normalised_error=number(float("nan")), past_bound=1)
    assert compare(payload, after) == 1
    assert "1.24e-6 -> NaN" in capsys.readouterr().out


def test_another_device_is_said(payload: dict[str, bytes], capsys: pytest.CaptureFixture[str]) -> None:
    after = changed(payload, "environment", lambda found: replaced(found, devices=[device("NVIDIA H100")]))
    assert compare(payload, after) == 0
    said = capsys.readouterr().out
    assert section(said, "Environment") == "Environment: 1 difference\n- devices[0].name: NVIDIA H200 -> NVIDIA H100"
    assert "- note: A ran on NVIDIA H200 (sm_90), B on NVIDIA H100 (sm_90)" in said


def test_json_holds_every_difference_and_is_the_same_each_time(
    payload: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    after = checked(slower(payload, lambda row: 1.05), normalised_error=0.5)
    said = []
    for _ in range(2):
        assert compare(payload, after, as_json=True) == 1
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    assert said[0].count("\n") == 1
    tree = json.loads(said[0])
    assert [(time["verdict"], time["worse"]) for time in tree["times"]] == [("slower", True)] * 4 + [
        ("slower", False)
    ] * 2
    assert tree["times"][0]["ratio"]["kind"] == "ratio"
    assert [(error["a"], error["b"], error["worse"]) for error in tree["errors"]] == [(1.24e-6, 0.5, False)]
    assert (tree["margin"], tree["claims"], tree["environment"]) == (0.02, [], [])
    assert "ignored on purpose" in tree["ignored"]


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Two sound bundles on disk: of an H200, and of a machine without a device."""
    folder = tmp_path_factory.mktemp("archives")
    for name, found in (("h200.tar", device()), ("none.tar", None)):
        (folder / name).write_bytes(forge(found, (MATMUL,)).archive())
    return str(folder / "h200.tar"), str(folder / "none.tar")


def test_sound_bundles_are_compared(archives: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    h200, none = archives
    assert main(["compare", h200, none]) == 1
    said = capsys.readouterr().out
    assert "! lost: matmul ieee/64x64x32, ieee/128x64x64, tf32/64x64x32, tf32/128x64x64, ran on sm_90: " in said
    assert "A ran on NVIDIA H200 (sm_90), B on no GPU" in said
    assert main(["compare", none, h200]) == 0
    assert "\n- gained: matmul " in capsys.readouterr().out
    assert main(["compare", h200, h200, "--json"]) == 0
    tree = json.loads(capsys.readouterr().out)
    assert {time["verdict"] for time in tree["times"]} == {"same"}


def test_what_is_no_sound_bundle_is_not_compared(
    tmp_path: Path, payload: dict[str, bytes], archives: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    good, spoilt, unsound = archives[0], tmp_path / "spoilt.tar", tmp_path / "unsound.tar"
    spoilt.write_bytes(Path(good).read_bytes().replace(b"H200", b"H100"))
    unsound.write_bytes(archive_of(payload)[1])
    for pair, told in (
        ((good, str(spoilt)), "only sound bundles are compared"),
        ((str(unsound), good), "only sound bundles are compared"),
        ((good, str(tmp_path / "missing.tar")), "missing.tar: "),
    ):
        assert main(["compare", *pair]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert told in said.err
        assert said.err.count("\n") == 1


@pytest.mark.parametrize("margin", ["-1", "101", "nan", "two"])
def test_a_margin_that_is_no_percentage_is_refused(margin: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "a.tar", "b.tar", f"--margin={margin}"]) == 2
    assert f"--margin: expected a percentage from 0 to 100, found {margin}" in capsys.readouterr().err
