"""What the stage `compile` found, and what `gpu` says of the binaries it ran, as rows of the report's tables. Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from assay.evidence import Evidence, Records, Reference, Told
from assay.formats import ABSENT, distinct
from assay.outcomes import Mark
from assay.record import Binary, Build, Count, Digest


@dataclass(frozen=True)
class BinaryRow:
    """One compiled function of one variant for one target, or a build that made none."""

    variant: str
    target: str
    function: str
    registers: str
    stack: str
    local: str
    shared: str
    ptx: str
    sass: str
    cubin: Digest | None
    compiled: Told
    fits: Told


@dataclass(frozen=True)
class FindingRow:
    """What the instructions say of a precision, and on which targets they say it."""

    statement: str
    targets: list[str]
    told: Told


@dataclass(frozen=True)
class ExecutionRow:
    """Which binaries one variant launched on the device, and whether they are those compiled without it."""

    variant: str
    case: str
    predicted: str
    cubins: list[Digest]
    source: Reference


@dataclass(frozen=True)
class Compilation:
    """One kernel's section. `obstacle` says why nothing was compiled; `executed` counts `executions` by prediction."""

    kernel: str
    obstacle: Told | None
    case: str
    findings: list[FindingRow]
    rows: list[BinaryRow]
    executed: str
    executions: list[ExecutionRow]


def _counts(counts: Mapping[str, Count]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()) if count) or "none of interest"


def _binary_row(build: Build, binary: Binary | None, compiled: Told, fits: Told) -> BinaryRow:
    if binary is None:
        function, registers, stack, local, shared, ptx, sass = [ABSENT] * 7
        row = build.variant, build.target, function, registers, stack, local, shared, ptx, sass
        return BinaryRow(*row, None, compiled, fits)
    return BinaryRow(
        variant=build.variant,
        target=build.target,
        function=binary.function,
        registers=str(binary.registers),
        stack=str(binary.stack_bytes),
        local=f"{binary.local_store_instructions} / {binary.local_load_instructions}",
        shared=f"{binary.shared_bytes} of {binary.shared_limit_bytes}",
        ptx=_counts(binary.instructions.ptx),
        sass=_counts(binary.instructions.sass),
        cubin=binary.cubin_sha256,
        compiled=compiled,
        fits=fits,
    )


def _build_rows(evidence: Evidence) -> list[BinaryRow]:
    rows = []
    for place, build in enumerate(evidence.artifact.result.builds):
        pointer = f"/result/builds/{place}"
        told = evidence.tell(build.compiled, pointer), evidence.tell(build.fits, pointer)
        rows += [_binary_row(build, binary, *told) for binary in build.binaries or [None]]
    return rows


def _finding_rows(evidence: Evidence) -> list[FindingRow]:
    """Join the targets of which the same is said: statements name theirs, which is cut out to compare them."""
    rows: dict[tuple[str, Mark, str], FindingRow] = {}
    for place, finding in enumerate(evidence.artifact.result.findings):
        told = evidence.tell(finding.verdict, f"/result/findings/{place}")
        statement = finding.statement.replace(f" on {finding.target}", "")
        row = rows.setdefault((finding.precision, told.mark, statement), FindingRow(statement, [], told))
        row.targets.append(finding.target)
    return [row for precision in distinct(key[0] for key in rows) for key, row in rows.items() if key[0] == precision]


def _execution_rows(evidence: Evidence | None) -> list[ExecutionRow]:
    executions = [] if evidence is None else evidence.artifact.result.executions
    return [
        ExecutionRow(
            execution.variant,
            execution.case,
            execution.predicted,
            execution.cubin_sha256,
            evidence.at(f"/result/executions/{place}"),
        )
        for place, execution in enumerate(executions)
        if evidence is not None
    ]


def build_compilation(kernel: str, records: Records) -> Compilation:
    """Return the section of one kernel from its `compile` record, and what its `gpu` record says of the binaries."""
    evidence = records["compile"]
    result = evidence.artifact.result
    rows = _build_rows(evidence)
    loaded = evidence.tell(result.loading, "/result/loading")
    executions = _execution_rows(records.get("gpu"))
    counts = Counter(execution.predicted for execution in executions)
    return Compilation(
        kernel=kernel,
        obstacle=None if result.loading.outcome == "passed" else loaded,
        case=", ".join(sorted({build.case for build in result.builds})),
        findings=_finding_rows(evidence),
        rows=rows,
        executed=", ".join(f"{count} {predicted}" for predicted, count in sorted(counts.items())),
        executions=executions,
    )
