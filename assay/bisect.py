"""Command `bisect`: which Triton version, which commit of the kernel's file, or which setting changed a claim.

GOOD and BAD are two Triton versions, two git revisions, or two configuration files. Only the stages that the claim
rests on are run, in a temporary folder. Exit 0: one place is found. 1: what could be judged leaves a range.
"""

import argparse
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import msgspec

from assay.artifact import canonical
from assay.attempts import Judge
from assay.bisection import Found, search
from assay.config import KERNEL_NAME
from assay.course import RECORDED
from assay.errors import UsageError
from assay.formats import numeral
from assay.outcomes import mark_of
from assay.points import Ends, Over, Row, narrowed, row_of, settings_from
from assay.policy import ClaimsRequired, read_requirement
from assay.privacy import one_line
from assay.progress import Progress
from assay.record import Claim, Number, Record, Tier, Unavailable
from assay.setting_changes import apply
from assay.sources import check_folder

UNTRIED: tuple[Tier, ...] = ("gated", "teeth")
"""Tiers that are not of one variant on one target."""
LIMIT_S = 3600.0
SHOWN = 12


class Tried(Record, frozen=True, kw_only=True):
    """What one point shows: the outcome in words, or the figure. `reason` says why, also why there is none."""

    point: str
    state: str | None
    reason: str


class Bisection(Record, frozen=True, kw_only=True):
    """What `--json` prints: all points in order, those that were tried, and between which two the claim changed.

    `back`: pairs of points between which it changed back. `note` says more of a setting.
    """

    schema: Literal["assay/bisection/1"] = "assay/bisection/1"
    claim: str
    over: Over
    points: list[str]
    tried: list[Tried]
    last: str
    first: str
    exact: bool
    back: list[tuple[str, str]]
    note: str


# What is asked


def read_claim(kernel: str, text: str) -> tuple[ClaimsRequired, Tier]:
    """Read which claim is meant: [VARIANT] TIER [TARGET], with patterns as `verify --require` takes them."""
    words = text.split()
    subject = kernel if words and words[0] in RECORDED else "/".join([kernel, *words[:1]])
    rest = words if subject == kernel else words[1:]
    try:
        found = read_requirement(" ".join([subject, *rest]))
    except UsageError:
        found = None
    tier = next((tier for tier in RECORDED if isinstance(found, ClaimsRequired) and found.parts[3] == tier), None)
    if not isinstance(found, ClaimsRequired) or tier is None or tier in UNTRIED:
        tiers = ", ".join(tier for tier in RECORDED if tier not in UNTRIED)
        raise UsageError(
            f"CLAIM: expected [VARIANT] TIER [TARGET], such as 'tf32/small compiled sm_90', with a tier of {tiers}; "
            f"found {one_line(text, 120)!r}"
        )
    return found, tier


def _named(claim: Claim) -> str:
    return " ".join(filter(None, (claim.variant, claim.tier, claim.target)))


def choose(claims: Sequence[Claim], wanted: ClaimsRequired) -> Claim:
    """Return the only claim that is meant; UsageError that lists the candidates where there are none, or several."""
    matching = [claim for claim in claims if wanted.matches(claim)]
    if len(matching) == 1:
        return matching[0]
    of = matching or claims
    listed = "; ".join(map(_named, of[:SHOWN])) + (f"; and {len(of) - SHOWN} more" if len(of) > SHOWN else "")
    found = f"{len(matching)} claims match" if matching else "no claim matches"
    raise UsageError(f"CLAIM: expected one claim, found that {found}; name one of: {one_line(listed, 1000)}")


def _shown(value: Number | str) -> str:
    return value if isinstance(value, str) else numeral(value, 6)


def state_of(claims: Sequence[Claim] | Unavailable, about: Claim, figure: str | None) -> str | Unavailable:
    """Return what a claim says at a point, in a word, or the figure; or why it cannot be judged there."""
    if isinstance(claims, Unavailable):
        return claims
    found = next((c for c in claims if (c.variant, c.target) == (about.variant, about.target)), None)
    if found is None:
        # Of a file that does not load there is one claim, about all variants.
        return Unavailable(reason=claims[0].reason if claims and claims[0].variant == "*" else "no such claim there")
    if figure is not None:
        value = found.figures.get(figure)
        known = ", ".join(found.figures) or "none"
        return Unavailable(reason=f"no figure {figure!r} there, only {known}") if value is None else _shown(value)
    if found.outcome in ("untested", "cantTell"):
        return Unavailable(reason=found.reason)
    return mark_of(found.outcome, found.cause).word


def _reason(claims: Sequence[Claim] | Unavailable, about: Claim) -> str:
    of = [] if isinstance(claims, Unavailable) else claims
    return next((c.reason for c in of if (c.variant, c.target) == (about.variant, about.target)), "")


# The search


class Search:
    """Tries points, each once, and remembers what came out."""

    def __init__(self, judge: Judge, row: Row, wanted: ClaimsRequired, figure: str | None) -> None:
        self._judge, self._row, self._figure = judge, row, figure
        self._claims: dict[int, Sequence[Claim] | Unavailable] = {}
        self.about = choose(self._need(0), wanted)
        self.before = self._end(0)
        self.after = self._end(len(row.points) - 1)
        if self.before == self.after:
            expected = "expected the claim to differ between the ends"
            raise UsageError(f"{expected}, found '{self.before}' at both; choose other ends, or another --figure")

    def _of(self, at: int) -> Sequence[Claim] | Unavailable:
        if at not in self._claims:
            self._claims[at] = self._judge.claims(self._row.points[at])
            self._judge.progress.step()
        return self._claims[at]

    def _unjudged(self, at: int, found: Unavailable) -> UsageError:
        expected = f"expected an end that can be judged: {found.reason}"
        return UsageError(f"{self._row.points[at].name}: {expected}; choose another end")

    def _need(self, at: int) -> Sequence[Claim]:
        found = self._of(at)
        if isinstance(found, Unavailable):
            raise self._unjudged(at, found)
        return found

    def _end(self, at: int) -> str:
        found = state_of(self._need(at), self.about, self._figure)
        if isinstance(found, Unavailable):
            raise self._unjudged(at, found)
        return found

    def same(self, at: int) -> bool | None:
        """Return whether the claim says at a point what it says at the first; None where it cannot be judged."""
        found = state_of(self._of(at), self.about, self._figure)
        return None if isinstance(found, Unavailable) else found == self.before

    def tried(self) -> list[Tried]:
        """Return what was tried, in the order of the points."""
        rows = []
        for at, claims in sorted(self._claims.items()):
            found = state_of(claims, self.about, self._figure)
            state, reason = (None, found.reason) if isinstance(found, Unavailable) else (found, "")
            reason = reason or _reason(claims, self.about)
            rows.append(Tried(point=self._row.points[at].name, state=state, reason=one_line(reason)))
        return rows

    def alone(self, found: Found) -> str:
        """Return whether the setting that was found changes the claim without the changes before it."""
        if self._row.over != "settings" or not found.exact or found.first == 1:
            return ""
        start, change = self._row.points[0].settings, self._row.made[found.first - 1]
        settings = settings_from(apply(msgspec.to_builtins(start), [change]))
        claims = self._judge.claims(replace(self._row.points[0], settings=settings))
        state = state_of(claims, self.about, self._figure)
        if isinstance(state, Unavailable):
            return f"Whether it does so on its own cannot be judged: {state.reason}"
        return "It does so on its own." if state != self.before else "Only together with the changes before it."


def found_by(row: Row, finder: Search, every: bool) -> Bisection:
    """Search, and return what was found."""
    found = search(len(row.points), finder.same, every=every)
    names = [point.name for point in row.points]
    note = finder.alone(found)
    return Bisection(
        claim=f"{finder.about.kernel} {_named(finder.about)}",
        over=row.over,
        points=names,
        tried=finder.tried(),
        last=names[found.last],
        first=names[found.first],
        exact=found.exact,
        back=[(names[a], names[b]) for a, b in found.back],
        note=note,
    )


# Saying it


def _line(name: str, tried: Tried | None) -> str:
    if tried is None:
        return f"  {name}: not tried"
    return f"  {name}: {tried.state or 'cannot be judged'}{f' ({tried.reason})' if tried.reason else ''}"


def text(found: Bisection) -> str:
    """Return what was found, for the terminal."""
    tried = {one.point: one for one in found.tried}
    states = [tried[name].state for name in (found.last, found.first)]
    changed = f"It changed from {states[0]} to {states[1]}"
    between = found.points[found.points.index(found.last) + 1 : found.points.index(found.first)]
    if found.exact:
        end = f"{changed} at {found.first}, after {found.last}."
    else:
        end = (
            f"{changed} after {found.last}, at {found.first} or one of {len(between)} before it that cannot be judged."
        )
    untried = len(found.points) - len(found.tried)
    rest = f"{untried} not tried are presumed to be as their neighbours; --all tries every one." if untried else ""
    back = [f"It changed back from {a} to {b}: there is more than one place." for a, b in found.back]
    lines = [
        f"{found.claim}, over {len(found.points)} {found.over}",
        *(_line(name, tried.get(name)) for name in found.points),
        end,
        *([found.note] if found.note else []),
        *back,
        *([rest] if rest else []),
    ]
    return "\n".join("  " * line.startswith("  ") + one_line(line, 500) for line in lines)


def _kernel(given: str) -> str:
    name = Path(given).stem if given.endswith(".py") else given
    if not re.fullmatch(KERNEL_NAME, name):
        raise UsageError(
            f"KERNEL: expected the name of a file under kernels/, found {one_line(given)!r}; name one, such as matmul"
        )
    return name


def _options(argv: Sequence[str]) -> argparse.Namespace:
    options = argparse.ArgumentParser(
        prog="python -m assay bisect",
        description="Find which Triton version, commit of the kernel's file, or setting changed a claim.",
    )
    options.add_argument("kernel", metavar="KERNEL", help="the kernel's name, such as matmul")
    options.add_argument("claim", metavar="CLAIM", help="[VARIANT] TIER [TARGET], such as 'tf32/small compiled sm_90'")
    ends = "a Triton version, a git revision, or a configuration (*.yaml)"
    options.add_argument("--good", required=True, metavar="V", help=f"the one end: {ends}")
    options.add_argument("--bad", required=True, metavar="V", help="the other end, of the same kind")
    options.add_argument("--figure", metavar="NAME", help="look at a figure, such as registers, not at the outcome")
    options.add_argument(
        "--python", action="append", default=[], metavar="V=PATH", help="a Python that has Triton V installed"
    )
    options.add_argument("--all", action="store_true", help="try every point: shows changes back and forth")
    options.add_argument("--config", type=Path, default=Path("config.yaml"), help="default: %(default)s")
    options.add_argument("--limit", type=float, default=LIMIT_S, metavar="S", help="seconds of a stage at most")
    options.add_argument("--json", action="store_true", help="print one line of JSON")
    return options.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    """Print where the claim changed."""
    chosen = _options(argv)
    check_folder()
    kernel = _kernel(chosen.kernel)
    wanted, tier = read_claim(kernel, chosen.claim)
    ends = Ends(chosen.good, chosen.bad, chosen.config, chosen.python)
    row = narrowed(row_of(ends, Path("kernels") / f"{kernel}.py", tier), tier, wanted.parts[4])
    progress = Progress(f"bisect {kernel}", len(row.points))
    found = found_by(row, Search(Judge(kernel, tier, chosen.limit, progress), row, wanted, chosen.figure), chosen.all)
    progress.close(f"{len(found.tried)} of {len(found.points)} points tried")
    print(canonical(found).decode() if chosen.json else text(found))
    return 0 if found.exact else 1
