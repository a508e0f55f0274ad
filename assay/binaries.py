"""What the stage `compile` found, and what `gpu` says of the binaries it ran, as rows of the report's tables. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from assay.evidence import Evidence, Records, Reference, Told
from assay.formats import ABSENT, distinct
from assay.outcomes import Mark
from assay.picture import Picture
from assay.picture_resources import resources_picture
from assay.record import Binary, Build, Count, Declaration, Digest, Unavailable


@dataclass(frozen=True)
class BinaryRow:
    """One compiled function of one variant for one target, or a build that made none. `place`: the build's.

    `variant` names the case too, where that is not the first.
    """

    variant: str
    target: str
    function: str
    registers: str
    stack: str
    local: str
    shared: str
    assembly: str
    machine: str
    binary: Digest | None
    compiled: Told
    fits: Told
    place: int


@dataclass(frozen=True)
class FindingRow:
    """What the instructions say of a precision, and on which targets they say it."""

    statement: str
    targets: list[str]
    told: Told


@dataclass(frozen=True)
class ExecutionRow:
    """The binaries that one variant launched, for which cases, and whether they are those compiled without a device."""

    variant: str
    cases: list[str]
    predicted: str
    binaries: list[Digest]
    source: Reference

    @property
    def place(self) -> str:
        """The first of its cases, by its number in the record."""
        return self.source.pointer.rpartition("/")[2]


@dataclass(frozen=True)
class Compilation:
    """One kernel's section. `obstacle` says why nothing was compiled; `executed` counts launches by prediction, and
    `launched` is where the record holds them, if one does.
    """

    kernel: str
    source: Reference
    obstacle: Told | None
    case: str
    findings: list[FindingRow]
    rows: list[BinaryRow]
    picture: Picture | Unavailable
    executed: str
    launched: Reference | None
    executions: list[ExecutionRow]


def _counts(counts: Mapping[str, Count]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()) if count) or "none of interest"


def _registers(binary: Binary) -> str:
    files = binary.register_files
    if files is None:
        return str(binary.registers)
    accumulators = "" if files.agpr is None else f", {files.agpr} of them AGPR"
    spills = f"; spilled: {files.vgpr_spills} VGPR, {files.sgpr_spills} SGPR"
    return f"{files.vgpr} VGPR{accumulators}; {files.sgpr} SGPR{spills}"


def _stack(binary: Binary, budget: Count | None) -> str:
    return str(binary.stack_bytes) if budget is None else f"{binary.stack_bytes} of {budget}"


def _binary_row(
    build: Build, binary: Binary | None, told: tuple[Told, Told], place: int, budget: Count | None
) -> BinaryRow:
    compiled, fits = told
    if binary is None:
        function, registers, stack, local, shared, assembly, machine = [ABSENT] * 7
        row = build.variant, build.target, function, registers, stack, local, shared, assembly, machine
        return BinaryRow(*row, None, compiled, fits, place)
    return BinaryRow(
        variant=build.variant,
        target=build.target,
        function=binary.function,
        registers=_registers(binary),
        stack=_stack(binary, budget),
        local=f"{binary.local_store_instructions} / {binary.local_load_instructions}",
        shared=f"{binary.shared_bytes} of {binary.shared_limit_bytes}",
        assembly=_counts(binary.instructions.assembly),
        machine=ABSENT if binary.instructions.machine is None else _counts(binary.instructions.machine),
        binary=binary.binary_sha256,
        compiled=compiled,
        fits=fits,
        place=place,
    )


def _build_rows(evidence: Evidence) -> list[BinaryRow]:
    rows = []
    declaration: Declaration | None = evidence.artifact.result.declaration
    budgets = {} if declaration is None else {v.id: v.stack_budget_bytes for v in declaration.variants}
    for place, build in enumerate(evidence.artifact.result.builds):
        pointer = f"/result/builds/{place}"
        told = evidence.tell(build.compiled, pointer), evidence.tell(build.fits, pointer)
        budget = budgets.get(build.variant)
        first = evidence.artifact.result.builds[0].case
        named = build if build.case == first else replace(build, variant=f"{build.variant}, {build.case}")
        rows += [_binary_row(named, binary, told, place, budget) for binary in build.binaries or [None]]
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
    """Join the cases for which a variant launched the same binaries, with the same prediction."""
    rows: dict[tuple[object, ...], ExecutionRow] = {}
    for place, one in enumerate([] if evidence is None else evidence.artifact.result.executions):
        assert evidence is not None
        key = one.variant, one.predicted, *one.binary_sha256
        source = evidence.at(f"/result/executions/{place}")
        row = rows.setdefault(key, ExecutionRow(one.variant, [], one.predicted, one.binary_sha256, source))
        row.cases.append(one.case)
    return list(rows.values())


def _executed(rows: Iterable[ExecutionRow]) -> str:
    counts: Counter[str] = Counter()
    for row in rows:
        counts[row.predicted] += len(row.cases)
    return ", ".join(f"{count} {predicted}" for predicted, count in sorted(counts.items()))


def _picture(kernel: str, evidence: Evidence) -> Picture | Unavailable:
    declaration: Declaration | None = evidence.artifact.result.declaration
    precisions = {} if declaration is None else {v.id: v.precision for v in declaration.variants}
    return resources_picture(f"resources-{evidence.number}", kernel, evidence.artifact.result.builds, precisions)


def build_compilation(kernel: str, records: Records) -> Compilation:
    """Return the section of one kernel from its `compile` record, and what its `gpu` record says of the binaries."""
    evidence = records["compile"]
    result = evidence.artifact.result
    rows = _build_rows(evidence)
    loaded = evidence.tell(result.loading, "/result/loading")
    gpu = records.get("gpu")
    executions = _execution_rows(gpu)
    return Compilation(
        kernel=kernel,
        source=evidence.at("/result/builds"),
        obstacle=None if result.loading.outcome == "passed" else loaded,
        case=next((build.case for build in result.builds), ""),
        findings=_finding_rows(evidence),
        rows=rows,
        picture=_picture(kernel, evidence),
        executed=_executed(executions),
        launched=None if gpu is None else gpu.at("/result/executions"),
        executions=executions,
    )
