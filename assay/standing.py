"""Where each kernel stands: what the newest evidence from each place shows of it, and whether of this code. Pure.

A place is a device, or a machine without one: what was shown on an H200 is not undone by a newer run without a GPU.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from assay.differences import place_of
from assay.formats import distinct, listing
from assay.matrix import TIERS, natural
from assay.overall import Setting, overall, status_of
from assay.record import Artifact, Claim, Digest, Overall, StageName


@dataclass(frozen=True)
class RunRecords:
    """All records of one run by path, sound and whole. `published`: it lies in the archive, and wins over results/.

    `now` maps the files at hand to their digests: each source that the records were made from and that is still there.
    """

    name: str
    records: Mapping[str, Artifact[Any]]
    now: Mapping[str, Digest]
    published: bool

    def one(self, stage: StageName) -> Artifact[Any]:
        """Return the record of a stage that has one."""
        return next(record for record in self.records.values() if record.stage == stage)

    @property
    def claims(self) -> Sequence[Claim]:
        """What the run claims."""
        found: Sequence[Claim] = self.one("claims").result.claims
        return found

    @property
    def place(self) -> str:
        """The device it ran on."""
        return place_of(self.one("environment").result)

    @property
    def started(self) -> str:
        """When its claims were derived."""
        return self.one("claims").run.started

    @property
    def kernels(self) -> list[str]:
        """The kernels that it claims something of."""
        return distinct(claim.kernel for claim in self.claims if claim.kernel != "*")


@dataclass(frozen=True)
class KernelStanding:
    """What one run shows of one kernel. `changed`: the sources that are no longer what they were."""

    kernel: str
    status: Overall
    shown: str
    changed: Sequence[str]


@dataclass(frozen=True)
class Standing:
    """What one run shows of the kernels of which none is newer, in rows and in one sentence."""

    run: RunRecords
    kernels: Sequence[KernelStanding]
    sentence: str


def _about(run: RunRecords, kernels: Sequence[str]) -> list[Artifact[Any]]:
    """Return the records that say something of these kernels, the machine's own and the claims among them."""
    named = [record for record in run.records.values() if record.kernel in (None, *kernels)]
    return [record for record in named if record.stage not in ("report", "bundle")]


def _changed(run: RunRecords, kernels: Sequence[str]) -> list[str]:
    """Return the sources that are not what these records were made from, kernel files first."""
    sources = {
        (name, digest)
        for record in _about(run, kernels)
        for name, digest in record.materials.items()
        if name not in run.records
    }
    changed = {name for name, digest in sources if run.now.get(name) != digest}
    return sorted(changed, key=lambda name: (not name.startswith("kernels/"), name))


def _claims(run: RunRecords, kernels: Sequence[str]) -> list[Claim]:
    """Return the claims about these kernels, stale where a source changed."""
    claims = [claim for claim in run.claims if claim.kernel in ("*", *kernels)]
    if not _changed(run, kernels):
        return claims
    return [msgspec.structs.replace(claim, freshness="stale") for claim in claims]


def stale_text(changed: Sequence[str]) -> str:
    """Return what became of the sources, such as 'stale: kernels/matmul.py changed'; nothing where all are the same."""
    more = f" and {len(changed) - 2} more" if len(changed) > 2 else ""
    return f"stale: {', '.join(changed[:2])}{more} changed" if changed else ""


def _share(claims: Sequence[Claim]) -> str | None:
    """Say how many claims of one tier passed of those that apply, and on which targets; None where none applies."""
    asked = [claim for claim in claims if claim.outcome not in ("inapplicable", "untested")]
    targets = sorted({claim.target for claim in asked if claim.target}, key=natural)
    where = f" on {listing(targets, 2, 'targets')}" if targets else ""
    return f"{sum(claim.outcome == 'passed' for claim in asked)} of {len(asked)}{where}" if asked else None


def _shown(run: RunRecords, kernel: str) -> str:
    """Return what was shown at which tiers, such as 'interpreted 3 of 3; ran, accurate 9 of 9 on sm_90'."""
    shares = {tier: _share([c for c in run.claims if (c.kernel, c.tier) == (kernel, tier)]) for tier in TIERS}
    said = [(share, [tier for tier in TIERS if shares[tier] == share]) for share in distinct(shares.values()) if share]
    return "; ".join(f"{', '.join(tiers)} {share}" for share, tiers in said) or "nothing"


def _kernel(run: RunRecords, kernel: str) -> KernelStanding:
    return KernelStanding(kernel, overall(_claims(run, [kernel])), _shown(run, kernel), _changed(run, [kernel]))


def stand(run: RunRecords, kernels: Sequence[str]) -> Standing:
    """Return what a run shows of these kernels; the sentence is about them alone."""
    days = [record.run.started[:10] for record in _about(run, kernels) if record.stage != "claims"]
    setting = Setting(run.one("environment").result, run.one("gate").result, days)
    sentence = status_of(_claims(run, kernels), setting).sentence.removesuffix(".")
    stale = stale_text(_changed(run, kernels))
    return Standing(
        run, [_kernel(run, name) for name in kernels], f"{sentence} ({stale})." if stale else f"{sentence}."
    )


def choose(runs: Sequence[RunRecords], kernel: str | None) -> list[Standing]:
    """Return what stands, newest first: of each kernel, or of `kernel` alone, the newest run at each place."""
    order = sorted(runs, key=lambda run: (run.started, run.published, run.name))
    newest = {
        (name, run.place): number for number, run in enumerate(order) for name in run.kernels if kernel in (None, name)
    }
    return [
        stand(order[number], sorted(name for (name, _), found in newest.items() if found == number))
        for number in sorted(set(newest.values()), reverse=True)
    ]
