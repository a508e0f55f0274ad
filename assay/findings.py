"""What compiled code shows: whether it fits its target, and whether its instructions keep its precision's promise.

Pure: from the figures that the compile stage read off the binaries.
"""

from collections.abc import Sequence

from assay.diagnosis import INPUT_PRECISIONS, NAMED_PRECISIONS, PLAIN
from assay.instructions import matrix_instructions, matrix_names, rounding_instructions
from assay.record import Binary, Build, Declaration, DeclaredVariant, Finding, Verdict
from assay.targets import Operand, is_amd, multiplies, unsuited

TENSOR_MEMORY_COLUMNS = 512
"""Columns of tensor memory on a multiprocessor of sm_100 (PTX ISA, tcgen05.alloc)."""

_OPERANDS: dict[str, Operand] = {
    "tf32": "tf32",
    "tf32x3": "tf32",
    "bf16x3": "bf16",
    "bf16x6": "bf16",
    "fp16x3": "f16",
}
"""What each precision puts into the matrix units; ieee nothing but float32 as it is."""


def _shared(target: str) -> str:
    return "LDS" if is_amd(target) else "shared memory"


def _units(target: str) -> str:
    return "matrix cores" if is_amd(target) else "tensor cores"


def judge_fit(binaries: Sequence[Binary], target: str) -> Verdict:
    """Compare shared and tensor memory with what one block may have on the target."""
    for binary in binaries:
        need, limit = binary.shared_bytes, binary.shared_limit_bytes
        reason = f"{binary.function} needs {need} B of {_shared(target)}; a block on {target} has {limit} B"
        if not need <= limit:
            return Verdict(outcome="inapplicable", cause="does-not-fit", reason=reason)
        columns = binary.tensor_memory_columns
        if not columns <= TENSOR_MEMORY_COLUMNS:
            reason = f"{binary.function} needs {columns} columns of tensor memory; {target} has {TENSOR_MEMORY_COLUMNS}"
            return Verdict(outcome="inapplicable", cause="does-not-fit", reason=reason)
    most = max(binary.shared_bytes for binary in binaries)
    return Verdict(outcome="passed", reason=f"{most} of {binaries[0].shared_limit_bytes} B of {_shared(target)}")


def judge_stack(binaries: Sequence[Binary], budget: int | None) -> Verdict | None:
    """Return why the code's stack, where spilled registers go, is past the variant's budget; None where it is not."""
    for binary in binaries:
        if budget is not None and not binary.stack_bytes <= budget:
            spilled = f"{binary.local_store_instructions} stores and {binary.local_load_instructions} loads of it"
            reason = f"{binary.function} uses {binary.stack_bytes} B of stack ({spilled}); its budget is {budget} B"
            return Verdict(outcome="failed", cause="over-budget", reason=reason)
    return None


def built(variant: DeclaredVariant, target: str, case: str, binaries: list[Binary]) -> Build:
    """Return the build of a launch that was compiled to these binaries; one to none at all has failed."""
    if not binaries:
        nothing = Verdict(outcome="failed", cause="declaration", reason="the launch starts no Triton kernel")
        return unbuilt(variant.id, target, case, nothing)
    compiled = Verdict(outcome="passed", reason=f"compiled, {len(binaries)} device function(s)")
    return Build(
        variant=variant.id,
        target=target,
        case=case,
        compiled=judge_stack(binaries, variant.stack_budget_bytes) or compiled,
        fits=judge_fit(binaries, target),
        binaries=binaries,
    )


def unbuilt(variant: str, target: str, case: str, compiled: Verdict) -> Build:
    """Return the build of a launch that was not compiled, with the reason."""
    fits = compiled
    if compiled.outcome != "inapplicable":
        fits = Verdict(outcome="untested", cause="upstream", reason="there is no binary to fit")
    return Build(variant=variant, target=target, case=case, compiled=compiled, fits=fits, binaries=[])


def misplaced(variant: DeclaredVariant, target: str) -> Verdict | None:
    """Return why a target is too old or too new for a variant, or None."""
    reason = unsuited(target, target, variant.minimum_capability, variant.maximum_capability)
    return None if reason is None else Verdict(outcome="inapplicable", cause="capability", reason=reason)


def _same_code(builds: Sequence[Build], others: Sequence[Build]) -> bool:
    """Return whether the builds of two precisions are, configuration by configuration, the same binaries."""
    digests = [[binary.binary_sha256 for binary in build.binaries] for build in builds]
    return bool(digests) and digests == [[binary.binary_sha256 for binary in build.binaries] for build in others]


def _most(build: Build, operand: str) -> int:
    return max(matrix_instructions(binary.instructions.assembly, operand) for binary in build.binaries)


def _plain(target: str, builds: Sequence[Build]) -> tuple[bool, str]:
    """Say of f32 whether it multiplies in tf32, to which float32 alone is rounded, by default as well as on request.

    Other matrix instructions are no matter: whether their 16-bit operands were so from the start, and not rounded, or
    were cast in the kernel, as its author wrote, does not show.
    """
    counts = [binary.instructions.assembly for build in builds for binary in build.binaries]
    kinds = sorted({name for count in counts for name in matrix_names(count, "tf32")})
    said = f"multiplies in tf32 on the {_units(target)} ({', '.join(kinds)})" if kinds else "multiplies nothing in tf32"
    return not kinds, f"{PLAIN} on {target} {said}"


def _statement(precision: str, target: str, builds: Sequence[Build], ieee: Sequence[Build]) -> tuple[bool, str]:
    if precision == PLAIN:
        return _plain(target, builds)
    counts = [binary.instructions.assembly for build in builds for binary in build.binaries]
    rounding = sum(rounding_instructions(count) for count in counts)
    kept = sorted({name for count in counts for name in matrix_names(count, "f32")})
    beside = f", beside those of float32 ({', '.join(kept)})" if kept else ""
    uses = f"uses {rounding or 'no'} {_units(target).removesuffix('s').replace(' ', '-')} instructions{beside}"
    operand = _OPERANDS.get(precision)
    if operand is None:
        return rounding == 0, f"{precision} on {target} {uses}"
    if multiplies(target, operand):
        # One of several kernels of a launch may have nothing to multiply.
        fewest = min(_most(build, operand) for build in builds)
        kinds = sorted({name for count in counts for name in matrix_names(count, operand)})
        units = _units(target)
        said = f"takes the {units} ({', '.join(kinds)})" if fewest else f"leaves the {units} unused"
        return fewest > 0, f"{precision} on {target} {said}"
    same = _same_code(builds, ieee)
    said = "compiles to the same code as ieee" if same else uses
    # Without units for it tf32 has nothing to differ in; the modes of several pieces still split their operands.
    promised = rounding == 0 and (same or precision != "tf32" or not ieee)
    if not same and precision == "tf32" and ieee:
        said = f"{said} and differs from ieee"
    return promised, f"{precision} on {target} {said}"


def _finding(precision: str, target: str, builds: Sequence[Build], ieee: Sequence[Build]) -> Finding:
    holds, statement = _statement(precision, target, builds, ieee)
    verdict = Verdict(outcome="passed", reason="as the precision promises")
    if not holds:
        verdict = Verdict(outcome="failed", cause="instructions", reason=f"{statement}, which is not its promise")
    return Finding(precision=precision, target=target, statement=statement, verdict=verdict)


def keeping(precision: str) -> str | None:
    """Return how `tl.dot` keeps what a precision promises, where Triton has a setting for it."""
    if precision in ("ieee", PLAIN):
        return 'tl.dot multiplies float32 in tf32 unless it has input_precision="ieee"'
    if precision in INPUT_PRECISIONS:
        return f'tl.dot multiplies float32 in {precision} where it has input_precision="{precision}"'
    return None


def _all(declaration: Declaration, builds: Sequence[Build]) -> list[Finding]:
    """Judge the precisions of which it is known what they promise, for each target.

    Only from binaries that fit: one that cannot be launched can be anything (Triton 3.7.1 leaves an empty function out
    of tensor memory).
    """
    precision_of = {variant.id: variant.precision for variant in declaration.variants}
    made: dict[tuple[str, str], list[Build]] = {}
    for build in builds:
        if build.binaries and build.fits.outcome == "passed":
            made.setdefault((build.target, precision_of[build.variant]), []).append(build)
    return [
        _finding(precision, target, group, made.get((target, "ieee"), []))
        for (target, precision), group in made.items()
        if precision in (*NAMED_PRECISIONS, PLAIN)
    ]


def findings(declaration: Declaration, builds: Sequence[Build]) -> list[Finding]:
    """Say, from the instructions, which precisions use the matrix units of each target.

    Of f32, in which most kernels multiply no matrices at all, it is said only where the promise is broken.
    """
    judged = _all(declaration, builds)
    return [finding for finding in judged if finding.precision != PLAIN or finding.verdict.outcome == "failed"]


def kept_promises(declaration: Declaration, builds: Sequence[Build]) -> set[tuple[str, str]]:
    """Return the precisions that keep their promise, each with the target; f32 too, of which nothing is said then."""
    return {(one.precision, one.target) for one in _all(declaration, builds) if one.verdict.outcome == "passed"}
