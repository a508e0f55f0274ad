"""Small, complete sets of records made with the real types: a machine without a GPU, and one with an H200.

`Tree` writes them under a folder as the stages would, so that what reads records can be tried on real files.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from assay import speeds
from assay.artifact import canonical, schema_name, seal, sha256_bytes, sha256_file, write_bytes
from assay.config import TimingSettings
from assay.evidence import Evidence
from assay.judgement import asked, exempt
from assay.rates import ceiling
from assay.record import (
    Acceptance,
    Accuracy,
    Artifact,
    Binary,
    Build,
    Canary,
    Cause,
    CeilingName,
    Check,
    Claim,
    Claims,
    Comparison,
    Compile,
    Conditions,
    Contrast,
    Cost,
    Cpu,
    Declaration,
    DeclaredVariant,
    Device,
    Driver,
    Environment,
    Equivalent,
    Execution,
    Exposure,
    Finding,
    Gate,
    Gpu,
    Inputs,
    Instructions,
    Interpreter,
    Link,
    Mutant,
    Number,
    Outcome,
    Precompiled,
    Python,
    Record,
    Repeat,
    Row,
    Run,
    Source,
    StageName,
    Status,
    System,
    Teeth,
    Tier,
    TimedInput,
    Timing,
    Unavailable,
    Verdict,
    Worst,
)
from assay.rounding import PROBES, TF32_FRACTION_BITS, canary, round_to
from assay.sampling import AGAIN, Entrant, Problem, twin_of
from assay.speeds import Entry, Measured, Terms, derive, launch_cost, nothing_timed

ROOT = Path(__file__).parents[1]
TARGETS = ("sm_75", "sm_80", "sm_90")
PRECISIONS = ("ieee", "tf32")
CONFIGURATIONS = ("64x64x32", "128x64x64")
CASES = ("aligned-256x256x1024", "ragged-197x131x77")
PASSED = Verdict(outcome="passed", reason="within the bound")
NO_DRIVER = Verdict(outcome="untested", cause="no-driver", reason="no NVIDIA driver: libcuda.so.1 cannot be loaded")
UNREAD = Unavailable(reason="Not Supported")
ONCE = Unavailable(reason="launched once: the interpreter runs programs in one order")
SAME_BITS = Repeat(differing=0, elements=65536, settled=True, atomics=0)
RULES = {
    "reduction": "|got - want| <= 0.01 + 1e-05 |want|; K = 1024 terms",
    "componentwise": "|got - want| <= tau (|A||B|); tau = 7.63e-06 for K = 1024 terms",
}
SOURCE = Source(commit="0f558cf" + "0" * 33, dirty=False, digest=sha256_bytes(b"workflow"))

KERNEL_FILE = """import triton

# snippet: {name}-kernel
@triton.jit
def {name}_kernel(x_ptr):
    # snippet: {name}-load
    x = load(x_ptr, other="<b>")
    # end snippet
    store(x_ptr, x)
# end snippet
"""


def device(name: str = "NVIDIA H200") -> Device:
    return Device(
        name=name,
        target="sm_90",
        compute_capability="9.0",
        uuid_hash=sha256_bytes(b"uuid"),
        visible=True,
        memory_bytes=150754820096,
        vbios="96.00.A0.00.01",
        ecc=True,
        mig=False,
        persistence=UNREAD,
        power_limit_milliwatts=700000,
        maximum_sm_clock_mhz=1980,
        maximum_memory_clock_mhz=3201,
    )


def environment(found: Device | None) -> Environment:
    missing = Unavailable(reason="no NVIDIA driver: libcuda.so.1 cannot be loaded")
    driver = Driver(version="580.159.04", cuda="13.0", nvml="13.580.159.04")
    return Environment(
        driver=driver if found else missing,
        devices=[found] if found else missing,
        cpu=Cpu(model="AMD EPYC 9554", architecture="x86_64", logical_cores=16, memory_bytes=137438953472),
        system=System(kernel="Linux", release="6.8.0", distribution="Ubuntu 24.04", libc="2.39", host_hash=UNREAD),
        python=Python(implementation="CPython", version="3.12.3"),
        distributions={"torch": "2.11.0", "triton": "3.6.0", "Jinja2": "3.1.6", "wheel": "0.45.1"},
        variables={"TRITON_INTERPRET": "1"},
        assemblers={"ptxas": "12.9.86", "ptxas-blackwell": UNREAD},
        torch_rocm=Unavailable(reason="torch is built without ROCm"),
        torch_cuda="13.0" if found else Unavailable(reason="torch is built without CUDA"),
        source=SOURCE,
    )


@dataclass(frozen=True)
class Subject:
    """One kernel to make records of. `rules` maps the name of each of its bounds to the bound in words."""

    name: str
    title: str
    precisions: Sequence[str] = PRECISIONS
    configurations: Sequence[str] = CONFIGURATIONS
    cases: Sequence[str] = CASES
    timed: str = "2048x2048x2048"
    peers: Mapping[str, str] = field(default_factory=lambda: {"cuBLAS fp32": "ieee", "cuBLAS tf32": "tf32"})
    rules: Mapping[str, str] = field(default_factory=lambda: RULES)
    exemptions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    once: Sequence[str] = ()
    dot: bool = False
    searched: bool = False

    @property
    def variants(self) -> list[DeclaredVariant]:
        return [
            DeclaredVariant(
                id=f"{precision}/{configuration}",
                precision=precision,
                configuration=configuration,
                minimum_capability=None,
                stack_budget_bytes=16,
                searched=self.searched,
            )
            for precision in self.precisions
            for configuration in self.configurations
        ]

    @property
    def contrasts(self) -> list[tuple[str, str]]:
        return [("ieee", "tf32")] if "tf32" in self.precisions else []

    def declaration(self) -> Declaration:
        return Declaration(
            title=self.title,
            variants=self.variants,
            cases=list(self.cases),
            timed=[self.timed],
            contrasts=self.contrasts,
            exemptions={case: dict(reasons) for case, reasons in self.exemptions.items()},
            once=list(self.once),
            dot=self.dot,
            rules={rule: f"who found the {rule} rule" for rule in self.rules},
            ceilings={precision: RUNS_INTO[precision] for precision in self.precisions if precision in RUNS_INTO},
        )


MATMUL = Subject("matmul", "Matrix product, float32", dot=True)
SOFTMAX = Subject(
    "softmax",
    "Row softmax, float32",
    ("f32",),
    ("warps8",),
    ("aligned-2048x1024", "ragged-64x781"),
    "2048x1024",
    {"torch.softmax": "f32"},
    {"reduction": RULES["reduction"], "ulp": "|got - want| <= 23.2 ulp(want)"},
)


def comparison(error: Number = 1.24e-6, bound: str = RULES["reduction"], rule: str = "reduction") -> Comparison:
    return Comparison(
        output="c",
        rule=rule,
        shape=[256, 256],
        dtype="float32",
        elements=65536,
        past_bound=0,
        largest_error=error,
        largest_reference=120.5,
        normalised_error=error,
        bound=bound,
        worst=Worst(index=[3, 5], got=1.0000001, want=1.0, error=error, bound=0.01),
    )


def check(subject: Subject, variant: DeclaredVariant, case: str, error: float, repeat: Repeat | Unavailable) -> Check:
    """Return a check that passed under every rule, or one of which the kernel is exempt."""
    free = exempt(subject.declaration(), case, variant.precision)
    return Check(
        variant=variant.id,
        case=case,
        seeds=[20260901, 7],
        verdict=free or PASSED,
        comparisons=[] if free else [comparison(error, words, rule) for rule, words in subject.rules.items()],
        repeat=ONCE if free else repeat,
    )


def checks(subject: Subject, error: Mapping[str, float], repeat: Repeat | Unavailable = ONCE) -> list[Check]:
    return [
        check(subject, variant, case, error.get(variant.precision, 5e-8) * (1 + 0.1 * place), repeat)
        for variant in subject.variants
        for place, case in enumerate(subject.cases)
        if variant in asked(subject.declaration(), case)
    ]


def readings(precision: str) -> list[float]:
    """Return what a multiplier lets through: tf32 rounds to nearest, ties away, and any other keeps everything."""
    rounded = [round_to(probe, TF32_FRACTION_BITS, "nearest-away") for probe in PROBES]
    return rounded if precision == "tf32" else list(PROBES)


def canaries(subject: Subject, on_device: bool) -> list[Canary]:
    operands: tuple[Literal["left", "right"], ...] = ("left", "right")
    return [
        canary(variant.id, operand, readings(variant.precision if on_device else "ieee"), on_device)
        for variant in subject.variants
        for operand in operands
        if subject.dot
    ]


def contrasts(subject: Subject, ratio: float) -> list[Contrast]:
    return [
        Contrast(
            case=subject.cases[0],
            configuration=configuration,
            reference=reference,
            lesser=lesser,
            reference_error=1.24e-6,
            lesser_error=1.24e-6 * ratio,
            ratio=ratio,
            honoured=ratio > 1,
            verdict=Verdict(outcome="passed", reason=f"the error grew by {ratio:g}"),
        )
        for reference, lesser in subject.contrasts
        for configuration in subject.configurations
    ]


def interpreter(subject: Subject) -> Interpreter:
    return Interpreter(
        loading=PASSED,
        declaration=subject.declaration(),
        checks=checks(subject, {}),
        canaries=canaries(subject, on_device=False),
        contrasts=contrasts(subject, 1.0),
        precision_honoured=False,
    )


def cubin(variant: str, target: str) -> str:
    return sha256_bytes(f"{variant} {target}".encode())


def build(variant: DeclaredVariant, target: str, case: str) -> Build:
    tensor = variant.precision != "ieee" and target != "sm_75"
    binary = Binary(
        function="kernel",
        assembly_sha256=sha256_bytes(b"ptx"),
        binary_sha256=cubin(variant.id, target),
        registers=168,
        stack_bytes=0,
        local_store_instructions=2,
        local_load_instructions=3,
        shared_bytes=73728,
        shared_limit_bytes=65536 if target == "sm_75" else 232448,
        tensor_memory_columns=0,
        instructions=Instructions(assembly={"wgmma.tf32": 16} if tensor else {"fma.f32": 4096}, machine={"ffma": 4096}),
    )
    fits = Verdict(outcome="passed", reason="73728 of 232448 B of shared memory")
    if target == "sm_75":
        reason = "kernel needs 73728 B of shared memory; a block on sm_75 has 65536 B"
        fits = Verdict(outcome="inapplicable", cause="does-not-fit", reason=reason)
    return Build(variant=variant.id, target=target, case=case, compiled=PASSED, fits=fits, binaries=[binary])


def finding(precision: str, target: str) -> Finding:
    tensor = precision != "ieee" and target != "sm_75"
    said = "takes the tensor cores (wgmma.tf32)" if tensor else "uses no tensor-core instructions"
    verdict = Verdict(outcome="passed", reason="as the precision promises")
    return Finding(precision=precision, target=target, statement=f"{precision} on {target} {said}", verdict=verdict)


def compilation(subject: Subject, targets: Sequence[str]) -> Compile:
    return Compile(
        loading=PASSED,
        declaration=subject.declaration(),
        builds=[build(variant, target, subject.cases[0]) for target in targets for variant in subject.variants],
        findings=[finding(precision, target) for target in targets for precision in subject.precisions],
    )


def gate(found: Device | None) -> Gate:
    said = f"{found.name} is 9.0: usable" if found else "no NVIDIA driver; TRITON_INTERPRET=1 runs without a GPU"
    return Gate(
        argv=["python", "-m", "assay", "gate"],
        exit_code=0 if found else 1,
        message=said,
        expected_exit_code=0 if found else 1,
        expectation="a usable device was captured" if found else "no device was captured",
        verdict=Verdict(outcome="passed", reason="the gate answered as the captured device calls for"),
        protects=PASSED if found else NO_DRIVER,
    )


def gpu(subject: Subject, found: Device | None) -> Gpu:
    if found is None:
        return Gpu(
            availability=NO_DRIVER,
            device=None,
            declaration=None,
            checks=[],
            canaries=[],
            contrasts=[],
            executions=[],
        )
    return Gpu(
        availability=PASSED,
        device=found,
        declaration=subject.declaration(),
        checks=checks(subject, {"ieee": 1.24e-6, "tf32": 7.36e-4}, SAME_BITS),
        canaries=canaries(subject, on_device=True),
        contrasts=contrasts(subject, 594.0),
        executions=[
            Execution(variant=v.id, case=case, binary_sha256=[cubin(v.id, found.target)], predicted="identical")
            for v in subject.variants
            for case in subject.cases
        ],
    )


def conditions(clock: int = 1980) -> Conditions:
    return Conditions(
        sm_clock_mhz=clock,
        memory_clock_mhz=3201,
        temperature_celsius=41,
        power_milliwatts=312500,
        event_reasons=0x4,
        other_processes=UNREAD,
    )


ROUNDS = 21
CEILINGS = (
    ceiling("copy", "Tensor.copy_ of 1 GiB", 2**31, [504000.0, 503500.0, 503900.0]),
    ceiling("fp32", "independent fused multiply-adds in registers", 2**37, [2250000.0, 2251000.0]),
    ceiling("tf32", "torch.mm, 4096 cubed", 2**37, [335000.0, 334000.0]),
    ceiling("bf16", "torch.mm, 4096 cubed", 2**37, [171000.0, 170000.0]),
)
LAUNCHES_NS = [2900.0, 2880.0, 2940.0]
RUNS_INTO: dict[str, tuple[CeilingName, int]] = {"ieee": ("fp32", 1), "tf32": ("tf32", 1)}


def entry(entrant: Entrant, median_ns: float, host_ns: float = 2000.0, apart: float = 0.0) -> Entry:
    """Return one entrant's samples, within 0.1% of whole nanoseconds; replays take `host_ns` less than events.

    Twins lie `apart` from each other, up and down in turn.
    """
    moved = [1 + 0.0001 * (at * 8 % ROUNDS - 10) + apart * (at % 3 - 1) for at in range(ROUNDS)]
    samples = [float(round(median_ns * factor)) for factor in moved]
    ours = entrant.kind != "peer"
    return Entry(
        entrant=entrant,
        verdict=Verdict(outcome="passed", reason="timed"),
        samples_ns=samples,
        replays_ns=[sample - host_ns for sample in samples],
        screen_ns=[],
        accuracy=Accuracy(normwise=3.1e-7, largest=1.2e-6) if ours else Unavailable(reason="nothing is claimed of it"),
        binary_sha256=[cubin(entrant.name.removesuffix(AGAIN), "sm_90")] if ours else [],
        launches=3,
    )


def measured(entries: Sequence[Entry], size: str = "2048x2048x2048", seed: int = 20260901) -> Measured:
    """Return one size that ended precise, with the card at its power limit."""
    names = {"x": [2048, 2048], "y": [2048, 2048]}
    tensors = [
        TimedInput(name=name, shape=shape, dtype="float32", mean=0.0005, deviation=1.0, zeros=0, elements=2**22)
        for name, shape in names.items()
    ]
    return Measured(
        problem=Problem(size=size, dimensions={"m": 2048, "n": 2048, "k": 2048}, flops=2**34, bytes=3 * 2**24),
        inputs=Inputs(seed=seed, sets=5, set_bytes=3 * 2**24, cache_bytes=60 * 2**20, tensors=tensors),
        entries=entries,
        rounds=[conditions(1980 - 10 * (at % 8)) for at in range(ROUNDS)],
        ended="precise",
        cost=Cost(device_ns=2600000000, sampling_ns=2100000000),
    )


def terms(
    settings: TimingSettings | None = None,
    maximum_sm_clock_mhz: int | Unavailable = 1980,
    contrasts: Sequence[tuple[str, str]] = (),
) -> Terms:
    return Terms(
        settings=settings or TimingSettings(),
        maximum_sm_clock_mhz=maximum_sm_clock_mhz,
        launch=launch_cost(LAUNCHES_NS),
        ceilings=CEILINGS,
        runs_into=RUNS_INTO,
        contrasts=contrasts,
    )


def row(entrant: str, kind: Any, precision: str, median_ns: float, host_ns: float = 2000.0) -> Row:
    """Return the row of one entrant alone."""
    configuration = entrant.partition("/")[2] or None
    one = Entrant(name=entrant, kind=kind, precision=precision, configuration=configuration)
    return speeds.row(entry(one, median_ns, host_ns), measured([]), terms(), range(ROUNDS))


def entries_of(subject: Subject) -> list[Entry]:
    """Return all variants of a kernel, each slower than the one before, its peers, and its first variant once more."""
    times, peers = {"ieee": 404000.0, "tf32": 222000.0}, {"ieee": 349000.0, "tf32": 50400.0}
    entrants = [
        Entrant(name=v.id, kind="variant", precision=v.precision, configuration=v.configuration, searched=v.searched)
        for v in subject.variants
    ]
    found = [entry(one, times.get(one.precision, 300000.0) * (1 + 0.15 * place)) for place, one in enumerate(entrants)]
    for name, precision in subject.peers.items():
        peer = Entrant(name=name, kind="peer", precision=precision, configuration=None)
        found.append(entry(peer, peers.get(precision, 50400.0)))
    return [*found, entry(twin_of(entrants[0]), times.get(entrants[0].precision, 300000.0), apart=0.0001)]


def timing(subject: Subject, found: Device | None, settings: TimingSettings | None = None) -> Timing:
    if found is None:
        return nothing_timed(NO_DRIVER)
    decided = terms(settings, found.maximum_sm_clock_mhz, subject.contrasts)
    return Timing(
        availability=PASSED,
        device=found,
        precompiled=Precompiled(launches=4, workers=2, duration_ns=8000000000),
        launches_ns=LAUNCHES_NS,
        launch=decided.launch,
        ceilings=list(CEILINGS),
        sweeps=[derive(measured(entries_of(subject), subject.timed), decided)],
    )


def mutant(
    operator: str,
    outcome: Literal["caught", "survived", "equivalent", "accepted", "invalid"],
    exposures: Sequence[Exposure] = (),
    baseline: Verdict = PASSED,
    line: int = 6,
) -> Mutant:
    return Mutant(
        operator=operator,
        line=line,
        source=f"x = load(x_ptr, {operator}=1)",
        replacement=f"x = load(x_ptr, {operator}=2)",
        sha256=sha256_bytes(f"{operator} {line}".encode()),
        outcome=outcome,
        exposures=list(exposures),
        baseline=baseline,
    )


def exposure(
    tier: Literal["interpreter", "compile", "gpu"], cause: Cause | None, place: str = "ieee/64x64x32 ragged-197x131x77"
) -> Exposure:
    """Return what a tier made of a fault: it caught it where a cause is given."""
    caught = None if cause is None else Verdict(outcome="failed", cause=cause, reason=f"it was {cause}")
    return Exposure(tier=tier, place=place, verdict=caught or PASSED)


def teeth(found: Device | None = None) -> Teeth:
    """Return nine planted faults: five caught, one that the reference's way sees too, and one of each other fate."""
    wrong = Verdict(outcome="failed", cause="wrong-value", reason="it was wrong-value")
    of_gpu = [exposure("gpu", None)] if found else []
    return Teeth(
        loading=PASSED,
        device=found,
        tiers=["compile", "interpreter", *(["gpu"] if found else [])],  # type: ignore[list-item]
        mutants=[
            mutant("drop-mask", "caught", [exposure("interpreter", "poison-read")]),
            mutant("drop-other", "caught", [exposure("interpreter", "undefined-read")], line=7),
            mutant("swap-strides", "caught", [exposure("interpreter", "wrong-value")], wrong, line=8),
            mutant("store-neighbour", "caught", [exposure("interpreter", "out-of-bounds-write")], line=9),
            mutant("input-precision", "caught", [exposure("compile", "instructions", "tf32/64x64x32 sm_90")], line=10),
            mutant("int64-to-int32", "survived", [exposure("interpreter", None), *of_gpu], line=11),
            mutant("constant", "equivalent", line=12),
            mutant("wrong-axis", "invalid", [exposure("interpreter", "exception")], line=13),
            mutant("change-initial", "accepted", [exposure("interpreter", None), *of_gpu], line=14),
        ],
        acceptances=[acceptance("change-initial", 8)],
    )


def acceptance(operator: str, *places: int, why: str = "it is scaled by 0") -> Acceptance:
    """Return the author's word on one operator in a line, about the faults at these places."""
    word = Equivalent(operators=[operator], source=f"x = load(x_ptr, {operator}=1)", why=why)
    return Acceptance(equivalent=word, mutants=list(places))


def claim(
    kernel: str = "matmul",
    variant: str = "ieee/64x64x32",
    tier: Tier = "accurate",
    target: str | None = "sm_90",
    outcome: Outcome = "passed",
    cause: Cause | None = None,
    reason: str = "9 of 9 cases passed",
    links: Iterable[Link] = (),
) -> Claim:
    return Claim(
        kernel=kernel,
        variant=variant,
        tier=tier,
        target=target,
        sentence=f"{kernel}/{variant}: {tier}",
        outcome=outcome,
        cause=cause,
        reason=reason,
        figures={"cases": 9.0},
        freshness="current",
        links=list(links),
    )


def status(claims: Sequence[Claim], sentence: str = "") -> Status:
    outcomes: tuple[Outcome, ...] = ("passed", "failed", "cantTell", "inapplicable", "untested")
    counts: dict[Outcome, int] = {o: sum(c.outcome == o for c in claims) for o in outcomes}
    overall: Any = "FAILED" if counts["failed"] else "PARTIALLY VERIFIED" if counts["untested"] else "VERIFIED"
    return Status(overall=overall, sentence=sentence or f"{counts['passed']} claims are verified.", counts=counts)


def claims_of(subject: Subject, targets: Sequence[str], found: Device | None) -> list[Claim]:
    made = []
    for variant in (v.id for v in subject.variants):
        made.append(claim(subject.name, variant, "interpreted", None))
        for target in targets:
            made.append(claim(subject.name, variant, "compiled", target, reason="compiled, 1 device function(s)"))
            too_large: dict[str, Any] = {"outcome": "inapplicable", "cause": "does-not-fit", "reason": "needs 73728 B"}
            made.append(claim(subject.name, variant, "fits", target, **(too_large if target == "sm_75" else {})))
            for tier in ("ran", "accurate", "timed"):
                absent: dict[str, Any] = {
                    "outcome": "untested",
                    "cause": "no-device",
                    "reason": f"no {target} device here",
                }
                shown = found is not None and found.target == target
                made.append(claim(subject.name, variant, tier, target, **({} if shown else absent)))
    return made


@dataclass
class Tree:
    """Records on disk under `folder`, which has the kernel files, the package and the templates beside them."""

    folder: Path
    subjects: Sequence[Subject] = (MATMUL, SOFTMAX)
    found: Device | None = None
    targets: Sequence[str] = TARGETS
    teeth: bool = False
    paths: list[str] = field(default_factory=list)

    def lay_out(self) -> "Tree":
        """Write everything, the claims last."""
        for name in ("assay", "reports"):
            (self.folder / name).symlink_to(ROOT / name)
        (self.folder / "kernels").mkdir()
        self.evidence("environment", None, environment(self.found))
        self.evidence("gate", None, gate(self.found))
        for subject in self.subjects:
            kernel = self.folder / "kernels" / f"{subject.name}.py"
            kernel.write_text(KERNEL_FILE.format(name=subject.name))
            self.evidence("interpreter", subject.name, interpreter(subject))
            self.evidence("compile", subject.name, compilation(subject, self.targets))
            self.evidence("gpu", subject.name, gpu(subject, self.found))
            self.evidence("timing", subject.name, timing(subject, self.found))
            if self.teeth:
                self.evidence("teeth", subject.name, teeth(self.found))
        self.claim([c for subject in self.subjects for c in claims_of(subject, self.targets, self.found)])
        return self

    def evidence(self, stage: StageName, kernel: str | None, result: Record) -> None:
        """Write one record."""
        path = f"results/{kernel}/{stage}.json" if kernel else f"results/{stage}.json"
        materials = ["assay/__init__.py", *([f"kernels/{kernel}.py"] if kernel else [])]
        self.put(path, stage, kernel, result, materials)
        self.paths.append(path)

    def claim(self, claims: Sequence[Claim], sentence: str = "") -> None:
        """Write claims that link to the gate's record, with the gate's own among them."""
        link = Link(
            artifact="results/gate.json", sha256=sha256_file(self.folder / "results/gate.json"), pointer="/result"
        )
        gated = claim("*", "*", "gated", None, reason="the gate answered as it should", links=[link])
        made = [gated, *claims]
        result = Claims(status=status(made, sentence), claims=made, source=SOURCE)
        self.put("results/claims.json", "claims", None, result, self.paths)

    def put(self, path: str, stage: StageName, kernel: str | None, result: Record, materials: Sequence[str]) -> None:
        """Seal a result in its envelope and write it."""
        artifact = Artifact(
            schema=schema_name(stage),
            stage=stage,
            kernel=kernel,
            materials={name: sha256_file(self.folder / name) for name in materials},
            command=["python", "-m", "assay", stage, "--settings", '{"seeds":[7]}'],
            run=Run(started="2026-11-29T10:00:00Z", duration_ns=1500000000, exit_code=0),
            result=result,
        )
        write_bytes(self.folder / path, canonical(seal(artifact)))

    def options(self) -> list[str]:
        """Return the options that name every record."""
        return [word for path in self.paths for word in ("--record", path)]


def evidence(stage: StageName, result: Record, kernel: str | None = None, number: int = 1) -> Evidence:
    """Return a record as it would be found on disk, without a disk."""
    artifact: Artifact[Any] = seal(
        Artifact(
            schema=schema_name(stage),
            stage=stage,
            kernel=kernel,
            materials={},
            command=["python", "-m", "assay", stage],
            run=Run(started="2026-11-29T10:00:00Z", duration_ns=1, exit_code=0),
            result=result,
        )
    )
    path = f"results/{kernel}/{stage}.json" if kernel else f"results/{stage}.json"
    return Evidence(number, path, sha256_bytes(canonical(artifact)), artifact)


def evidence_of(subject: Subject, found: Device | None, targets: Sequence[str] = TARGETS) -> list[Evidence]:
    """Return the records of one kernel."""
    results: dict[StageName, Record] = {
        "interpreter": interpreter(subject),
        "compile": compilation(subject, targets),
        "gpu": gpu(subject, found),
        "timing": timing(subject, found),
    }
    return [evidence(stage, result, subject.name, place) for place, (stage, result) in enumerate(results.items(), 1)]


def replaced(record: Any, **changes: Any) -> Any:
    """Return a record with some fields changed."""
    return msgspec.structs.replace(record, **changes)
