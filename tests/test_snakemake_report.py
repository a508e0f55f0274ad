"""Snakemake's own report of a finished run shows the artifacts with captions; its catalog knows the workflow."""

import json
import re
import sys
import zipfile

import pytest
import yaml
from project import KERNELS, PER_KERNEL, ROOT, Project

RULES = sorted((ROOT / "rules").glob("*.smk"))
OUTPUT = re.compile(r'update\("(results/[^"]+\.(?:json|html))"\)')


@pytest.mark.slow
def test_it_holds_every_artifact_in_its_category_and_changes_none(project: Project) -> None:
    before = project.records()
    done = project.run(sys.executable, "-m", "snakemake", "--report", "results/snakemake-report.zip")
    assert done.returncode == 0, done.stdout
    assert project.records() == before
    with zipfile.ZipFile(project.root / "results/snakemake-report.zip") as archive:
        files = {name.rpartition("/")[2]: archive.read(name) for name in archive.namelist() if "/data/" in name}
        (page,) = (archive.read(name).decode() for name in archive.namelist() if name.count("/") == 1)
    assert files["report.html"] == (project.root / "results/report.html").read_bytes()
    categories = re.search(r"categories = (\{.*\})", page)
    assert categories is not None
    assert json.loads(categories[1]) == {
        "Report": {"Other": ["results/report.html"]},
        "Claims": {"Other": ["results/claims.json"]},
        "Records": {
            "machine": ["results/environment.json", "results/gate.json"],
            **{kernel: [f"results/{kernel}/{stage}.json" for stage in sorted(PER_KERNEL)] for kernel in KERNELS},
        },
    }
    for kernel in KERNELS:
        assert f"Every case of kernel {kernel} under Triton" in page
    assert project.planned() == set()


# What no `report` makes.
APART = ("bundle", "install", "versions")


@pytest.mark.parametrize("rule", [path.stem for path in RULES if path.stem not in APART])
def test_every_artifact_has_a_caption_a_category_and_a_label(rule: str) -> None:
    text = (ROOT / f"rules/{rule}.smk").read_text("utf-8")
    flagged = re.findall(r"report\(\n +update\(.*?\n        \),", text, re.DOTALL)
    shown = [path for part in flagged for path in OUTPUT.findall(part)]
    # The record that vouches for the pages says nothing that they do not.
    assert shown == [path for path in OUTPUT.findall(text) if path != "results/report.json"]
    for part in flagged:
        caption = re.search(r'caption="\.\./(reports/captions/\w+\.rst)"', part)
        assert caption is not None
        assert (ROOT / caption[1]).read_text("utf-8").strip()
        assert "category=" in part
        assert "labels=" in part


def test_no_caption_is_left_over() -> None:
    named = "".join(path.read_text("utf-8") for path in [*RULES, ROOT / "Snakefile"])
    for path in (ROOT / "reports/captions").iterdir():
        assert f"reports/captions/{path.name}" in named


def test_the_catalog_is_told_what_a_user_must_give() -> None:
    """The keys are those of https://snakemake.github.io/snakemake-workflow-catalog, "Standardized usage"."""
    usage = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text("utf-8"))["usage"]
    assert set(usage) == {"mandatory-flags", "software-stack-deployment", "report"}
    assert set(usage["mandatory-flags"]) == {"desc", "flags"}
    assert set(usage["software-stack-deployment"]) == {"conda", "apptainer", "apptainer+conda"}
    assert usage["report"] is True
    # No rule names an environment, so none of these could be true.
    assert not any(usage["software-stack-deployment"].values())
    assert not any("conda:" in path.read_text("utf-8") for path in RULES)
