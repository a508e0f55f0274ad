"""Bisecting a claim: how it is named, what can be judged, which points there are, and real runs over each kind."""

import json
import subprocess
import sys
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

import pytest
from msgspec.structs import replace
from project import Project, new_project
from records import claim

from assay.__main__ import main
from assay.artifact import canonical, decode
from assay.attempts import Judge, Point, stages_of
from assay.bisect import Bisection, Search, choose, found_by, read_claim, state_of, text
from assay.config import Settings
from assay.errors import UsageError
from assay.points import ENVIRONMENTS, Row, configurations, environments, narrowed, versions
from assay.progress import Progress
from assay.record import Cause, Claim, Outcome, Tier, Unavailable

ROOT = Path(__file__).parents[1]
GONE = Unavailable(reason="the file does not load")


def compiled(
    variant: str = "tf32/small", outcome: Outcome = "passed", cause: Cause | None = None, registers: float = 40.0
) -> Claim:
    made = claim("matmul", variant, "compiled", "sm_90", outcome=outcome, cause=cause, reason=f"it {outcome}")
    return replace(made, figures={"registers": registers})


class Told(Judge):
    """Judges by what it was told, point by point, and counts how often it is asked."""

    told: Sequence[list[Claim] | Unavailable]
    asked: list[str]

    def claims(self, point: Point) -> list[Claim] | Unavailable:
        self.asked.append(point.name)
        return self.told[int(point.name)]


def told(answers: Sequence[list[Claim] | Unavailable]) -> Told:
    judge = Told("matmul", "compiled", 1.0, Progress("bisect", len(answers), StringIO()))
    object.__setattr__(judge, "told", answers)
    object.__setattr__(judge, "asked", [])
    return judge


def row(count: int) -> Row:
    return Row("commits", [Point(str(at), b"", Settings()) for at in range(count)])


def bisected(answers: Sequence[list[Claim] | Unavailable], figure: str | None = None, every: bool = False) -> Bisection:
    points, wanted = row(len(answers)), read_claim("matmul", "tf32/small compiled sm_90")[0]
    return found_by(points, Search(told(answers), points, wanted, figure), every)


GOOD, BAD = [compiled()], [compiled(outcome="failed", cause="instructions")]


# Which claim


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("compiled sm_90", ("matmul", "*", "*", "compiled", "sm_90")),
        ("interpreted", ("matmul", "*", "*", "interpreted", "*")),
        ("tf32 fits", ("matmul", "tf32", "*", "fits", "*")),
        ("tf32/small timed sm_90", ("matmul", "tf32", "small", "timed", "sm_90")),
    ],
)
def test_a_claim_is_named_by_variant_tier_and_target(words: str, parts: tuple[str, ...]) -> None:
    found, tier = read_claim("matmul", words)
    assert found.parts == parts
    assert tier == parts[3]


@pytest.mark.parametrize(
    "words", ["", "tf32", "status VERIFIED", "gated", "teeth", "tf32 comp* sm_90", "a b c d", "a <b>"]
)
def test_what_names_no_claim_is_refused(words: str) -> None:
    with pytest.raises(UsageError, match=r"CLAIM: expected \[VARIANT\] TIER \[TARGET\]"):
        read_claim("matmul", words)


def test_of_several_claims_the_candidates_are_listed() -> None:
    claims = [compiled("tf32/small"), compiled("tf32/large"), compiled("ieee/small")]
    with pytest.raises(UsageError, match="2 claims match; name one of: tf32/small compiled sm_90; tf32/large compiled"):
        choose(claims, read_claim("matmul", "tf32 compiled")[0])
    with pytest.raises(UsageError, match="no claim matches; name one of: tf32/small compiled sm_90; "):
        choose(claims, read_claim("matmul", "bf16 compiled")[0])
    assert choose(claims, read_claim("matmul", "ieee compiled")[0]) == claims[2]


# What can be judged


def test_an_outcome_is_judged_by_its_word() -> None:
    assert state_of(GOOD, GOOD[0], None) == "verified"
    assert state_of(BAD, GOOD[0], None) == "failed"


@pytest.mark.parametrize("outcome", ["untested", "cantTell"])
def test_what_was_not_decided_cannot_be_judged(outcome: Outcome) -> None:
    assert state_of([compiled(outcome=outcome)], GOOD[0], None) == Unavailable(reason=f"it {outcome}")


def test_a_file_that_does_not_load_cannot_be_judged() -> None:
    all_of_it = claim("matmul", "*", "compiled", None, outcome="failed", reason="SyntaxError")
    assert state_of([all_of_it], GOOD[0], None) == Unavailable(reason="SyntaxError")
    assert state_of([], GOOD[0], None) == Unavailable(reason="no such claim there")
    assert state_of(GONE, GOOD[0], None) == GONE


def test_a_figure_is_judged_by_its_value() -> None:
    assert state_of(GOOD, GOOD[0], "registers") == "40"
    assert state_of(GOOD, GOOD[0], "speed") == Unavailable(reason="no figure 'speed' there, only registers")


# The search


def test_the_place_is_found_and_each_point_tried_once() -> None:
    answers = [GOOD] * 5 + [BAD] * 4
    judge, points = told(answers), row(len(answers))
    found = found_by(points, Search(judge, points, read_claim("matmul", "compiled")[0], None), every=False)
    assert (found.last, found.first, found.exact) == ("4", "5", True)
    assert len(judge.asked) == len(set(judge.asked)) < len(answers)
    said = text(found)
    assert "It changed from verified to failed at 5, after 4." in said
    assert "not tried are presumed to be as their neighbours" in said


def test_where_points_cannot_be_judged_the_range_is_said() -> None:
    found = bisected([GOOD, GONE, GONE, BAD])
    assert not found.exact
    assert "after 0, at 3 or one of 2 before it that cannot be judged." in text(found)
    assert "  1: cannot be judged (the file does not load)" in text(found)


def test_all_points_show_what_came_back() -> None:
    found = bisected([GOOD, BAD, GOOD, BAD], every=True)
    assert (found.last, found.first, found.back) == ("0", "1", [("1", "2")])
    assert "It changed back from 1 to 2: there is more than one place." in text(found)


def test_a_figure_is_followed() -> None:
    found = bisected([[compiled(registers=r)] for r in (40, 40, 48, 48)], figure="registers")
    assert (found.last, found.first) == ("1", "2")
    assert "It changed from 40 to 48 at 2, after 1." in text(found)


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([GOOD, BAD, GOOD], "expected the claim to differ between the ends, found 'verified' at both"),
        ([GONE, BAD], "0: expected an end that can be judged: the file does not load"),
        ([GOOD, GONE], "1: expected an end that can be judged: the file does not load"),
    ],
)
def test_ends_that_make_no_question_are_refused(answers: list[list[Claim] | Unavailable], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        bisected(answers)


def test_hostile_words_stay_on_their_line() -> None:
    hostile = Unavailable(reason="\x1b[31ma\nb")
    assert "\x1b" not in text(bisected([GOOD, hostile, BAD]))
    assert len(text(bisected([GOOD, hostile, BAD])).splitlines()) == 5


# The points


@pytest.mark.parametrize(
    ("tier", "stages"),
    [
        ("interpreted", ["environment", "interpreter"]),
        ("fits", ["environment", "compile"]),
        ("accurate", ["environment", "gate", "compile", "gpu"]),
        ("timed", ["environment", "gate", "compile", "gpu", "timing"]),
    ],
)
def test_only_the_stages_that_a_claim_rests_on_are_run(tier: Tier, stages: list[str]) -> None:
    assert stages_of(tier) == stages


def test_versions_are_those_that_are_installed_and_those_that_are_given(tmp_path: Path) -> None:
    for name in ("3.9.0", "3.10.0", "notes"):
        (tmp_path / name / "bin").mkdir(parents=True)
    (tmp_path / "3.9.0/bin/python").touch()
    found = environments(["3.8.0=other/python"], tmp_path)
    assert set(found) == {"3.8.0", "3.9.0", "3.10.0"}
    assert found["3.8.0"] == str(Path("other/python").absolute())
    points = versions("3.8.0", "3.10.0", found, ROOT / "kernels/softmax.py", Settings()).points
    assert [point.name for point in points] == ["3.8.0", "3.9.0", "3.10.0"]
    assert points[1].python == str(tmp_path / "3.9.0/bin/python")
    assert isinstance(points[2].python, Unavailable)
    back = versions("3.10.0", "3.9.0", found, ROOT / "kernels/softmax.py", Settings()).points
    assert [point.name for point in back] == ["3.10.0", "3.9.0"]


@pytest.mark.parametrize("given", ["3.8.0", "=python", "main=python", "3.8.0="])
def test_a_python_needs_version_and_path(given: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--python: expected VERSION=PATH"):
        environments([given], tmp_path)


def test_a_version_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Triton 3\.8\.0: expected an environment .* found 3\.9\.0; "):
        versions("3.8.0", "3.9.0", {"3.9.0": "python"}, tmp_path, Settings())


def test_settings_that_the_claim_does_not_read_are_no_points(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("seeds: [1]\n")
    (tmp_path / "b.yaml").write_text("seeds: [1, 2]\ntiming: {rounds: 50}\ninterpreter: {limit_s: 5}\n")
    found = configurations(tmp_path / "a.yaml", tmp_path / "b.yaml", ROOT / "kernels/softmax.py", "interpreted")
    names = [point.name for point in found.points]
    assert names == [f"{tmp_path}/a.yaml", "seeds: with 2", "interpreter.limit_s: 5.0"]
    assert isinstance(found.points[1].settings, Settings)
    assert found.points[1].settings.seeds == [1, 2]
    with pytest.raises(UsageError, match="expected them to differ in what the claim depends on"):
        configurations(tmp_path / "a.yaml", tmp_path / "b.yaml", ROOT / "kernels/softmax.py", "compiled")


def test_only_the_target_that_is_asked_about_is_compiled_for() -> None:
    settings = narrowed(row(1), "compiled", "sm_90").points[0].settings
    assert isinstance(settings, Settings)
    assert settings.targets == ["sm_90"]
    assert narrowed(row(1), "compiled", "*") == row(1)
    assert narrowed(row(1), "interpreted", "sm_90") == row(1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["../x", "interpreted", "--good", "a", "--bad", "b"], "KERNEL: expected the name of a file under kernels/"),
        (["softmax", "interpreted", "--good", "nowhere", "--bad", "HEAD"], "expected a commit of this checkout"),
        (["softmax", "interpreted", "--good", "0.1", "--bad", "0.2"], "Triton 0.1: expected an environment in"),
        (["softmax", "interpreted", "--good", "no.yaml", "--bad", "config.yaml"], "no.yaml: cannot be read"),
        (["softmax", "gated", "--good", "a", "--bad", "b"], "CLAIM: expected"),
    ],
)
def test_a_question_without_sense_is_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bisect", *arguments]) == 2
    assert f"assay bisect: {said}" in capsys.readouterr().err


# Real runs


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A tiny project under git. Its kernel `one`: right, a comment more, broken, wrong at the edge, a comment more."""
    made = new_project(tmp_path_factory.mktemp("bisected") / "project")
    edits = [
        ("import torch\n", "import torch  # a comment\n"),
        ("KERNEL = Kernel(", "KERNEL = = Kernel("),
        ("KERNEL = = Kernel(", "KERNEL = Kernel("),
        ("# a comment", "# another"),
    ]
    git(made, "init", "--quiet")
    commit(made, "Right")
    for number, (old, new) in enumerate(edits):
        made.edit("kernels/one.py", old, new)
        if number == 2:
            made.edit("kernels/one.py", "tl.load(x_ptr + i, mask=i < n)", "tl.load(x_ptr + i + 1, mask=i < n)")
        commit(made, f"Edit {number}")
    return made


def git(project: Project, *arguments: str) -> str:
    settled = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    done = project.run("git", *settled, *arguments)
    assert done.returncode == 0, done.stdout
    return done.stdout.strip()


def commit(project: Project, subject: str) -> None:
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", subject)


@pytest.mark.slow
def test_a_commit_is_found_in_a_real_history_and_remembered(repository: Project) -> None:
    before = git(repository, "status", "--porcelain")
    asked = ["bisect", "one", "interpreted", "--good", "HEAD~4", "--bad", "HEAD"]
    done = repository.assay(*asked)
    # The commit between cannot be loaded, so either of two is to blame.
    assert done.returncode == 1, done.stdout
    assert "cannot be judged (" in done.stdout
    assert "or one of 1 before it that cannot be judged." in done.stdout
    assert git(repository, "status", "--porcelain") == before
    kept = sorted((repository.root / "results/.bisect").iterdir())
    again = repository.assay(*asked, "--json")
    assert again.returncode == 1
    assert sorted((repository.root / "results/.bisect").iterdir()) == kept
    found = decode(canonical(json.loads(again.stdout.splitlines()[-1])), Bisection, "--json")
    assert [one.state for one in found.tried] == ["verified", "verified", None, "failed", "failed"]
    assert found.first.endswith("Edit 2")
    narrower = repository.assay("bisect", "one", "f32/block64 interpreted", "--good", "HEAD", "--bad", "HEAD~1")
    assert narrower.returncode == 2
    assert "expected the claim to differ between the ends, found 'failed' at both" in narrower.stdout


@pytest.mark.slow
def test_a_setting_is_found_and_said_to_do_it_alone(repository: Project) -> None:
    config = (repository.root / "config.yaml").read_text("utf-8")
    other = config.replace("seeds: [1]", "seeds: [1, 2]").replace("limit_s: 60", "limit_s: 0.0001")
    (repository.root / "bad.yaml").write_text(other, "utf-8")
    done = repository.assay("bisect", "two", "interpreted", "--good", "config.yaml", "--bad", "bad.yaml")
    assert done.returncode == 0, done.stdout
    assert "It changed from verified to failed at interpreter.limit_s: 0.0001, after seeds: with 2." in done.stdout
    assert "It does so on its own." in done.stdout


def usable() -> dict[str, str]:
    """Return the environments of Triton releases that are there, with the one that runs this test."""
    installed = subprocess.run(
        [sys.executable, "-c", "import importlib.metadata as m; print(m.version('triton'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    made = {version: path for version, path in environments([], ROOT / ENVIRONMENTS).items() if Path(path).exists()}
    return {installed: sys.executable, **made}


@pytest.mark.slow
def test_versions_are_tried_in_their_own_environments(repository: Project) -> None:
    found = sorted(usable(), key=lambda version: [int(part) for part in version.split(".")])
    if len(found) < 2:
        pytest.skip("one Triton release is installed; `snakemake --cores 2 versions` installs others")
    pythons = [word for version in found for word in ("--python", f"{version}={usable()[version]}")]
    ends = ["--good", found[0], "--bad", found[-1]]
    done = repository.assay("bisect", "two", "compiled sm_80", *ends, *pythons, "--figure", "binary_sha256", "--all")
    # Two releases seldom make the same binary; where they do, that is the answer.
    same = "expected the claim to differ between the ends" in done.stdout
    assert done.returncode == (2 if same else 0), done.stdout


@pytest.mark.slow
def test_an_environment_that_holds_another_release_cannot_be_judged(repository: Project) -> None:
    pythons = ["--python", f"1.0={sys.executable}", "--python", f"2.0={sys.executable}"]
    done = repository.assay("bisect", "two", "interpreted", "--good", "1.0", "--bad", "2.0", *pythons)
    assert done.returncode == 2
    assert "1.0: expected an end that can be judged: expected Triton 1.0 there, found 3." in done.stdout
