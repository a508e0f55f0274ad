"""The types of every artifact, each declared once.

A record says what a stage found. Absence is a value with a reason (`Unavailable`, `NonFinite`), never 0, NaN or an
empty string. Units stand in the field names. Decoding and encoding live in `assay.artifact`.
"""

import math
from typing import Annotated, Any, Generic, Literal, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType, field

SCHEMA_VERSION = 1

# The patterns mean the same to Python and in the published schemas (ECMA 262): `[0-9]` is ASCII to both, and to Python
# `$` alone would also stand before a last line feed.
Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$(?!\n)", description="sha256, lower-case hexadecimal")]
Pointer = Annotated[str, Meta(pattern=r"^(/.*)?$(?!\n)", description="JSON pointer, RFC 6901")]
Instant = Annotated[
    str,
    Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$(?!\n)", description="UTC, whole seconds"),
]
Count = Annotated[int, Meta(ge=0, le=2**53 - 1)]
Capability = Annotated[
    str, Meta(pattern=r"^[0-9]{1,3}\.[0-9]{1,3}$(?!\n)", description="CUDA compute capability, such as 9.0")
]

Outcome = Literal["passed", "failed", "cantTell", "inapplicable", "untested"]
"""The five outcomes of W3C EARL 1.0 (https://www.w3.org/TR/EARL10-Schema/#outcome)."""

Cause = Literal[
    "no-driver",
    "no-device",
    "capability",
    "does-not-fit",
    "unsupported-dtype",
    "unsupported-precision",
    "unsupported-operation",
    "autotuned",
    "import-error",
    "declaration",
    "compile-error",
    "launch-failed",
    "exception",
    "timeout",
    "crash",
    "wrong-value",
    "not-finite",
    "poison-read",
    "undefined-read",
    "false-promise",
    "wrong-shape",
    "not-written",
    "out-of-bounds-write",
    "input-changed",
    "precision",
    "rounding",
    "race",
    "stale-result",
    "unordered",
    "over-budget",
    "instructions",
    "binary-differs",
    "gate-disagrees",
    "speed",
    "throttled",
    "noise",
    "policy",
    "upstream",
    "not-measured",
    "survivors",
    "pruned",
    "over-ceiling",
]

CeilingName = Literal["copy", "fp32", "tf32", "bf16"]
Tier = Literal["interpreted", "compiled", "fits", "gated", "ran", "accurate", "timed", "teeth"]
Overall = Literal["VERIFIED", "PARTIALLY VERIFIED", "FAILED", "NOT VERIFIED"]
StageName = Literal[
    "environment", "interpreter", "compile", "gate", "gpu", "timing", "teeth", "claims", "report", "bundle"
]


class Record(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of every record: immutable, and strict about unknown fields on the way in."""


class Unavailable(Record, frozen=True, kw_only=True, tag_field="kind", tag="unavailable"):
    """A value that could not be read, with the reason in words."""

    reason: str


class NonFinite(Record, frozen=True, kw_only=True):
    """A float that JSON cannot carry."""

    nonfinite: Literal["nan", "inf", "-inf"]


Number = float | NonFinite


def number(value: float) -> Number:
    """Return a float that JSON can carry, or the typed name of one that it cannot."""
    if math.isfinite(value):
        return value
    return NonFinite(nonfinite="nan" if math.isnan(value) else "inf" if value > 0 else "-inf")


def as_float(value: Number) -> float:
    """Return the float that `number` was given."""
    return float(value.nonfinite) if isinstance(value, NonFinite) else value


class Verdict(Record, frozen=True, kw_only=True):
    """An outcome, its cause from the closed list (None where it passed) and the reason in one sentence."""

    outcome: Outcome
    reason: str
    cause: Cause | None = None


# environment


class Device(Record, frozen=True, kw_only=True):
    """One GPU as its vendor's driver describes it. `uuid_hash` is salted: it tells cards of one machine apart and names
    none. `compute_capability` is CUDA's; AMD's devices are told apart by `target` alone. `maximum_sm_clock_mhz`: of a
    multiprocessor, or of a compute unit.
    """

    name: str
    target: str
    compute_capability: Capability | Unavailable
    uuid_hash: str | Unavailable
    visible: bool
    memory_bytes: Count | Unavailable
    vbios: str | Unavailable
    ecc: bool | Unavailable
    mig: bool | Unavailable
    persistence: bool | Unavailable
    power_limit_milliwatts: Count | Unavailable
    maximum_sm_clock_mhz: Count | Unavailable
    maximum_memory_clock_mhz: Count | Unavailable


class Driver(Record, frozen=True, kw_only=True, tag_field="kind", tag="driver"):
    """Driver and NVML versions; `cuda` is the newest CUDA that the driver supports. AMD's driver has neither."""

    version: str | Unavailable
    cuda: str | Unavailable
    nvml: str | Unavailable


class Cpu(Record, frozen=True, kw_only=True):
    model: str | Unavailable
    architecture: str
    logical_cores: Count | Unavailable
    memory_bytes: Count | Unavailable


class System(Record, frozen=True, kw_only=True):
    kernel: str
    release: str
    distribution: str | Unavailable
    libc: str | Unavailable
    host_hash: str | Unavailable


class Python(Record, frozen=True, kw_only=True):
    """The Python that runs the stages."""

    implementation: str
    version: str


class Source(Record, frozen=True, kw_only=True):
    """Which source: git's commit and dirty flag where there is git, and one digest over the workflow's files always."""

    commit: str | Unavailable
    dirty: bool | Unavailable
    digest: Digest


class Environment(Record, frozen=True, kw_only=True):
    """Everything about the machine and its software that stays the same between two runs.

    `devices` stand in CUDA's order (or HIP's): first the visible ones as it numbers them, then the hidden.
    `unidentified`: one reason for each device that the driver lists and whose name or compute capability it does not
    tell. `torch_cuda` and `torch_rocm`: what torch was built with.
    """

    driver: Driver | Unavailable
    devices: list[Device] | Unavailable
    unidentified: list[Unavailable] = field(default_factory=list)
    cpu: Cpu
    system: System
    python: Python
    distributions: dict[str, str]
    variables: dict[str, str]
    assemblers: dict[str, str | Unavailable]
    torch_cuda: str | Unavailable
    torch_rocm: str | Unavailable
    source: Source


# interpreter and gpu


class DeclaredVariant(Record, frozen=True, kw_only=True):
    """A precision mode in one configuration. `id` is `<precision>/<configuration>`.

    It runs from `minimum_capability` to `maximum_capability`, by its own declaration or its kernel's;
    `stack_budget_bytes` is the largest stack that its code may use. `searched`: it comes from a search space, which the
    sweep thins out.
    """

    id: str
    precision: str
    configuration: str
    minimum_capability: Capability | None
    maximum_capability: Capability | None = None
    stack_budget_bytes: Count | None = None
    searched: bool = False


class Equivalent(Record, frozen=True, kw_only=True):
    """Planted faults that the author says are none: those of `operators` in the line that reads `source`, and why."""

    operators: list[str]
    source: str
    why: str


class Declaration(Record, frozen=True, kw_only=True):
    """What a kernel file declares, as far as later stages need it.

    `exemptions`: by case, the precisions of which it is not asked, each with the reason. `once`: cases that
    are asked of each precision's first configuration alone. `dot`: whether a rounding canary can be sent through it.
    `rules`: the bounds by name, each with where it comes from. `ceilings`: by precision, the ceiling that its
    arithmetic runs into, and how many products it takes for one. `rivals`: by peer, the precisions of variants that are
    set against it although it computes in another. `distant`: cases whose tensors are spread past 2^31 elements.
    """

    title: str
    variants: list[DeclaredVariant]
    cases: list[str]
    timed: list[str]
    contrasts: list[tuple[str, str]]
    exemptions: dict[str, dict[str, str]] = field(default_factory=dict)
    once: list[str] = field(default_factory=list)
    dot: bool = False
    rules: dict[str, str] = field(default_factory=dict)
    equivalents: list[Equivalent] = field(default_factory=list)
    ceilings: dict[str, tuple[CeilingName, Count]] = field(default_factory=dict)
    rivals: dict[str, list[str]] = field(default_factory=dict)
    distant: list[str] = field(default_factory=list)


class Worst(Record, frozen=True, kw_only=True):
    """The element furthest past its bound."""

    index: list[Count]
    got: Number
    want: Number
    error: Number
    bound: Number


class Comparison(Record, frozen=True, kw_only=True):
    """One output against the float64 oracle: |got - want| <= bound, element by element, written so that NaN fails.

    `rule` is the bound's name and `bound` the bound in words. The reference is the oracle's result, or, where the words
    say so, that for the operands as the multiplier takes them.
    """

    output: str
    rule: str
    shape: list[Count]
    dtype: str
    elements: Count
    past_bound: Count
    largest_error: Number
    largest_reference: Number
    normalised_error: Number
    bound: str
    worst: Worst


class Repeat(Record, frozen=True, kw_only=True, tag_field="kind", tag="repeat"):
    """A second launch on the same inputs, compared with the first bit by bit.

    `differing` of `elements` output elements changed; `settled`: all launches after the second gave what it gave.
    `atomics` counts the atomic instructions in the code that was launched: they may add in any order.
    """

    differing: Count
    elements: Count
    settled: bool
    atomics: Count


class Check(Record, frozen=True, kw_only=True):
    """One case of one variant, run once for each seed in the same process; the comparisons are the worst seed's."""

    variant: str
    case: str
    seeds: list[Count]
    verdict: Verdict
    comparisons: list[Comparison]
    repeat: Repeat | Unavailable


Operand = Literal["left", "right"]
RoundingMode = Literal["exact", "truncated", "nearest-away", "nearest-even", "unexplained"]


class Canary(Record, frozen=True, kw_only=True):
    """How the multiplier of one variant treats one operand of its product, read off a product with the identity.

    `readings` are what came out for the probes of `assay.rounding`; the rest is derived from them: the rounding to
    `fraction_bits` that explains them all (None where none does) and the largest relative error.
    """

    variant: str
    operand: Operand
    readings: list[Number]
    mode: RoundingMode
    fraction_bits: Count | None
    largest_error: Number
    verdict: Verdict


class Contrast(Record, frozen=True, kw_only=True):
    """The errors of two precisions of one configuration on one case.

    `ratio` is lesser precision over reference precision. `honoured` says whether the less precise mode lost accuracy,
    that is, whether the multiplier it asked for was used.
    """

    case: str
    configuration: str
    reference: str
    lesser: str
    reference_error: Number
    lesser_error: Number
    ratio: Number
    honoured: bool
    verdict: Verdict


class Interpreter(Record, frozen=True, kw_only=True):
    """Result of the `interpreter` stage."""

    loading: Verdict
    declaration: Declaration | None
    checks: list[Check]
    canaries: list[Canary]
    contrasts: list[Contrast]
    precision_honoured: bool | Unavailable


class Execution(Record, frozen=True, kw_only=True):
    """The binaries that one variant launched for one case, and whether the compile stage predicted them.

    `predicted` compares with the compile stage's digests for the same variant, case and target.
    """

    variant: str
    case: str
    binary_sha256: list[Digest]
    predicted: Literal["identical", "different", "not-compiled-ahead"]


class Gpu(Record, frozen=True, kw_only=True):
    """Result of the `gpu` stage. `availability` is `passed` where a device ran; otherwise it says why none did."""

    availability: Verdict
    device: Device | None
    declaration: Declaration | None
    checks: list[Check]
    canaries: list[Canary]
    contrasts: list[Contrast]
    executions: list[Execution]


# compile


class Instructions(Record, frozen=True, kw_only=True):
    """How often each instruction of interest stands in the code; keys such as `mma.tf32`, `mfma.xf32`, `fma.f32`.

    `assembly` is what the compiler wrote: PTX on NVIDIA, AMDGCN on AMD. `machine` is the binary's disassembly, SASS;
    None where the assembly is the machine's own, as AMD's is.
    """

    assembly: dict[str, Count]
    machine: dict[str, Count] | None


class RegisterFiles(Record, frozen=True, kw_only=True):
    """AMD's registers: vector and accumulation registers of a lane, scalar ones of a wave, and how many were spilled.

    `vgpr` includes `agpr` where both lie in one file, as on CDNA 2 and later; `agpr` is None where there are none.
    """

    vgpr: Count
    agpr: Count | None
    sgpr: Count
    vgpr_spills: Count
    sgpr_spills: Count


class Binary(Record, frozen=True, kw_only=True):
    """One compiled function. `assembly_sha256`: of its PTX or AMDGCN; `binary_sha256`: of its cubin or hsaco.

    `registers` are those of a thread, vector registers on AMD, where `register_files` has all; None on NVIDIA, where
    one file is counted. `shared_bytes` includes dynamic shared memory (LDS on AMD); limits are per block. Spilled
    registers show as local memory accesses: `STL` and `LDL` in NVIDIA's machine code, scratch accesses in AMD's.
    """

    function: str
    assembly_sha256: Digest
    binary_sha256: Digest
    registers: Count
    register_files: RegisterFiles | None = None
    stack_bytes: Count
    local_store_instructions: Count
    local_load_instructions: Count
    shared_bytes: Count
    shared_limit_bytes: Count
    tensor_memory_columns: Count
    instructions: Instructions


class Build(Record, frozen=True, kw_only=True):
    """One variant for one target, launched as `case`. `fits` compares shared memory and registers with the target."""

    variant: str
    target: str
    case: str
    compiled: Verdict
    fits: Verdict
    binaries: list[Binary]


class Finding(Record, frozen=True, kw_only=True):
    """What the instructions say about one precision on one target, against what that precision promises."""

    precision: str
    target: str
    statement: str
    verdict: Verdict


class Compile(Record, frozen=True, kw_only=True):
    """Result of the `compile` stage.

    `builds`: each variant for each target, launched as the first case; then what cannot be compiled of other cases.
    """

    loading: Verdict
    declaration: Declaration | None
    builds: list[Build]
    findings: list[Finding]


# gate


class Gate(Record, frozen=True, kw_only=True):
    """Result of the `gate` stage: what the real command answered, and whether the captured device calls for that.

    `verdict` is about the gate itself: a refusal that the captured device calls for is a gate that passed. `protects`
    is what follows for the device tiers behind it: `passed` where they may run, else why they do not.
    """

    argv: list[str]
    exit_code: int
    message: str
    expected_exit_code: int
    expectation: str
    verdict: Verdict
    protects: Verdict


# timing


class Conditions(Record, frozen=True, kw_only=True):
    """The card's state beside one round of samples. `event_reasons` is NVML's bit mask, stored as the integer."""

    sm_clock_mhz: Count | Unavailable
    memory_clock_mhz: Count | Unavailable
    temperature_celsius: Count | Unavailable
    power_milliwatts: Count | Unavailable
    event_reasons: Count | Unavailable
    other_processes: Count | Unavailable


MOST_ROUNDS = 100_000
"""Rounds of one size, at most."""


class Stretch(Record, frozen=True, kw_only=True):
    """So many rounds in a row beside which the card's state read the same: a driver reads its sensors anew after about
    100 ms (seen on an H200), and a round can take 5.
    """

    rounds: Annotated[int, Meta(ge=1, le=MOST_ROUNDS)]
    conditions: Conditions


class Rate(Record, frozen=True, kw_only=True, tag_field="kind", tag="rate"):
    """Declared work over median time."""

    value: float
    unit: Literal["GFLOP/s", "GB/s"]


class Estimate(Record, frozen=True, kw_only=True, tag_field="kind", tag="estimate"):
    """A median and its 95% bootstrap interval."""

    low: float
    median: float
    high: float


class Ceiling(Record, frozen=True, kw_only=True):
    """The most that the card gave of one resource in this run: `work` over the fastest of `samples_ns`.

    `work` is bytes read and written for `copy`, floating-point operations for the others; `how` says what was run.
    """

    name: CeilingName
    how: str
    work: Count
    samples_ns: list[float]
    rate: Rate | Unavailable


class Share(Record, frozen=True, kw_only=True):
    """Which fraction of a ceiling an entrant reached. `binding`: whether more than 1 cannot be."""

    ceiling: CeilingName
    fraction: float
    binding: bool


class Drift(Record, frozen=True, kw_only=True, tag_field="kind", tag="drift"):
    """Whether the samples tend up or down in the order taken.

    `change` is the Theil-Sen slope times the number of rounds, over the median; `p` that of Kendall's test.
    """

    change: float
    p: float
    drifting: bool


class Accuracy(Record, frozen=True, kw_only=True, tag_field="kind", tag="accuracy"):
    """What an entrant's timed launches wrote, against the float64 oracle: the worst output's errors.

    `normwise` is |got - want| over |want| in the Frobenius norm; `largest` the largest error over the largest value.
    """

    normwise: Number
    largest: Number


class Row(Record, frozen=True, kw_only=True):
    """One entrant of a sweep: a variant of the kernel, a library peer, or the twin, the first entrant once more.

    `samples_ns` keeps every sample in the order taken, one a round, by the device's events around launches;
    `replays_ns` the same launch replayed from a CUDA graph, where the host has no part; `screen_ns` the short round in
    which a search space was thinned out. `time_ns` is what counts: the replays where events measured the host
    (`launch_bound`), the events otherwise. All but the samples is derived, from good rounds, where the verdict is
    passed. `binary_sha256`: the binaries that warming up launched. `launches`: of the smallest sample; left out
    where it was not prepared, and in records from before it was kept, where a sample was a launch for each set, or the
    fewest there may be.
    """

    entrant: str
    kind: Literal["variant", "peer", "twin"]
    precision: str
    configuration: str | None
    verdict: Verdict
    samples_ns: list[float]
    replays_ns: list[float] | Unavailable
    screen_ns: list[float]
    events: Estimate | Unavailable
    replay: Estimate | Unavailable
    launch_bound: bool | Unavailable
    time_ns: Estimate | Unavailable
    drift: Drift | Unavailable
    rate: Rate | Unavailable
    shares: list[Share]
    accuracy: Accuracy | Unavailable
    binary_sha256: list[Digest]
    launches: Count | UnsetType = UNSET


class Best(Record, frozen=True, kw_only=True):
    """The fastest variant of one precision."""

    precision: str
    entrant: str
    median_ns: float


Conclusion = Literal["faster", "slower", "same", "inconclusive"]
Mode = Literal["events", "replay"]


class Versus(Record, frozen=True, kw_only=True):
    """A variant's time over that of the fastest peer of its precision, round by round in one mode.

    Where no peer has its precision, that is the fastest of those that the kernel file calls a rival of it.
    `conclusion`: `same` where the interval lies within the declared margin around 1, else `faster` or `slower` where it
    clears the noise floor, else `inconclusive`. Against a rival of another precision only what errs no more can be
    `faster` or `same`.
    """

    entrant: str
    against: str
    mode: Mode
    ratio: Estimate | Unavailable
    conclusion: Conclusion
    reason: str


class Null(Record, frozen=True, kw_only=True):
    """The null experiment: one entrant sampled under two names.

    `floor`: how far from 1 a ratio must be to say anything.
    """

    entrant: str | None
    ratio: Estimate | Unavailable
    floor: float | Unavailable


class Speedup(Record, frozen=True, kw_only=True):
    """Best time of the reference precision over best time of the lesser one, round by round, gated above 1."""

    reference: str
    lesser: str
    ratio: Estimate | Unavailable
    verdict: Verdict


class TimedInput(Record, frozen=True, kw_only=True):
    """One input tensor of the first set, as its values were: zeros run faster, so they are counted."""

    name: str
    shape: list[Count]
    dtype: str
    mean: Number
    deviation: Number
    zeros: Count
    elements: Count


class Inputs(Record, frozen=True, kw_only=True, tag_field="kind", tag="inputs"):
    """What was fed: `sets` sets of inputs and outputs in turn, the first from `seed`, each of `set_bytes`.

    `cache_bytes` is the device's L2 cache: sets are rotated where one would fit in it.
    """

    seed: Count
    sets: Count
    set_bytes: Count
    cache_bytes: Count | Unavailable
    tensors: list[TimedInput]


class Cost(Record, frozen=True, kw_only=True):
    """How long the device was held for a size, from its first input to its last check, and sampled on.

    `peers_ns`: how long of it the peers' preparation took, such as the tuning of torch.compile.
    """

    device_ns: Count
    sampling_ns: Count
    peers_ns: Count = 0


Ended = Literal["precise", "rounds", "time", "fault", "nothing"]
"""Why sampling ended: precise enough, or out of rounds or time, or by a fault, or there was nothing to sample."""


class Sweep(Record, frozen=True, kw_only=True):
    """All entrants at one size, sampled in interleaved rounds. `stretches`: the card's state beside them.

    `outside`: the numbers, from 0, of the rounds outside the declared clock band; what they hold is kept and not used.
    `widest` is the largest relative half-width of an interval of a median, which the stopping rule looks at.
    """

    size: str
    dimensions: dict[str, Count]
    flops: Count
    bytes: Count
    inputs: Inputs | Unavailable
    rows: list[Row]
    stretches: list[Stretch]
    outside: list[Count]
    ended: Ended
    widest: float | Unavailable
    null: Null
    versus: list[Versus]
    best: list[Best]
    speedups: list[Speedup]
    cost: Cost

    def __post_init__(self) -> None:
        """Refuse more rounds than there can be, before anyone writes them out one by one. ValueError."""
        if sum(one.rounds for one in self.stretches) > MOST_ROUNDS:
            raise ValueError(f"more than {MOST_ROUNDS} rounds")

    @property
    def rounds(self) -> list[Conditions]:
        """The card's state beside each round, in the order taken."""
        return [one.conditions for one in self.stretches for _ in range(one.rounds)]


class Precompiled(Record, frozen=True, kw_only=True):
    """What was compiled, by how many processes, before the device was touched."""

    launches: Count
    workers: Count
    duration_ns: Count


class Timing(Record, frozen=True, kw_only=True):
    """Result of the `timing` stage. `launch`: an empty kernel by events (`launches_ns`, in the order taken); where the
    two modes differ by more, the difference is the host's.
    """

    availability: Verdict
    device: Device | None
    precompiled: Precompiled | None
    launches_ns: list[float] = field(default_factory=list)
    launch: Estimate | Unavailable
    ceilings: list[Ceiling]
    sweeps: list[Sweep]


# teeth


class Exposure(Record, frozen=True, kw_only=True):
    """What one tier made of a planted fault: `failed` where the tier caught it, with the cause; `passed` where it saw
    nothing; else why the tier could not look. `place` is the variant, and the case or target, that showed it; `*` where
    no single one did. `passed` counts the checks or builds that saw nothing before.
    """

    tier: Literal["interpreter", "compile", "gpu"]
    place: str
    verdict: Verdict
    passed: Count = 0


class Mutant(Record, frozen=True, kw_only=True):
    """One planted fault: the kernel file with one change in its syntax tree.

    `line` (from 1) and `source` are of the kernel file as it is; `replacement` is what stands there instead, and
    `sha256` the digest of the changed file. `equivalent`: it compiles to the same code on every configured target, so
    there is no fault to catch; `accepted`: nothing caught it, and the author says in the declaration why nothing could;
    `differs` names the first build that is other code, where one was found, or says that the launch is another.
    `invalid`: it cannot run at all, so nothing had to look at a result. `baseline` is what the first case and the
    reference's bound, on unguarded tensors, make of it: the reference script's way.
    """

    operator: str
    line: Count
    source: str
    replacement: str
    sha256: Digest
    outcome: Literal["caught", "survived", "equivalent", "accepted", "invalid"]
    exposures: list[Exposure]
    baseline: Verdict
    differs: str | None = None


class Acceptance(Record, frozen=True, kw_only=True):
    """The author's word on planted faults, and the places in `mutants`, from 0, of those that it is about."""

    equivalent: Equivalent
    mutants: list[Count]


class Teeth(Record, frozen=True, kw_only=True):
    """Result of the `teeth` stage: which planted faults the evidence would have caught. `tiers`: those that looked."""

    loading: Verdict
    device: Device | None
    tiers: list[Literal["interpreter", "compile", "gpu"]]
    mutants: list[Mutant]
    acceptances: list[Acceptance] = field(default_factory=list)


# claims


class Link(Record, frozen=True, kw_only=True):
    """Where the evidence stands: artifact path, its sha256, and a JSON pointer into it."""

    artifact: str
    sha256: Digest
    pointer: Pointer


class Claim(Record, frozen=True, kw_only=True):
    """What has, or has not, been shown of one variant at one tier on one target."""

    kernel: str
    variant: str
    tier: Tier
    target: str | None
    sentence: str
    outcome: Outcome
    cause: Cause | None
    reason: str
    figures: dict[str, Number | str]
    freshness: Literal["current", "stale"]
    links: list[Link]


class Status(Record, frozen=True, kw_only=True):
    """The overall status and the one sentence that says it."""

    overall: Overall
    sentence: str
    counts: dict[Outcome, Count]


class Claims(Record, frozen=True, kw_only=True):
    """Result of the `claims` stage."""

    status: Status
    claims: list[Claim]
    source: Source


# report


class Report(Record, frozen=True, kw_only=True):
    """Result of the `report` stage: what was rendered from which claims."""

    status: Status
    outputs: dict[str, Digest]


# bundle


class Bundle(Record, frozen=True, kw_only=True):
    """Result of the `bundle` stage: the archive that was packed. `sha256` is of the archive before any signature."""

    path: str
    sha256: Digest
    size_bytes: Count
    members: Count


# merged bundles


class Contribution(Record, frozen=True, kw_only=True):
    """One bundle that was merged: its machine, versions and dates. `sha256` is the digest of its payload manifest.

    `device` and `target` are those of the device that kernels run on. `first` and `last`: when the oldest and the
    newest of its records were begun.
    """

    name: str
    sha256: Digest
    device: str | Unavailable
    target: str | Unavailable
    driver: str | Unavailable
    versions: dict[str, str]
    first: Instant
    last: Instant
    source: Source
    status: Status


class KernelSource(Record, frozen=True, kw_only=True):
    """One version of a kernel file, and the bundles whose records are of it: a subject of its own.

    `freshness` compares with the code at hand, or with the newest bundle where that has no such kernel; `reason` says
    which. Of each kernel one source is `leading`: the overall status is about it.
    """

    kernel: str
    sha256: Digest
    freshness: Literal["current", "stale"]
    reason: str
    leading: bool
    bundles: list[Digest]


class Account(Record, frozen=True, kw_only=True):
    """What one bundle says of a claim. `day`: when the newest record that it rests on was begun."""

    bundle: Digest
    day: str
    outcome: Outcome
    cause: Cause | None
    reason: str
    figures: dict[str, Number | str]
    freshness: Literal["current", "stale"]
    links: list[Link]


class MergedClaim(Record, frozen=True, kw_only=True):
    """A claim over all machines. `source` is the kernel file's digest; None for a gate, which is of one machine.

    `conflict`: it passed in one bundle and failed in another.
    """

    kernel: str
    source: Digest | None
    variant: str
    tier: Tier
    target: str | None
    sentence: str
    outcome: Outcome | Literal["conflict"]
    cause: Cause | None
    reason: str
    freshness: Literal["current", "stale"]
    accounts: list[Account]


class Merged(Record, frozen=True, kw_only=True):
    """Several bundles as one: `merged.json`. A conflict counts as a failure in `status`. The bundles stand in the order
    of their dates; `notes` says what is odd about them.
    """

    schema: Literal["assay/merged/1"] = "assay/merged/1"
    status: Status
    bundles: list[Contribution]
    sources: list[KernelSource]
    claims: list[MergedClaim]
    notes: list[str]


# the envelope


class Compilations(Record, frozen=True, kw_only=True):
    """How many device functions a run compiled, and how many it took from what earlier runs had compiled."""

    made: Count
    reused: Count


class Run(Record, frozen=True, kw_only=True):
    """What changes from run to run. Only `compile` has `compilations`, and only where what it compiles is kept."""

    started: Instant
    duration_ns: Count
    exit_code: int
    compilations: Compilations | UnsetType = UNSET


Result = TypeVar("Result")


class Artifact(Record, Generic[Result], frozen=True, kw_only=True):
    """The envelope of every record.

    `materials` maps each file that was read to its sha256. `content_sha256` is the sha256 of this record's canonical
    JSON without that one field, so that an edit by hand is noticed.
    """

    schema: str
    stage: StageName
    kernel: str | None
    materials: dict[str, Digest]
    command: list[str]
    run: Run
    result: Result
    content_sha256: Digest = field(default="0" * 64)


ARTIFACTS: dict[StageName, type[Artifact[Any]]] = {
    "environment": Artifact[Environment],
    "interpreter": Artifact[Interpreter],
    "compile": Artifact[Compile],
    "gate": Artifact[Gate],
    "gpu": Artifact[Gpu],
    "timing": Artifact[Timing],
    "teeth": Artifact[Teeth],
    "claims": Artifact[Claims],
    "report": Artifact[Report],
    "bundle": Artifact[Bundle],
}
"""The envelope with each stage's result: what a decoder expects."""
