"""Stage `compile`: every variant of one kernel for every target, with no GPU, and what the instructions say.

The kernel's own launch is compiled, so no signature is written by hand and the digests are those of a real run.
"""

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

from assay.artifact import convert
from assay.child import Child, Fault, compiling_environment
from assay.correctness import LOADING_LIMIT_S
from assay.diagnosis import NAMED_PRECISIONS, diagnose, diagnose_loading
from assay.instructions import matrix_instructions, matrix_names
from assay.pool import Pool, worker_count
from assay.progress import Progress
from assay.record import Binary, Build, Compile, Declaration, DeclaredVariant, Finding, Verdict
from assay.stage import Job, run
from assay.targets import capability_of, too_old

WORKER = "assay.codegen"

TENSOR_CORE_CAPABILITY = (8, 0)
"""The first compute capability whose tensor cores multiply tf32 and bf16 (CUDA C++ Programming Guide, appendix)."""

TENSOR_MEMORY_COLUMNS = 512
"""Columns of tensor memory on a multiprocessor of sm_100 (PTX ISA, tcgen05.alloc)."""

_OPERANDS = {"tf32": "tf32", "tf32x3": "tf32", "bf16x3": "bf16", "bf16x6": "bf16"}
"""What each precision puts into the tensor cores; ieee uses none."""


def judge_fit(binaries: Sequence[Binary], target: str) -> Verdict:
    """Compare shared and tensor memory with what one block may have on the target."""
    for binary in binaries:
        need, limit = binary.shared_bytes, binary.shared_limit_bytes
        reason = f"{binary.function} needs {need} B of shared memory; a block on {target} has {limit} B"
        if not need <= limit:
            return Verdict(outcome="inapplicable", cause="does-not-fit", reason=reason)
        columns = binary.tensor_memory_columns
        if not columns <= TENSOR_MEMORY_COLUMNS:
            reason = f"{binary.function} needs {columns} columns of tensor memory; {target} has {TENSOR_MEMORY_COLUMNS}"
            return Verdict(outcome="inapplicable", cause="does-not-fit", reason=reason)
    most = max(binary.shared_bytes for binary in binaries)
    return Verdict(outcome="passed", reason=f"{most} of {binaries[0].shared_limit_bytes} B of shared memory")


@dataclass(frozen=True)
class Wanted:
    """One build to make."""

    variant: DeclaredVariant
    target: str

    def __str__(self) -> str:
        """Name it for the terminal."""
        return f"{self.target} {self.variant.id}"


def _without_binary(wanted: Wanted, case: str, compiled: Verdict) -> Build:
    fits = compiled
    if compiled.outcome != "inapplicable":
        fits = Verdict(outcome="untested", cause="upstream", reason="there is no binary to fit")
    variant, target = wanted.variant.id, wanted.target
    return Build(variant=variant, target=target, case=case, compiled=compiled, fits=fits, binaries=[])


def _build(child: Child, wanted: Wanted, case: str, limit_s: float) -> Build:
    variant, target = wanted.variant.id, wanted.target
    old = too_old(target, capability_of(target), wanted.variant.minimum_capability)
    if old is not None:
        return _without_binary(wanted, case, Verdict(outcome="inapplicable", cause="capability", reason=old))
    answer = child.ask({"do": "build", "variant": variant, "target": target, "case": case}, limit_s)
    if isinstance(answer, Fault):
        return _without_binary(wanted, case, diagnose(answer, wanted.variant.precision))
    binaries = [convert(binary, Binary, "the child's answer") for binary in answer["binaries"]]
    if not binaries:
        nothing = Verdict(outcome="failed", cause="declaration", reason="the launch starts no Triton kernel")
        return _without_binary(wanted, case, nothing)
    compiled = Verdict(outcome="passed", reason=f"compiled, {len(binaries)} device function(s)")
    fits = judge_fit(binaries, target)
    return Build(variant=variant, target=target, case=case, compiled=compiled, fits=fits, binaries=binaries)


def _child(job: Job, cache: str, number: int) -> Child:
    log = job.log.with_name(f"compile-{number}.log")
    return Child([sys.executable, "-m", WORKER, str(job.kernel)], compiling_environment(cache), log)


def _build_all(job: Job, declaration: Declaration, children: Sequence[Child]) -> list[Build]:
    settings, case = job.settings.compile, declaration.cases[0]
    # Longest first, so that no worker is left with one long build at the end: targets without tensor cores unroll
    # every product, and variants are declared from simple to elaborate.
    targets = sorted(job.settings.targets, key=capability_of)
    wanted = [Wanted(variant, target) for target in targets for variant in reversed(declaration.variants)]
    progress = Progress(f"compile {job.name}", len(wanted))
    pool = Pool(wanted, lambda child, item: _build(child, item, case, settings.limit_s), progress)
    made = {(build.variant, build.target): build for build in pool.run(children)}
    builds = [made[variant.id, target] for target in job.settings.targets for variant in declaration.variants]
    progress.close(f"{sum(build.compiled.outcome == 'passed' for build in builds)} of {len(builds)} compiled")
    return builds


def _same_code(builds: Sequence[Build], others: Sequence[Build]) -> bool:
    """Return whether the builds of two precisions are, configuration by configuration, the same binaries."""
    digests = [[binary.cubin_sha256 for binary in build.binaries] for build in builds]
    return bool(digests) and digests == [[binary.cubin_sha256 for binary in build.binaries] for build in others]


def _statement(precision: str, target: str, builds: Sequence[Build], ieee: Sequence[Build]) -> tuple[bool, str]:
    counts = [binary.instructions.ptx for build in builds for binary in build.binaries]
    any_matrix = sum(matrix_instructions(count) for count in counts)
    operand = _OPERANDS.get(precision)
    if operand is None:
        return any_matrix == 0, f"{precision} on {target} uses {any_matrix or 'no'} tensor-core instructions"
    if capability_of(target) >= TENSOR_CORE_CAPABILITY:
        fewest = min(matrix_instructions(count, operand) for count in counts)
        kinds = sorted({name for count in counts for name in matrix_names(count, operand)})
        said = f"takes the tensor cores ({', '.join(kinds)})" if fewest else "leaves the tensor cores unused"
        return fewest > 0, f"{precision} on {target} {said}"
    same = _same_code(builds, ieee)
    said = "compiles to the same code as ieee" if same else f"uses {any_matrix or 'no'} tensor-core instructions"
    return any_matrix == 0, f"{precision} on {target} {said}"


def _finding(precision: str, target: str, builds: Sequence[Build], ieee: Sequence[Build]) -> Finding:
    holds, statement = _statement(precision, target, builds, ieee)
    verdict = Verdict(outcome="passed", reason="as the precision promises")
    if not holds:
        verdict = Verdict(outcome="failed", cause="instructions", reason=f"{statement}, which is not its promise")
    return Finding(precision=precision, target=target, statement=statement, verdict=verdict)


def findings(declaration: Declaration, builds: Sequence[Build]) -> list[Finding]:
    """Say, from the instructions, which precisions use the tensor cores of each target.

    Only for Triton's named precisions, since what another mode promises is not known here, and only from binaries that
    fit: one that cannot be launched can be anything (Triton 3.7.1 leaves an empty function out of tensor memory).
    """
    precision_of = {variant.id: variant.precision for variant in declaration.variants}
    made: dict[tuple[str, str], list[Build]] = {}
    for build in builds:
        if build.binaries and build.fits.outcome == "passed":
            made.setdefault((build.target, precision_of[build.variant]), []).append(build)
    return [
        _finding(precision, target, group, made.get((target, "ieee"), []))
        for (target, precision), group in made.items()
        if precision in NAMED_PRECISIONS
    ]


def compile_all(job: Job) -> Compile:
    """Load the kernel file, build every variant for every target, and read the instructions."""
    with tempfile.TemporaryDirectory(prefix="assay-compile-") as cache:
        children = [_child(job, cache, number) for number in range(worker_count(job.settings.compile.workers))]
        with children[0]:
            answer = children[0].ask({"do": "describe"}, LOADING_LIMIT_S)
            if isinstance(answer, Fault):
                return Compile(loading=diagnose_loading(answer), declaration=None, builds=[], findings=[])
            declaration = convert(answer["declaration"], Declaration, "the kernel's declaration")
            builds = _build_all(job, declaration, children)
    loaded = Verdict(outcome="passed", reason="the kernel file was imported and declares a kernel")
    return Compile(loading=loaded, declaration=declaration, builds=builds, findings=findings(declaration, builds))


def main(argv: Sequence[str]) -> int:
    """Run the stage."""
    return run("compile", argv, compile_all, needs=("environment",))
