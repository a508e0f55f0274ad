"""Where kernels stand: the newest run at each place counts, each kernel for itself, and changed sources are said."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import MATMUL, SOFTMAX, Subject, Tree, device, replaced

from assay.artifact import read
from assay.record import Device
from assay.stage import stage_of
from assay.standing import RunRecords, choose, stale_text

PLACES: dict[str, Device | None] = {"no GPU": None, "NVIDIA H200 (sm_90)": device(), "T4 (sm_90)": device("T4")}


class Made:
    """Runs to choose among. Trees are laid out once for each place and set of kernels; days and names are put in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.known: dict[tuple[str, tuple[str, ...]], RunRecords] = {}

    def run(
        self, place: str, subjects: tuple[Subject, ...], day: int = 1, name: str = "a", published: bool = True
    ) -> RunRecords:
        key = place, tuple(subject.name for subject in subjects)
        if key not in self.known:
            folder = self.folder / str(len(self.known))
            folder.mkdir()
            tree = Tree(folder, subjects, PLACES[place]).lay_out()
            paths = [Path(path) for path in (*tree.paths, "results/claims.json")]
            records = {path.as_posix(): read(folder / path, stage_of(path)) for path in paths}
            now = {name: digest for record in records.values() for name, digest in record.materials.items()}
            self.known[key] = RunRecords("", records, now, True)
        found = self.known[key]
        started = f"2026-11-{day:02d}T10:00:00Z"
        dated = {
            path: replaced(record, run=replaced(record.run, started=started)) for path, record in found.records.items()
        }
        return RunRecords(name, dated, found.now, published)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("runs"))


BOTH = (MATMUL, SOFTMAX)
runs = st.lists(
    st.tuples(
        st.sampled_from(list(PLACES)),
        st.sampled_from([BOTH, (MATMUL,), (SOFTMAX,)]),
        st.integers(1, 4),
        st.sampled_from("abc"),
        st.booleans(),
    ),
    max_size=5,
    unique_by=lambda run: (run[2], run[3], run[4]),
)


@given(runs=runs, kernel=st.sampled_from([None, "matmul", "softmax", "other"]))
def test_of_each_kernel_the_newest_run_at_each_place_stands(made: Made, runs: list[tuple], kernel: str | None) -> None:  # type: ignore[type-arg]
    given_runs = [made.run(*run) for run in runs]
    standings = choose(given_runs, kernel)
    stood = {(of.kernel, one.run.place): one.run for one in standings for of in one.kernels}
    asked = {(k, run.place) for run in given_runs for k in run.kernels if kernel in (None, k)}
    assert set(stood) == asked
    assert len(stood) == sum(len(one.kernels) for one in standings)
    for (name, place), chosen in stood.items():
        for run in given_runs:
            if run.place == place and name in run.kernels and run is not chosen:
                assert (run.started, run.published) <= (chosen.started, chosen.published)
    started = [one.run.started for one in standings]
    assert started == sorted(started, reverse=True)
    assert choose(given_runs[::-1], kernel) == standings


def test_what_ran_on_a_device_is_not_undone_by_a_newer_run_without_one(made: Made) -> None:
    old, new = made.run("NVIDIA H200 (sm_90)", BOTH, 1), made.run("no GPU", BOTH, 2)
    assert [one.run.place for one in choose([old, new], None)] == ["no GPU", "NVIDIA H200 (sm_90)"]


def test_of_one_moment_the_published_run_stands(made: Made) -> None:
    here, archived = made.run("no GPU", BOTH, published=False, name="z"), made.run("no GPU", BOTH, name="a")
    assert [one.run.name for one in choose([archived, here], None)] == ["a"]


def test_the_sentence_is_about_the_kernels_that_stand_and_dated_as_they_are(made: Made) -> None:
    old = made.run("NVIDIA H200 (sm_90)", BOTH, 1)
    (one,) = choose([old], "softmax")
    assert one.sentence.startswith(
        "PARTIALLY VERIFIED on 2026-11-01: under the Triton 3.6.0 interpreter 1 of 1 variants"
    )
    (both,) = choose([old], None)
    assert "interpreter 5 of 5 variants passed" in both.sentence
    newer, older = choose([old, made.run("NVIDIA H200 (sm_90)", (MATMUL,), 2)], None)
    assert [of.kernel for of in newer.kernels] == ["matmul"]
    assert [of.kernel for of in older.kernels] == ["softmax"]
    assert "interpreter 1 of 1 variants passed" in older.sentence


def test_claims_derived_later_do_not_make_the_evidence_younger(made: Made) -> None:
    run = made.run("no GPU", BOTH, 1)
    derived = made.run("no GPU", BOTH, 9).one("claims")
    (one,) = choose([RunRecords("a", {**run.records, "results/claims.json": derived}, run.now, True)], None)
    assert one.sentence.startswith("PARTIALLY VERIFIED on 2026-11-01: ")


def test_the_row_counts_what_applies_at_each_tier(made: Made) -> None:
    (one,) = choose([made.run("NVIDIA H200 (sm_90)", BOTH)], "matmul")
    assert one.kernels[0].shown == (
        "interpreted 4 of 4; compiled 12 of 12 on 3 targets; fits 8 of 8 on sm_80, sm_90; "
        "ran, accurate, timed 4 of 4 on sm_90"
    )
    (one,) = choose([made.run("no GPU", BOTH)], "softmax")
    assert one.kernels[0].shown == "interpreted 1 of 1; compiled 3 of 3 on 3 targets; fits 2 of 2 on sm_80, sm_90"


def test_of_many_changed_sources_two_are_named() -> None:
    assert stale_text(["kernels/a.py", "assay/b.py", "assay/c.py", "assay/d.py"]) == (
        "stale: kernels/a.py, assay/b.py and 2 more changed"
    )
    assert stale_text([]) == ""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kernels/matmul.py": "0" * 64}, "stale: kernels/matmul.py changed"),
        ({"kernels/matmul.py": None}, "stale: kernels/matmul.py changed"),
        ({"kernels/matmul.py": None, "assay/__init__.py": None}, "stale: kernels/matmul.py, assay/__init__.py changed"),
        ({"kernels/softmax.py": "0" * 64}, ""),
        ({"results/gate.json": "0" * 64}, ""),
    ],
)
def test_changed_sources_are_said_and_lower_the_status(made: Made, change: dict[str, str | None], said: str) -> None:
    run = made.run("NVIDIA H200 (sm_90)", BOTH)
    now = {name: digest for name, digest in {**run.now, **change}.items() if digest}
    claims = run.one("claims")
    done = [replaced(c, outcome="inapplicable") if c.outcome == "untested" else c for c in claims.result.claims]
    records = {**run.records, "results/claims.json": replaced(claims, result=replaced(claims.result, claims=done))}
    (one,) = choose([RunRecords("a", records, now, True)], "matmul")
    of = one.kernels[0]
    assert of.status == ("PARTIALLY VERIFIED" if said else "VERIFIED")
    assert one.sentence.startswith(f"{of.status} on ")
    assert one.sentence.endswith(f" ({said})." if said else ".")
    assert "stale" in one.sentence or not said
