"""Makes sound bundles in memory, from real sources and real derivations, and then whatever a forger would make of them.

A forger edits what he likes and puts every hash right: seals, materials, links, manifests and the name. So a test that
changes one thing reaches the rule that is about that thing, and no hash gives it away.
"""

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import markupsafe
import records
from msgspec.structs import replace
from records import KERNEL_FILE, MATMUL, SOFTMAX, SOURCE, Subject

from assay import drawing, markdown
from assay.admission import HINT, Answer, chosen_device, expectation, protects, verdict_of, without_device
from assay.artifact import canonical, schema_name, seal, sha256_bytes
from assay.bag import MANIFEST, make_bag
from assay.catching import fate, saw_nothing
from assay.chain import kernel_of, place
from assay.conclusion import conclude
from assay.config import Settings, stage_settings
from assay.evidence import Evidence
from assay.findings import built, findings
from assay.instructions import local_accesses
from assay.judgement import contrasts, honoured, judge_all, normalised
from assay.mutation import mutants
from assay.naming import bag_info, bundle_name, device_of
from assay.opening import Opened, open_bytes
from assay.original import Original, TierName, build_place
from assay.page import Quoted, arranged, build_page, kernel_files, render
from assay.privacy import printable
from assay.record import (
    Artifact,
    Check,
    Claims,
    Comparison,
    Compile,
    DeclaredVariant,
    Device,
    Environment,
    Execution,
    Exposure,
    Gate,
    Gpu,
    Interpreter,
    Mutant,
    Record,
    Repeat,
    Report,
    Run,
    StageName,
    Teeth,
    Timing,
    Unavailable,
    Verdict,
    Worst,
    as_float,
)
from assay.rendering import LIBRARIES
from assay.snippets import find_snippets
from assay.sources import modules, source_digest, workflow_files
from assay.speeds import nothing_timed
from assay.stage import NEEDS, OPTIONAL, PER_KERNEL
from assay.targets import TARGETS
from assay.ustar import pack

SETTINGS = Settings(targets=["sm_75", "sm_80", "sm_90"])
PASSED = Verdict(outcome="passed", reason="the kernel file was imported and declares a kernel")
H200 = records.device()
T4 = replace(H200, name="Tesla T4", target="sm_75", compute_capability="7.5")
ERRORS = {"ieee": 1.24e-6, "tf32": 7.36e-4}
EVIDENCE: tuple[StageName, ...] = ("environment", "gate", "interpreter", "compile", "gpu", "timing", "teeth")
Edit = Callable[[Any], Any]


# Sound records: what was measured is made up, what follows from it is derived by the stages' own functions


def comparison(error: float, rule: str = "reduction") -> Comparison:
    return Comparison(
        output="c",
        rule=rule,
        shape=[256, 256],
        dtype="float32",
        elements=65536,
        past_bound=0,
        largest_error=error,
        largest_reference=120.5,
        normalised_error=normalised(error, 120.5),
        bound=records.RULES[rule],
        worst=Worst(index=[3, 5], got=1.0 + error, want=1.0, error=abs(1.0 + error - 1.0), bound=0.01),
    )


def check(variant: str, case: str, error: float, repeat: Repeat | Unavailable) -> Check:
    # The worst element's error is rounded on its way through 1 + error.
    larger = max(error, as_float(comparison(error).worst.error))
    compared = [comparison(larger, rule) for rule in records.RULES]
    return Check(
        variant=variant,
        case=case,
        seeds=SETTINGS.seeds,
        verdict=judge_all(compared),
        comparisons=compared,
        repeat=repeat,
    )


def checks(subject: Subject, errors: Mapping[str, float], repeat: Repeat | Unavailable = records.ONCE) -> list[Check]:
    return [
        check(variant.id, case, errors.get(variant.precision, 5e-8) * (1 + 0.1 * (at % 5)), repeat)
        for at, case in enumerate(subject.cases)
        for variant in subject.variants
    ]


def gate(environment: Environment) -> Gate:
    minimum = SETTINGS.gate.minimum_capability
    expected = expectation(environment, minimum)
    device = chosen_device(environment)
    has = "no NVIDIA driver" if isinstance(environment.driver, Unavailable) else "the NVIDIA driver shows no device"
    if device is not None:
        has = f"{device.name} is {device.compute_capability}; {minimum} or newer is needed"
    message = f"{has}: usable" if expected.exit_code == 0 else f"{has}; {HINT}"
    answer = Answer(expected.exit_code, message, message)
    return Gate(
        argv=["python", "-m", "assay", "gate", "--minimum-capability", minimum],
        exit_code=expected.exit_code,
        message=message,
        expected_exit_code=expected.exit_code,
        expectation=expected.sentence,
        verdict=verdict_of(answer, expected),
        protects=protects(answer, expected),
    )


def interpreter(subject: Subject) -> Interpreter:
    tried = checks(subject, {})
    gaps = contrasts(subject.declaration(), tried, gated=False)
    return Interpreter(
        loading=PASSED,
        declaration=subject.declaration(),
        checks=tried,
        canaries=records.canaries(subject, on_device=False),
        contrasts=gaps,
        precision_honoured=honoured(gaps),
    )


def compilation(subject: Subject) -> Compile:
    builds = []
    for target in SETTINGS.targets:
        for variant in subject.variants:
            made = records.build(variant, target, subject.cases[0]).binaries[0]
            stores, loads = local_accesses(made.instructions)
            figures = replace(
                made,
                shared_limit_bytes=TARGETS[target].shared_limit_bytes,
                local_store_instructions=stores,
                local_load_instructions=loads,
            )
            builds.append(built(variant, target, subject.cases[0], [figures]))
    found = findings(subject.declaration(), builds)
    return Compile(loading=PASSED, declaration=subject.declaration(), builds=builds, findings=found)


def gpu(subject: Subject, opened: Gate, device: Device | None) -> Gpu:
    if opened.protects.outcome != "passed" or device is None:
        return without_device(opened.protects)
    tried = checks(subject, ERRORS, records.SAME_BITS)
    first = subject.cases[0]
    return Gpu(
        availability=Verdict(
            outcome="passed", reason=f"ran on {device.name}, compute capability {device.compute_capability}"
        ),
        device=device,
        declaration=subject.declaration(),
        checks=tried,
        canaries=records.canaries(subject, on_device=True),
        contrasts=contrasts(subject.declaration(), tried, gated=True),
        executions=[
            Execution(
                variant=one.variant,
                case=one.case,
                binary_sha256=[records.cubin(one.variant, device.target)],
                predicted="identical" if one.case == first else "not-compiled-ahead",
            )
            for one in tried
        ],
    )


def timing(subject: Subject, opened: Gate, device: Device | None) -> Timing:
    if opened.protects.outcome != "passed" or device is None:
        return nothing_timed(opened.protects)
    return records.timing(subject, device, SETTINGS.timing)


def teeth(original: Original, text: str) -> Teeth:
    """Plant the four faults of the kernel file that all forgeries have: one of each fate."""
    first, differs = original.trials("interpreter")[0], build_place(*_names(original.rebuilds[0]))
    wrong = Verdict(outcome="failed", cause="wrong-value", reason="an element is past its bound")
    raised = Verdict(outcome="failed", cause="compile-error", reason="kernels/matmul.py:6: CompilationError: no")
    seen: dict[TierName, int] = {tier: len(original.trials(tier)) for tier in original.tiers}
    seen["compile"] = len(original.samples())
    nothing = [
        Exposure(tier=tier, place="*", verdict=saw_nothing(tier, seen[tier]), passed=seen[tier])
        for tier in original.tiers
    ]
    place_ = f"{first[1]} {first[0].id}"
    of: list[tuple[list[Exposure], str | None]] = [
        ([Exposure(tier="interpreter", place=place_, verdict=wrong, passed=0)], None),
        (nothing, differs),
        (nothing[:2], None),
        (
            [
                Exposure(tier="interpreter", place=place_, verdict=raised, passed=0),
                Exposure(tier="compile", place=differs, verdict=raised, passed=0),
            ],
            None,
        ),
    ]
    return Teeth(
        loading=original.loading,
        device=original.device,
        tiers=original.tiers,
        mutants=[
            Mutant(
                operator=mutation.operator,
                line=mutation.line,
                source=mutation.source,
                replacement=mutation.replacement,
                sha256=sha256_bytes(mutation.text.encode()),
                outcome=fate(exposures, other),
                exposures=exposures,
                baseline=Verdict(outcome="passed", reason="2 variants are within the bound"),
                differs=other,
            )
            for mutation, (exposures, other) in zip(mutants(text), of, strict=True)
        ],
    )


def _names(build: tuple[DeclaredVariant, str, str]) -> tuple[str, str, str]:
    return build[0].id, build[1], build[2]


def sound_results(found: Device | None, subjects: Sequence[Subject], bitten: bool = False) -> dict[str, Record]:
    """Return the result of every record that claims are derived from, by path."""
    environment = records.environment(found)
    versions = {name: version(name) for name in (*LIBRARIES, *drawing.LIBRARIES)}
    processor = replace(environment.cpu, architecture=platform.machine())
    environment = replace(environment, distributions={**environment.distributions, **versions}, cpu=processor)
    answer = gate(environment)
    results: dict[str, Record] = {place("environment"): environment, place("gate"): answer}
    for subject in subjects:
        results[place("interpreter", subject.name)] = interpreter(subject)
        results[place("compile", subject.name)] = compilation(subject)
        results[place("gpu", subject.name)] = gpu(subject, answer, found)
        results[place("timing", subject.name)] = timing(subject, answer, found)
        if bitten:
            original = Original(interpreter(subject), compilation(subject), gpu(subject, answer, found))
            results[place("teeth", subject.name)] = teeth(original, KERNEL_FILE.format(name=subject.name))
    return results


@cache
def _project() -> Mapping[str, bytes]:
    """Return the project's own sources, the kernels apart."""
    return {path.as_posix(): path.read_bytes() for path in workflow_files() if path.parts[0] != "kernels"}


def with_value(tree: Any, keys: Sequence[str], value: Any) -> Any:
    """Return a record, list or dictionary with another value at a place in it; a function gets the value there."""
    if not keys:
        return value(tree) if callable(value) else value
    key, *rest = keys
    if isinstance(tree, list):
        at = int(key)
        return [*tree[:at], with_value(tree[at], rest, value), *tree[at + 1 :]]
    if isinstance(tree, dict):
        return {**tree, key: with_value(tree.get(key), rest, value)}
    return replace(tree, **{key: with_value(getattr(tree, key), rest, value)})


# Bundles


@dataclass
class Forge:
    """One bundle in the making.

    `edits` change an artifact by its path before it is sealed, `last` the payload before it is bagged; `root` and
    `info` stand in for the name and the labels that the content calls for.
    """

    results: dict[str, Record]
    sources: dict[str, bytes]
    settings: Settings = SETTINGS
    edits: dict[str, list[Edit]] = field(default_factory=dict)
    last: list[Callable[[dict[str, bytes]], object]] = field(default_factory=list)
    root: str | None = None
    info: dict[str, str] | None = None
    rendered: bool = False

    def put(self, pointer: str, value: Any) -> "Forge":
        """Put a value in the place of another: `pointer` is path and JSON pointer, such as results/gate.json/kernel."""
        path, _, place_ = pointer.partition(".json/")
        keys = place_.split("/")
        return self.change(f"{path}.json", lambda artifact: with_value(artifact, keys, value))

    def change(self, path: str, edit: Edit) -> "Forge":
        """Change a record, envelope and all."""
        self.edits.setdefault(path, []).append(edit)
        return self

    def at_last(self, edit: Callable[[dict[str, bytes]], object]) -> "Forge":
        """Change the finished payload, before it is bagged."""
        self.last.append(edit)
        return self

    def _artifact(self, path: str, stage: StageName, result: Record, digests: Mapping[str, str]) -> Artifact[Any]:
        kernel = path.split("/")[1] if stage in (*PER_KERNEL, *OPTIONAL) else None
        named = [place(need, kernel) for need in NEEDS[stage]]
        named += [f"kernels/{kernel}.py"] if kernel else []
        named += [source.as_posix() for source in modules(stage)]
        if stage in ("claims", "report"):
            named += [name for name in digests if name.startswith("results/")]
        if stage == "report":
            named += [name for name in digests if name.startswith(("reports/", "kernels/"))]
        words = ["python", "-m", "assay", stage, "--settings", stage_settings(self.settings, stage), "--out", path]
        made = Artifact(
            schema=schema_name(stage),
            stage=stage,
            kernel=kernel,
            materials={name: digests[name] for name in sorted(set(named))},
            command=words,
            run=Run(started="2026-11-29T10:00:00Z", duration_ns=1500000000, exit_code=0),
            result=result,
        )
        for edit in self.edits.get(path, []):
            made = edit(made)
        return seal(made)

    def _claims(self, artifacts: dict[str, Artifact[Any]], digests: Mapping[str, str]) -> Claims:
        minimum = self.settings.gate.minimum_capability
        evidence = {path: replace(record, kernel=kernel_of(path)) for path, record in artifacts.items()}
        status, claims = conclude(evidence, digests, self.settings.targets, minimum)
        return Claims(status=status, claims=claims, source=replace(SOURCE, digest=source_digest(digests)))

    def _pages(self, artifacts: dict[str, Artifact[Any]], digests: Mapping[str, str]) -> tuple[bytes, bytes]:
        """Return the report's pages; those that are not `rendered`, which takes its time, have the status alone."""
        if not self.rendered:
            sentence = printable(artifacts[place("claims")].result.status.sentence)
            return f"<p>{markupsafe.escape(sentence)}</p>".encode(), markdown.escape(sentence).encode()
        paths = [Path(path) for path, record in artifacts.items() if record.stage != "claims"]
        ordered = [path.as_posix() for path in arranged(paths)] + [place("claims")]
        shown = [Evidence(n, path, digests[path], artifacts[path]) for n, path in enumerate(ordered, 1)]
        files = [path.as_posix() for path in kernel_files(shown)]
        quoted = [Quoted(name, digests[name], find_snippets(self.sources[name])) for name in files]
        return render(build_page(shown[:-1], shown[-1], quoted))

    def payload(self) -> dict[str, bytes]:
        """Return all files, every digest in order."""
        files = dict(self.sources)
        digests = {name: sha256_bytes(data) for name, data in files.items()}
        artifacts: dict[str, Artifact[Any]] = {}

        def put(path: str, stage: StageName, result: Record) -> None:
            artifacts[path] = self._artifact(path, stage, result, digests)
            files[path] = canonical(artifacts[path])
            digests[path] = sha256_bytes(files[path])

        for stage in EVIDENCE:
            for path in [path for path in self.results if path.endswith(f"/{stage}.json")]:
                put(path, stage, self.results[path])
        put(place("claims"), "claims", self._claims(artifacts, digests))
        pages = dict(zip(("results/report.html", "results/report.md"), self._pages(artifacts, digests), strict=True))
        outputs = {page: sha256_bytes(data) for page, data in pages.items()}
        put(place("report"), "report", Report(status=artifacts[place("claims")].result.status, outputs=outputs))
        files |= pages
        for edit in self.last:
            edit(files)
        self._labels = (artifacts[place("claims")], artifacts[place("environment")].result)
        return files

    def members(self) -> dict[str, bytes]:
        """Return the members of the archive: a bag with the name that its content calls for."""
        payload = self.payload()
        claims, environment = self._labels
        day, status = claims.run.started[:10], claims.result.status
        bag = make_bag(payload, bag_info(status, day) if self.info is None else self.info)
        name = bundle_name(status.overall, device_of(environment), day, sha256_bytes(bag[MANIFEST]))
        return {f"{self.root or name}/{path}": data for path, data in bag.items()}

    def archive(self) -> bytes:
        return pack(self.members())

    def opened(self) -> Opened:
        return open_bytes(self.archive(), "forged.tar")


def forge(
    found: Device | None = None,
    subjects: Sequence[Subject] = (MATMUL, SOFTMAX),
    *,
    rendered: bool = False,
    bitten: bool = False,
) -> Forge:
    """Return a sound bundle of a machine with this device, to do with what one likes; `bitten`: with planted faults."""
    kernels = {f"kernels/{one.name}.py": KERNEL_FILE.format(name=one.name).encode() for one in subjects}
    return Forge(sound_results(found, subjects, bitten), {**_project(), **kernels}, rendered=rendered)
