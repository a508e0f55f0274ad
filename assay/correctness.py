"""What the interpreter and gpu stages share: every variant on every case in a child process, and errors set apart."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.artifact import convert
from assay.child import Child, Fault
from assay.diagnosis import diagnose, diagnose_loading
from assay.pool import Pool
from assay.progress import Progress
from assay.record import Check, Contrast, Declaration, DeclaredVariant, Digest, Verdict, as_float, number
from assay.targets import too_old

WORKER = "assay.trial"

LOADING_LIMIT_S = 300.0
"""Importing torch, Triton and the kernel file: seconds on a quiet machine, minutes from a cold network disk."""

SMALLEST_ERROR = 1e-30
"""Stands for an error of exactly 0 when a ratio is taken."""


@dataclass(frozen=True)
class Subject:
    """What a kernel file declares, with the cases of one tier; or why it could not be loaded."""

    loading: Verdict
    declaration: Declaration | None = None
    cases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tried:
    """A check and the digests of the binaries that it launched (none under the interpreter)."""

    check: Check
    cubins: tuple[Digest, ...] = ()


def worker(kernel: Path, device: str, environment: Mapping[str, str], log: Path) -> Child:
    """Return the child that tries `kernel` on `device`: 'cpu' for the interpreter, or 'cuda'."""
    return Child([sys.executable, "-m", WORKER, str(kernel), device], environment, log)


def describe(child: Child, tier: str) -> Subject:
    """Ask the child what the kernel file declares."""
    answer = child.ask({"do": "describe"}, LOADING_LIMIT_S)
    if isinstance(answer, Fault):
        return Subject(diagnose_loading(answer))
    declaration = convert(answer["declaration"], Declaration, "the kernel's declaration")
    loaded = Verdict(outcome="passed", reason="the kernel file was imported and declares a kernel")
    return Subject(loaded, declaration, tuple(answer["tiers"][tier]))


@dataclass(frozen=True)
class Trial:
    """One variant on one case."""

    variant: DeclaredVariant
    case: str

    def __str__(self) -> str:
        """Name it for the terminal."""
        return f"{self.case} {self.variant.id}"


@dataclass(frozen=True)
class Place:
    """The device on which trials run, by name and compute capability."""

    name: str
    capability: tuple[int, int]


@dataclass(frozen=True)
class Terms:
    """On what terms trials run: the seeds of each, the seconds one may take, and the device (None: the CPU)."""

    seeds: list[int]
    limit_s: float
    place: Place | None = None


def _untried(trial: Trial, terms: Terms, verdict: Verdict) -> Tried:
    check = Check(variant=trial.variant.id, case=trial.case, seeds=terms.seeds, verdict=verdict, comparisons=[])
    return Tried(check)


def _try(child: Child, trial: Trial, terms: Terms) -> Tried:
    place, need = terms.place, trial.variant.minimum_capability
    old = place and too_old(place.name, place.capability, need)
    if old:
        return _untried(trial, terms, Verdict(outcome="inapplicable", cause="capability", reason=old))
    request: dict[str, Any] = {"do": "try", "variant": trial.variant.id, "case": trial.case, "seeds": terms.seeds}
    answer = child.ask(request, terms.limit_s)
    if isinstance(answer, Fault):
        return _untried(trial, terms, diagnose(answer, trial.variant.precision))
    return Tried(convert(answer["check"], Check, "the child's answer"), tuple(answer["cubins"]))


def try_all(children: Sequence[Child], subject: Subject, terms: Terms, label: str) -> list[Tried]:
    """Try every variant on every case. A fault costs one trial; the next one gets a fresh child."""
    variants = [] if subject.declaration is None else subject.declaration.variants
    trials = [Trial(variant, case) for case in subject.cases for variant in variants]
    progress = Progress(label, len(trials))
    tried = Pool(trials, lambda child, trial: _try(child, trial, terms), progress).run(children)
    progress.close(summary(tried) if subject.declaration else subject.loading.reason)
    return tried


def summary(tried: Iterable[Tried]) -> str:
    """Return counts of outcomes, for the terminal."""
    outcomes = [t.check.verdict.outcome for t in tried]
    return ", ".join(f"{outcomes.count(o)} {o}" for o in sorted(set(outcomes))) or "nothing to try"


def error_of(check: Check) -> float | None:
    """Return the largest normalised error of a check, or None where nothing was compared."""
    if not check.comparisons:
        return None
    return max(as_float(comparison.normalised_error) for comparison in check.comparisons)


def _contrast(place: tuple[str, str], pair: tuple[str, str], errors: tuple[float, float], gate: bool) -> Contrast:
    exact, coarse = errors
    # Written so that a NaN on either side counts as not honoured.
    honoured = coarse > exact
    ratio = number(coarse / max(exact, SMALLEST_ERROR))
    said = f"{pair[1]} error {coarse:.3g}, {pair[0]} error {exact:.3g}, ratio {as_float(ratio):.3g}"
    verdict = Verdict(outcome="passed", reason=said)
    if not gate:
        verdict = Verdict(outcome="inapplicable", cause="policy", reason=f"{said}; reported here and not gated")
    elif not honoured:
        reason = f"{said}: {pair[1]} did not lose accuracy, so one of the two did not use the multiplier it asked for"
        verdict = Verdict(outcome="failed", cause="precision", reason=reason)
    return Contrast(
        case=place[0],
        configuration=place[1],
        reference=pair[0],
        lesser=pair[1],
        reference_error=number(exact),
        lesser_error=number(coarse),
        ratio=ratio,
        honoured=honoured,
        verdict=verdict,
    )


def contrasts(declaration: Declaration | None, checks: Iterable[Check], gated: bool) -> list[Contrast]:
    """Set the errors of each declared pair of precisions apart, for every case and configuration that has both.

    Only the first case gates (where `gated`): a case of a few terms, or of exact values, may lose nothing in either.
    """
    if declaration is None:
        return []
    errors = {(c.case, c.variant): error_of(c) for c in checks}
    found = []
    for case in declaration.cases:
        for pair in declaration.contrasts:
            for configuration in dict.fromkeys(v.configuration for v in declaration.variants):
                exact, coarse = (errors.get((case, f"{precision}/{configuration}")) for precision in pair)
                if exact is not None and coarse is not None:
                    gate = gated and case == declaration.cases[0]
                    found.append(_contrast((case, configuration), pair, (exact, coarse), gate))
    return found
