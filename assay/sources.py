"""Which files a stage is made of, and which source the workflow as a whole is."""

import ast
import subprocess
from functools import cache
from pathlib import Path

from assay.artifact import canonical, hash_materials, sha256_bytes
from assay.record import Source, StageName, Unavailable

PACKAGE = Path("assay")
WORKFLOW = ("Snakefile", "config.yaml", "rules/*.smk", "kernels/*.py", "assay/*.py", "reports/*", "envs/*")


def _imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "assay":
            module = node.module.removeprefix("assay").lstrip(".")
            names |= {module} if module else {alias.name for alias in node.names}
    return names


@cache
def modules(stage: StageName) -> tuple[Path, ...]:
    """Return the package's files that `stage` runs, found by following its imports from its module.

    Snakemake lists them as inputs, so that editing one reruns the stage, and the stage records their digests as
    materials; both ask here, so they cannot differ.
    """
    waiting, seen = ["__init__", "__main__", str(stage)], set[str]()
    while waiting:
        name = waiting.pop()
        path = PACKAGE / f"{name}.py"
        if name in seen or not path.exists():
            continue
        seen.add(name)
        # The command line can start every stage, so its own imports would make each stage depend on all.
        waiting += [] if name == "__main__" else sorted(_imported(path))
    return tuple(PACKAGE / f"{name}.py" for name in sorted(seen))


def workflow_files() -> list[Path]:
    """Return every file that the workflow is made of, in order."""
    return sorted({path for pattern in WORKFLOW for path in Path().glob(pattern) if path.is_file()})


def _git(*arguments: str) -> str | Unavailable:
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, timeout=20, check=False)
    except FileNotFoundError:
        return Unavailable(reason="git is not installed")
    except subprocess.TimeoutExpired:
        return Unavailable(reason="git did not answer within 20 s")
    if done.returncode:
        return Unavailable(reason="not a git checkout with a commit")
    return done.stdout.strip()


def read_source() -> Source:
    """Return git's commit and dirty flag, each or a reason, and one digest over the workflow's files."""
    commit = _git("rev-parse", "HEAD")
    changed = _git("status", "--porcelain") if isinstance(commit, str) else commit
    return Source(
        commit=commit,
        dirty=bool(changed) if isinstance(changed, str) else changed,
        digest=sha256_bytes(canonical(hash_materials(workflow_files()))),
    )
