"""The command `show`: the matrix in any terminal, with and without colour, and nothing that a name says to it."""

import io
import re
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from forge import H200, forge
from project import PYTHON_PATH
from records import MATMUL, SOFTMAX, Tree, claim
from rich.cells import cell_len
from rich.console import Console

from assay.__main__ import main
from assay.matrix import build_matrix
from assay.record import Claim
from assay.show import Shown, picture, slices
from assay.terminal import printed

BLOCKED: dict[str, Any] = {
    "outcome": "untested",
    "cause": "no-driver",
    "reason": "no NVIDIA driver: libcuda.so.1 cannot be loaded",
}


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return Tree(tmp_path, (MATMUL, SOFTMAX), H200).lay_out()


def shown(claims: list[Claim], width: int = 80, encoding: str = "utf-8", colour: bool = False) -> str:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=stream, width=width, force_terminal=colour, markup=False, emoji=False, highlight=False)
    return printed(picture(Shown("PARTIALLY VERIFIED: some.", claims, "from here"), width), console)


def test_it_shows_the_matrix_of_results_in_plain_text_where_it_is_piped(
    tree: Tree, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show"]) == 0
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert "\nmatmul\n" in said
    assert "\nsoftmax\n" in said
    assert re.search(r"^  variant +interpreted( teeth)?( sm_\d+)+$", said, re.MULTILINE)
    assert re.search(r"^  \S+ +✓ ", said, re.MULTILINE)
    assert "✓ verified " in said
    assert max(map(cell_len, said.splitlines())) <= 80
    assert said.endswith("of the sources at hand\n")


def test_one_kernel_can_be_asked_for_and_another_is_refused(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "softmax"]) == 0
    said = capsys.readouterr().out
    assert "\nsoftmax\n" in said
    assert "\nmatmul\n" not in said
    assert main(["show", "sofmax"]) == 2
    assert capsys.readouterr() == (
        "",
        "assay show: KERNEL: expected one that is claimed about, found 'sofmax'; allowed: matmul, softmax\n",
    )


def test_of_one_kernel_it_says_where_that_stands_and_not_where_others_do(
    tree: Tree, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", "softmax"]) == 0
    said = " ".join(capsys.readouterr().out.split("\n\n")[0].split())
    assert said.startswith("softmax: ")
    assert "under the Triton 3.6.0 interpreter 1 of 1 variants passed" in said
    assert main(["show"]) == 0
    assert capsys.readouterr().out.startswith("46 claims are verified.\n")


def test_what_only_other_devices_would_settle_is_told_once_and_names_them() -> None:
    targets = ("sm_80", "sm_90", "sm_100")
    said = shown([claim(tier=tier, target=target, **BLOCKED) for target in targets for tier in ("ran", "timed")], 200)
    assert re.findall("^■ blocked,.*", said, re.MULTILINE) == [
        "■ blocked, no-driver, 6 claims: ran, timed of matmul: ieee/64x64x32 on sm_80, sm_90, sm_100"
    ]
    assert "    (6) no NVIDIA driver: libcuda.so.1 cannot be loaded" in said
    assert "to settle it: snakemake --cores 1 report, on a machine with a GPU for each of sm_80, sm_90, sm_100" in said


@pytest.fixture
def unclaimed(tree: Tree) -> Path:
    """A kernel beside those that are claimed about, of which one record was made by hand."""
    Path("kernels/mine.py").write_text("KERNEL = 7\n")
    record = Path("results/mine/interpreter.json")
    record.parent.mkdir()
    record.write_text("{}")
    return record


def refusal(kernel: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["show", kernel]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    return said.err


STAGES = ("interpreter", "compile", "gpu", "timing")
MINE = ["results/environment.json", "results/gate.json", *(f"results/mine/{stage}.json" for stage in STAGES)]
MADE = f"snakemake --cores 1 {' '.join(MINE)} && python -m assay claims"


def test_a_kernel_with_records_and_no_claims_is_told_what_makes_the_rest(
    unclaimed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start = "assay show: KERNEL: expected one that is claimed about, found 'mine' with "
    advised = f"make what is missing with `{MADE}`\n"
    assert refusal("mine", capsys) == f"{start}records of interpreter and no claims; {advised}"
    Path("results/claims.json").unlink()
    assert refusal("mine", capsys) == f"{start}records of interpreter and no claims; {advised}"
    Path("results/matmul/gpu.json").unlink()
    named = "".join(f" --record {path}" for path in MINE)
    assert refusal("mine", capsys).endswith(f"with `{MADE}{named}`\n")
    unclaimed.unlink()
    assert "found 'mine' with no records and no claims; make what is missing" in refusal("mine", capsys)


@pytest.mark.parametrize("name", ["../mine", "mine; true", "nobodys", "*"])
def test_what_is_no_kernel_here_is_put_into_no_command(
    unclaimed: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refusal(name, capsys).endswith(f"found {name!r}; allowed: matmul, softmax\n")


def test_a_record_that_is_stale_or_edited_is_refused_as_for_a_report(
    tree: Tree, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("kernels/matmul.py").write_text("# changed\n")
    assert main(["show"]) == 2
    assert "stale, kernels/matmul.py has changed since" in capsys.readouterr().err


def test_without_results_it_says_how_to_make_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["show"]) == 2
    assert capsys.readouterr().err == (
        "assay show: results/claims.json: cannot be read (No such file or directory); run stage 'claims' again "
        "(snakemake --cores 1 report -R claims)\n"
    )


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A sound bundle, alone in the folder that the test runs in."""
    data = forge(H200, [MATMUL]).archive()
    monkeypatch.chdir(tmp_path)
    Path("a.tar").write_bytes(data)
    return Path("a.tar")


def test_a_bundle_is_shown_anywhere_and_says_what_was_not_looked_at(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(tmp_path.rglob("*"))
    assert main(["show", "matmul", "--bundle", "a.tar"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "matmul variant interpreted" in said
    assert said.endswith(
        "a.tar: sound; signatures, and freshness against the sources at hand, are what `verify` looks at"
    )
    assert sorted(tmp_path.rglob("*")) == before


def test_an_unsound_bundle_is_refused_with_exit_code_1_and_no_bundle_with_2(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle.write_bytes(bundle.read_bytes().replace(b'"exit_code":0', b'"exit_code":1', 1))
    assert main(["show", "--bundle", "a.tar"]) == 1
    assert capsys.readouterr().err.startswith("assay show: a.tar: ")
    assert main(["show", "--bundle", "none.tar"]) == 2
    assert "none.tar: cannot be read (No such file or directory); name a file that" in capsys.readouterr().err


def test_what_was_not_shown_stands_below_with_its_reason_and_the_gate_above() -> None:
    gate = claim(kernel="*", variant="*", tier="gated", target=None, outcome="passed", reason="exit 1 as designed")
    said = shown([claim(), claim(tier="ran", **BLOCKED), gate])
    assert "gate ✓ verified: exit 1 as designed" in said
    assert "■ blocked, no-driver, 1 claim: ran of matmul" in said
    assert "    (1) no NVIDIA driver: libcuda.so.1 cannot be loaded" in said
    assert "    to settle it: snakemake --cores 1 report, on a machine with" in said
    assert "All that is claimed is shown." in shown([claim(), gate])


def test_colour_is_never_the_only_sign() -> None:
    claims = [claim(), claim(tier="ran", **BLOCKED)]
    coloured = shown(claims, colour=True)
    assert "\x1b[32m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == shown(claims)


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[(?:\d+;)*3\d", shown([claim(), claim(tier="ran", **BLOCKED)], colour=True))


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_the_signs_gets_others_that_differ(encoding: str) -> None:
    said = shown(
        [claim(), claim(tier="ran", **BLOCKED), claim(tier="timed", outcome="cantTell", cause="noise")],
        encoding=encoding,
    )
    assert "+ verified 1" in said
    assert "# blocked 1" in said
    assert "? inconclusive 1" in said
    assert said.encode(encoding).decode(encoding) == said


HOSTILE = "\x1b[2J\x1b]0;owned\x07[red]x[/red]\u202e\r\nk"


def test_a_hostile_name_or_reason_is_printed_harmless() -> None:
    one = claim(kernel=HOSTILE, variant=HOSTILE, outcome="failed", cause="crash", reason=HOSTILE)
    said = shown([one, claim(kernel="*", variant="*", tier="gated", target=None, reason=HOSTILE)])
    assert "[red]x[/red]" in said
    assert {unicodedata.category(letter) for letter in said if letter != "\n"}.isdisjoint({"Cc", "Cf", "Cs"})
    assert "owned" not in said


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_many_targets_take_as_many_tables_as_the_terminal_is_narrow(width: int) -> None:
    targets = [f"sm_{number}" for number in range(75, 95)]
    claims = [claim(variant="ieee/128x128x32g8w8s3", target=target) for target in targets]
    said = shown(claims, width)
    assert max(map(cell_len, said.splitlines())) <= max(width, 80)
    assert all(f" {target}" in said for target in targets)
    parts = slices(build_matrix(claims), width)
    assert [target for part in parts for target in targets[part]] == targets


def test_an_encoding_without_the_signs_is_no_error(tree: Tree) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "assay", "show"],
        env={"PYTHONPATH": PYTHON_PATH, "PYTHONIOENCODING": "ascii", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "+ verified" in done.stdout
