"""What of a bundle came out again: pure comparisons of the records in it with those made here from its sources.

A difference that the machine's software can explain makes a record not reproducible here. A check, a build or a gate
that *ends* otherwise is different whatever explains it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from assay.artifact import canonical, sha256_bytes
from assay.formats import numeral, short
from assay.machines import place
from assay.record import (
    Build,
    Check,
    Comparison,
    Compile,
    Conclusion,
    Contrast,
    Digest,
    Environment,
    Estimate,
    Execution,
    Finding,
    Gate,
    Gpu,
    Interpreter,
    NonFinite,
    Record,
    Row,
    StageName,
    Timing,
    Verdict,
)
from assay.versus import common_mode

Likeness = Literal["identical", "within the bound", "different", "not reproducible here"]

Pair = Literal["same", "within", "figures", "outcome"]
"""How two of a kind compare, best first: equal; both passed, with other errors; the same outcome with other figures;
another outcome."""

Key = tuple[str, ...]
T = TypeVar("T")


class Reproduced(Record, frozen=True, kw_only=True):
    """One record, or of a compilation one target. `differing` names what is not equal, one by one."""

    stage: StageName
    kernel: str | None
    target: str | None
    likeness: Likeness
    what: str
    differing: list[str]


@dataclass(frozen=True)
class About:
    """The record that a comparison is about, and the differences of the machines that may explain what differs."""

    stage: StageName
    kernel: str | None
    blame: Sequence[str] = ()
    target: str | None = None

    def reproduced(self, likeness: Likeness, what: str, differing: Iterable[str] = ()) -> Reproduced:
        """Return what came out of the comparison."""
        return Reproduced(
            stage=self.stage,
            kernel=self.kernel,
            target=self.target,
            likeness=likeness,
            what=what,
            differing=list(differing),
        )


# Pairs of what is in two records


def _same_end(there: Verdict, here: Verdict) -> bool:
    return (there.outcome, there.cause) == (here.outcome, here.cause)


def _ends(there: Verdict, here: Verdict) -> str:
    said = [f"{v.outcome}{f' ({v.cause})' if v.cause else ''}" for v in (there, here)]
    return f"{said[0]} there, {said[1]} here: {here.reason}"


def _comparable(there: Comparison, here: Comparison) -> bool:
    """Return whether two comparisons are of the same output against the same bound."""
    return all(
        getattr(there, name) == getattr(here, name) for name in ("output", "shape", "dtype", "elements", "bound")
    )


def _pair_checks(there: Check, here: Check) -> tuple[Pair, str]:
    if there == here:
        return "same", ""
    if not _same_end(there.verdict, here.verdict):
        return "outcome", _ends(there.verdict, here.verdict)
    alike = len(there.comparisons) == len(here.comparisons)
    if not (alike and all(map(_comparable, there.comparisons, here.comparisons))):
        return "outcome", "other outputs, shapes or bounds are compared here"
    if there.verdict.outcome == "passed":
        return "within", ""
    return "figures", f"{there.verdict.outcome} in both, with other figures: {here.verdict.reason}"


def _pair_contrasts(there: Contrast, here: Contrast) -> tuple[Pair, str]:
    if there == here:
        return "same", ""
    if not _same_end(there.verdict, here.verdict):
        return "outcome", _ends(there.verdict, here.verdict)
    if there.honoured != here.honoured:
        return "figures", f"{here.lesser} {'lost' if here.honoured else 'did not lose'} accuracy here"
    return "within", ""


def _pair_executions(there: Execution, here: Execution) -> tuple[Pair, str]:
    if there == here:
        return "same", ""
    if there.predicted != here.predicted:
        return "outcome", f"{there.predicted} to what was compiled ahead there, {here.predicted} here"
    return "figures", f"binary {_digests(there.binary_sha256)} there, {_digests(here.binary_sha256)} here"


def _digests(digests: Iterable[str]) -> str:
    return "+".join(map(short, digests)) or "none"


def binary_digests(build: Build) -> list[Digest]:
    """Return the digests of a build's binaries."""
    return [binary.binary_sha256 for binary in build.binaries]


def _pair_builds(there: Build, here: Build) -> tuple[Pair, str]:
    if there == here:
        return "same", ""
    for before, after in ((there.compiled, here.compiled), (there.fits, here.fits)):
        if not _same_end(before, after):
            return "outcome", _ends(before, after)
    ours, theirs = binary_digests(here), binary_digests(there)
    if ours != theirs:
        return "figures", f"binary {_digests(theirs)} there, {_digests(ours)} here"
    return "figures", "the same binary, with other assembly or other figures about it"


def _pair_findings(there: Finding, here: Finding) -> tuple[Pair, str]:
    if there == here:
        return "same", ""
    kind: Pair = "figures" if _same_end(there.verdict, here.verdict) else "outcome"
    return kind, f"'{there.statement}' there, '{here.statement}' here"


@dataclass(frozen=True)
class Paired:
    """One thing that is in either record, how it compares, and in words what differs."""

    name: str
    pair: Pair
    words: str = ""


def _paired(there: Mapping[Key, T], here: Mapping[Key, T], compare: Any) -> list[Paired]:
    """Compare two records' contents by key; what only one of them has ended otherwise."""
    found = []
    for key in dict.fromkeys([*there, *here]):
        if key in there and key in here:
            found.append(Paired(" ".join(key), *compare(there[key], here[key])))
        else:
            found.append(Paired(" ".join(key), "outcome", f"only {'there' if key in there else 'here'}"))
    return found


def _keyed(items: Iterable[tuple[Key, T]]) -> dict[Key, T]:
    """Return items by key; one whose key stands there already is kept beside it, so that none goes unseen."""
    found: dict[Key, T] = {}
    for key, item in items:
        own = key
        while own in found:
            own = (*own, "again")
        found[own] = item
    return found


def _checks(result: Interpreter | Gpu) -> dict[Key, Check]:
    return _keyed(((check.variant, check.case), check) for check in result.checks)


def _contrasts(result: Interpreter | Gpu) -> dict[Key, Contrast]:
    return _keyed(((f"{c.lesser} against {c.reference}", c.configuration, c.case), c) for c in result.contrasts)


def _executions(result: Gpu) -> dict[Key, Execution]:
    return _keyed((("binary of", e.variant, e.case), e) for e in result.executions)


def _declared(there: Any, here: Any) -> list[Paired]:
    """Compare how two records' kernel files loaded and what they declare."""
    found = []
    if hasattr(there, "loading") and there.loading != here.loading:
        kind: Pair = "figures" if _same_end(there.loading, here.loading) else "outcome"
        found.append(Paired("kernel file", kind, _ends(there.loading, here.loading)))
    if there.declaration != here.declaration:
        found.append(Paired("declaration", "outcome", "the kernel file declares something else here"))
    return found


# Records


def _many(count: int, one: str, more: str) -> str:
    return f"{count} {one if count == 1 else more}"


def _judge(about: About, pairs: Sequence[Paired], same: str, within: str, otherwise: str = "") -> Reproduced:
    """Return the likeness that the worst pair calls for.

    `same`, `within` and `otherwise` say in words what came out, where all is equal, within the bound, or neither.
    """
    kinds = {paired.pair for paired in pairs}
    differing = [f"{p.name}: {p.words}" for p in pairs if p.pair in ("figures", "outcome")]
    said = otherwise or f"{len(differing)} of {len(pairs)} came out otherwise"
    if "outcome" in kinds or ("figures" in kinds and not about.blame):
        explained = f"; it may be because of {', '.join(about.blame)}" if about.blame else ""
        return about.reproduced("different", f"{said}{explained}", differing)
    if "figures" in kinds:
        return about.reproduced("not reproducible here", f"{', '.join(about.blame)}; {said}", differing)
    return about.reproduced("within the bound", within) if "within" in kinds else about.reproduced("identical", same)


def _largest_error(checks: Iterable[Check]) -> str:
    errors = [c.normalised_error for check in checks for c in check.comparisons]
    finite = [error for error in errors if not isinstance(error, NonFinite)]
    return numeral(max(finite)) if finite else "none"


def _errors(there: Interpreter | Gpu, here: Interpreter | Gpu) -> str:
    return (
        f"{len(here.checks)} checks end as they did, with other errors: largest normalised error "
        f"{_largest_error(here.checks)} here, {_largest_error(there.checks)} there"
    )


def compare_interpreter(about: About, there: Interpreter, here: Interpreter) -> Reproduced:
    """Compare every check and contrast under the interpreter."""
    digest = sha256_bytes(canonical(here))
    pairs = _paired(_checks(there), _checks(here), _pair_checks)
    pairs += _paired(_contrasts(there), _contrasts(here), _pair_contrasts)
    same = f"{_many(len(here.checks), 'check', 'checks')}, sha256 of the result {short(digest)}"
    if digest == sha256_bytes(canonical(there)):
        return about.reproduced("identical", same)
    pairs += _declared(there, here)
    if all(paired.pair == "same" for paired in pairs):
        pairs.append(Paired("result", "figures", "the same checks in another form"))
    return _judge(about, pairs, same, _errors(there, here))


def _builds(result: Compile, target: str) -> dict[Key, Build]:
    return _keyed(((build.variant,), build) for build in result.builds if build.target == target)


def _findings(result: Compile, target: str) -> dict[Key, Finding]:
    return _keyed((("finding about", f.precision), f) for f in result.findings if f.target == target)


def _compare_target(about: About, there: Compile, here: Compile, target: str) -> Reproduced:
    before, after = _builds(there, target), _builds(here, target)
    pairs = _paired(before, after, _pair_builds)
    pairs += _paired(_findings(there, target), _findings(here, target), _pair_findings)
    binaries = [[binary_digests(made[key]) for key in before if key in after] for made in (before, after)]
    alike = sum(one == other for one, other in zip(*binaries, strict=True))
    made = _many(sum(len(build.binaries) for build in after.values()), "binary", "binaries")
    otherwise = f"{alike} of {_many(len(before), 'build', 'builds')} gave the same binary"
    of_target = About(about.stage, about.kernel, about.blame, target)
    return _judge(of_target, pairs, f"{made}, the same byte for byte", "", otherwise)


def compare_compile(about: About, there: Compile, here: Compile) -> list[Reproduced]:
    """Compare every build and finding: one row for each target, or one in all where the kernel file does not load."""
    declared = _declared(there, here)
    targets = list(dict.fromkeys(build.target for build in (*there.builds, *here.builds)))
    if declared or not targets:
        return [_judge(about, declared, there.loading.reason, "")]
    return [_compare_target(about, there, here, target) for target in targets]


def compare_gate(about: About, there: Gate, here: Gate, places: tuple[Environment, Environment]) -> Reproduced:
    """Compare the gate's answers. `places` are there and here: on another device the gate has another answer."""
    if here.verdict.outcome != "passed" and there.verdict.outcome == "passed":
        return about.reproduced("different", _ends(there.verdict, here.verdict))
    if there == here:
        return about.reproduced("identical", f"exit {here.exit_code}: {here.message}")
    before, after = map(place, places)
    answered = f"exit {there.exit_code} there, exit {here.exit_code} here, as this machine calls for"
    if before != after:
        return about.reproduced("not reproducible here", f"{after} here, {before} there; {answered}")
    return about.reproduced("different", answered, [f"said there: {there.message}", f"said here: {here.message}"])


def compare_gpu(about: About, there: Gpu, here: Gpu) -> Reproduced:
    """Compare every check, contrast and executed binary; the device's own description is not compared."""
    if not _same_end(there.availability, here.availability):
        return about.reproduced("different", _ends(there.availability, here.availability))
    pairs = [*_declared(there, here), *_paired(_checks(there), _checks(here), _pair_checks)]
    pairs += _paired(_contrasts(there), _contrasts(here), _pair_contrasts)
    pairs += _paired(_executions(there), _executions(here), _pair_executions)
    return _judge(about, pairs, f"{len(here.checks)} checks, {len(here.executions)} executions", _errors(there, here))


def _rows(result: Timing) -> dict[Key, Row]:
    return _keyed(((row.entrant, sweep.size), row) for sweep in result.sweeps for row in sweep.rows)


def _speedups(result: Timing) -> dict[Key, Verdict]:
    return _keyed(
        ((f"speed-up of {gain.lesser} over {gain.reference}", sweep.size), gain.verdict)
        for sweep in result.sweeps
        for gain in sweep.speedups
    )


def _pair_verdicts(there: Verdict, here: Verdict) -> tuple[Pair, str]:
    if _same_end(there, here):
        return "within", ""
    # What a search space is thinned out to depends on a few samples.
    if "pruned" in (there.cause, here.cause) and "passed" in (there.outcome, here.outcome):
        return "within", "left out of the search space in one of the two"
    return "outcome", _ends(there, here)


def _ratio(there: Row, here: Row) -> float | None:
    """Return the ratio of two medians in the mode that counts for both, or None where there is none."""
    mode = common_mode(there, here)
    a, b = [row.replay if mode == "replay" else row.events for row in (there, here)]
    if isinstance(a, Estimate) and isinstance(b, Estimate) and a.median > 0:
        return b.median / a.median
    return None


def _ratios(there: Timing, here: Timing) -> list[float]:
    before, after = _rows(there), _rows(here)
    found = [_ratio(before[key], after[key]) for key in before if key in after and before[key].kind != "twin"]
    return [ratio for ratio in found if ratio is not None]


def _conclusions(result: Timing) -> dict[Key, Conclusion]:
    return {(one.entrant, one.against, sweep.size): one.conclusion for sweep in result.sweeps for one in sweep.versus}


def _agreement(there: Timing, here: Timing) -> str:
    """Return how many comparisons with a library came to the same conclusion, in words."""
    before, after = _conclusions(there), _conclusions(here)
    both = [key for key in before if key in after]
    alike = sum(before[key] == after[key] for key in both)
    return (
        f", {alike} of {_many(len(both), 'comparison', 'comparisons')} with a library concluded alike" if both else ""
    )


def compare_timing(about: About, there: Timing, here: Timing) -> Reproduced:
    """Compare how every entrant and every speed-up gate came out. No two runs have the same samples."""
    if not _same_end(there.availability, here.availability):
        return about.reproduced("different", _ends(there.availability, here.availability))
    verdicts = [{key: row.verdict for key, row in _rows(result).items()} for result in (there, here)]
    pairs = _paired(verdicts[0], verdicts[1], _pair_verdicts)
    pairs += _paired(_speedups(there), _speedups(here), _pair_verdicts)
    ratios = _ratios(there, here)
    said = f", medians {min(ratios):.3g} to {max(ratios):.3g} times those there" if ratios else ""
    thinned = sum(pair.pair == "within" and pair.words != "" for pair in pairs)
    but = f", but for {thinned} that only one of the two left out of a search space" if thinned else ""
    words = f"{len(pairs)} entrants and speed-ups end as they did{but}{said}{_agreement(there, here)}"
    return _judge(about, pairs, words, words)


def compare(about: About, there: Any, here: Any, places: tuple[Environment, Environment]) -> list[Reproduced]:
    """Compare two results of one stage."""
    match about.stage:
        case "interpreter":
            return [compare_interpreter(about, there, here)]
        case "compile":
            return compare_compile(about, there, here)
        case "gate":
            return [compare_gate(about, there, here, places)]
        case "gpu":
            return [compare_gpu(about, there, here)]
        case _:
            return [compare_timing(about, there, here)]
