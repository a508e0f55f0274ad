"""The compile stage, run for real on small kernel files for two targets: every build is a result, and repeatable."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET
from records import ROOT, environment
from trials import DOUBLE, changed, written

from assay.artifact import canonical, open_session, read
from assay.compile import main
from assay.record import Compilations

VARIANTS = """variants=[
        Variant("ieee", "good"),
        Variant("tf32", "good"),
        Variant("ieee", "newer", capability=(9, 0)),
        Variant("ieee", "idle"),
        Variant("ieee", "raises"),
        Variant("bf16x9", "refused"),
        Variant("bf16x6", "refused"),
    ]"""
LAUNCH = """x, y = inputs["x"], outputs["y"]
    if variant.configuration == "idle":
        return
    if variant.configuration == "raises":
        raise ValueError("no")
    if variant.configuration == "refused":
        raise AssertionError(f"input_precision must be one of ('tf32', 'ieee'). Got {variant.precision}")
"""
VARIED = changed(
    DOUBLE,
    ('"double"', '"varied"'),
    ('variants=[Variant("f32", "block64")]', VARIANTS),
    ('x, y = inputs["x"], outputs["y"]\n', LAUNCH),
)


def told(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return what a stage printed, but for its progress, of which a slow machine sees more."""
    return [line for line in capsys.readouterr().err.splitlines() if not re.match(r"compile \w+: \d+/\d+ ", line)]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return a function that runs the stage on a kernel file in a folder laid out like the project."""
    (tmp_path / "assay").symlink_to(ROOT / "assay")
    monkeypatch.chdir(tmp_path)
    open_session("environment", None, [], []).write(Path("results/environment.json"), environment(None))

    def stage(name: str, text: str, targets: str, workers: int = 1) -> Any:
        kernel = written(Path(), name, text)
        settings = f'{{"compile":{{"limit_s":60.0,"workers":{workers}}},"targets":[{targets}]}}'
        assert main(["--kernel", str(kernel), "--settings", settings]) == 0
        return read(Path("results") / name / "compile.json", "compile")

    return stage


UPSTREAM = ("untested", "upstream")
BOTH = {
    "ieee/good": (("passed", None), ("passed", None)),
    "tf32/good": (("passed", None), ("passed", None)),
    "ieee/newer": (("passed", None), ("passed", None)),
    "ieee/idle": (("failed", "declaration"), UPSTREAM),
    "ieee/raises": (("failed", "exception"), UPSTREAM),
    "bf16x9/refused": (("failed", "exception"), UPSTREAM),
    "bf16x6/refused": (("inapplicable", "unsupported-precision"), ("inapplicable", "unsupported-precision")),
}
TOO_OLD = (("inapplicable", "capability"), ("inapplicable", "capability"))


def test_every_variant_has_one_build_a_target_and_twice_gives_the_same(
    run: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = run("varied", VARIED, '"sm_90","sm_75"', 1), run("varied", VARIED, '"sm_90","sm_75"', 2)
    result = one.result
    assert canonical(result) == canonical(two.result)
    found = {
        (b.target, b.variant): ((b.compiled.outcome, b.compiled.cause), (b.fits.outcome, b.fits.cause))
        for b in result.builds
    }
    assert list(found) == [(target, variant) for target in ("sm_90", "sm_75") for variant in BOTH]
    assert len(found) == len(result.builds)
    assert {variant: verdicts for (target, variant), verdicts in found.items() if target == "sm_90"} == BOTH
    assert {variant: verdicts for (target, variant), verdicts in found.items() if target == "sm_75"} == {
        **BOTH,
        "ieee/newer": TOO_OLD,
    }
    assert {b.case for b in result.builds} == {"ragged"}
    said = told(capsys)
    refused = next(b.compiled.reason for b in result.builds if b.variant == "bf16x6/refused")
    assert said[-2:] == [
        "compile varied: 5 of 14 compiled, 5 of 5 fit",
        f"compile varied: bf16x6/refused, compiled for no target: unsupported-precision, {refused}",
    ]
    assert said[-6] == "compile varied: ieee/idle on sm_90: declaration, the launch starts no Triton kernel"
    assert said[-3].startswith("compile varied: and ")


def test_a_precision_that_breaks_its_promise_is_found_out_and_told(
    run: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    # It doubles a vector: nothing for a tensor core to do.
    text = changed(DOUBLE, ('Variant("f32", "block64")', 'Variant("ieee", "a"), Variant("tf32", "a")'))
    result = run("double", text, '"sm_75","sm_90"').result
    assert [(f.target, f.precision, f.verdict.outcome, f.statement) for f in result.findings] == [
        ("sm_75", "ieee", "passed", "ieee on sm_75 uses no tensor-core instructions"),
        ("sm_75", "tf32", "passed", "tf32 on sm_75 compiles to the same code as ieee"),
        ("sm_90", "ieee", "passed", "ieee on sm_90 uses no tensor-core instructions"),
        ("sm_90", "tf32", "failed", "tf32 on sm_90 leaves the tensor cores unused"),
    ]
    assert told(capsys) == [
        f"compile double: tf32 on sm_90: instructions, {result.findings[-1].verdict.reason}; "
        'tl.dot multiplies float32 in tf32 where it has input_precision="tf32"',
        "compile double: 4 of 4 compiled, 4 of 4 fit",
    ]


LARGE = changed(
    DOUBLE,
    ('"double"', '"large"'),
    ('[Variant("f32", "block64")]', '[Variant("f32", name) for name in SIZES]'),
    ("KERNEL =", 'SIZES = {"small": 64, "medium": 32768, "large": 65536}\n\nKERNEL ='),
    # It turns a block round in shared memory, which holds all of it.
    ("tl.store(", "x = tl.gather(x, BLOCK - 1 - tl.arange(0, BLOCK), 0)\n    tl.store("),
    ("BLOCK=64)\n", "BLOCK=SIZES[variant.configuration], num_warps=32)\n"),
)


def test_what_does_not_fit_is_told_with_its_figures_and_first_what_fits_nowhere(
    run: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    run("large", LARGE, '"sm_75","sm_80","sm_90"')
    assert told(capsys) == [
        "compile large: 9 of 9 compiled, 5 of 9 fit",
        "compile large: f32/large fits none of the 3 targets that it was compiled for, and can run on none: "
        "double_kernel needs 262144 B of shared memory; a block on sm_90 has 232448 B",
        "compile large: f32/medium does not fit sm_75: "
        "double_kernel needs 131072 B of shared memory; a block on sm_75 has 65536 B",
    ]


AUTOTUNED = changed(
    DOUBLE,
    ("@triton.jit\n", '@triton.autotune([triton.Config({}), triton.Config({}, num_warps=2)], ["n"])\n@triton.jit\n'),
    ('[Variant("f32", "block64")]', '[Variant("f32", name) for name in ("one", "two", "three")]'),
)


def test_why_nothing_was_compiled_is_told_once(run: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    result = run("double", AUTOTUNED, '"sm_75","sm_90"').result
    (reason,) = {build.compiled.reason for build in result.builds}
    assert "expected one configuration, found an autotuned kernel" in reason
    assert told(capsys) == [
        "compile double: 0 of 6 compiled",
        f"compile double: f32/one and 2 more, compiled for no target: autotuned, {reason}",
    ]


def test_a_file_that_does_not_load_has_no_builds(run: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    result = run("broken", "KERNEL = 7", '"sm_90"').result
    assert (result.loading.outcome, result.loading.cause) == ("failed", "declaration")
    assert (result.declaration, result.builds, result.findings) == (None, [], [])
    assert capsys.readouterr().err == f"compile broken: {result.loading.reason}\n"


def test_what_an_earlier_run_compiled_gives_the_same_result_and_the_run_says_so(
    run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    afresh = run("double", DOUBLE, '"sm_80"')
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    kept, again = run("double", DOUBLE, '"sm_80"'), run("double", DOUBLE, '"sm_80"')
    assert canonical(afresh.result) == canonical(kept.result) == canonical(again.result)
    made, reused = Compilations(made=1, reused=0), Compilations(made=0, reused=1)
    assert [one.run.compilations for one in (afresh, kept, again)] == [UNSET, made, reused]
    assert told(capsys)[-1] == ("compile double: 1 of 1 compiled, 1 of 1 fit; 1 of 1 functions by an earlier run")
    for entry in (tmp_path / "cache").rglob("?" * 64):
        entry.write_bytes(entry.read_bytes()[:-1])
    healed = run("double", DOUBLE, '"sm_80"')
    assert canonical(healed.result) == canonical(afresh.result)
    assert healed.run.compilations == made
    said = told(capsys)
    assert said[-3] == "compile double: 1 of 1 compiled, 1 of 1 fit"
    assert all("its digest is not that of its content; it is not used" in line for line in said[-2:])


BY_SIZE = changed(
    DOUBLE,
    ("BLOCK=64)\n", "BLOCK=48 if x.numel() in (64, 7) else 64)\n"),
    ('Case("ragged", {"n": 100})', 'Case("ragged", {"n": 100}), Case("short", {"n": 7})'),
)


def test_a_later_case_that_cannot_be_compiled_is_a_build_of_its_own(
    run: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    result = run("double", BY_SIZE, '"sm_75","sm_90"').result
    assert [(b.target, b.case, b.compiled.outcome) for b in result.builds] == [
        ("sm_75", "ragged", "passed"),
        ("sm_90", "ragged", "passed"),
        # `sliced` has the constants of `short`.
        ("sm_90", "short", "failed"),
    ]
    last = result.builds[-1]
    assert (last.compiled.cause, last.fits.outcome, last.binaries) == ("compile-error", "untested", [])
    assert last.compiled.reason.endswith("ValueError: arange's range must be a power of 2")
    assert capsys.readouterr().err.endswith("compile double: 2 of 3 compiled, 2 of 2 fit\n")


@pytest.mark.parametrize(
    "change",
    [
        ('Case("short", {"n": 7})', 'Case("short", {"n": 7}, exempt={"f32": "it has no such block"})'),
        ("x, y = inputs", "if len(inputs['x']) == 7:\n        raise ValueError('no device')\n    x, y = inputs"),
        ("2.0 * x, mask", "2.0 * undefined, mask"),
    ],
    ids=["not asked", "no fault of the code", "the first case fails already"],
)
def test_of_other_cases_nothing_else_is_recorded(run: Callable[..., Any], change: tuple[str, str]) -> None:
    text = changed(BY_SIZE, ("in (64, 7)", "in (7,)"), change)
    assert [b.case for b in run("double", text, '"sm_90"').result.builds] == ["ragged"]
