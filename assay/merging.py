"""The claims of several bundles as one set: pure, and the same for the same bundles in any order.

A claim that passed in one bundle and failed in another, for one source of a kernel, is a conflict; nothing is decided
by which came last.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from assay.admission import chosen_device
from assay.formats import distinct, short
from assay.opening import Opened, UnsoundError
from assay.overall import Setting, status_over
from assay.record import (
    Account,
    Claim,
    Contribution,
    Digest,
    Environment,
    KernelSource,
    Merged,
    MergedClaim,
    Outcome,
    Status,
    Tier,
    Unavailable,
)
from assay.tiers import ALL

DECIDES: tuple[Outcome, ...] = ("failed", "passed", "cantTell", "untested", "inapplicable")
"""Which outcome stands for several: what was tried before what was not, and what does not apply on one machine last."""

VERSIONS = ("triton", "torch", "numpy")


class Key(NamedTuple):
    """What a claim is about, over all machines. `machine` is empty but for a gate, which is of one."""

    kernel: str
    source: Digest | None
    variant: str
    tier: Tier
    target: str | None
    machine: str


# What one bundle brings


def contribution(opened: Opened) -> Contribution:
    """Return a bundle's machine, versions and dates."""
    environment: Environment = opened.one("environment").result
    claims = opened.one("claims").result
    device, driver = chosen_device(environment), environment.driver
    none = Unavailable(reason="no device for kernels to run on")
    installed = {name: environment.distributions[name] for name in VERSIONS if name in environment.distributions}
    started = sorted(record.run.started for record in opened.records.values())
    return Contribution(
        name=opened.name,
        sha256=opened.bag.manifest_sha256,
        device=none if device is None else device.name,
        target=none if device is None else device.target,
        driver=driver if isinstance(driver, Unavailable) else driver.version,
        versions={environment.python.implementation: environment.python.version, **installed},
        first=started[0],
        last=started[-1],
        source=claims.source,
        status=claims.status,
    )


def sources_of(opened: Opened) -> dict[str, Digest]:
    """Map each kernel that a bundle's claims are about to its file's digest; UnsoundError where there is no file."""
    found = {}
    for kernel in distinct(claim.kernel for claim in opened.one("claims").result.claims if claim.kernel != ALL):
        path = f"kernels/{kernel}.py"
        if path not in opened.bag.digests:
            raise UnsoundError(f"{path!a}: expected the source of a kernel that is claimed about, found no such file")
        found[kernel] = opened.bag.digests[path]
    return found


def _account(opened: Opened, claim: Claim) -> Account:
    rested_on = [opened.records[link.artifact] for link in claim.links if link.artifact in opened.records]
    newest = max((record.run.started for record in rested_on), default=opened.one("claims").run.started)
    return Account(
        bundle=opened.bag.manifest_sha256,
        day=newest[:10],
        outcome=claim.outcome,
        cause=claim.cause,
        reason=claim.reason,
        figures=claim.figures,
        freshness=claim.freshness,
        links=claim.links,
    )


def accounts_of(opened: Opened) -> Iterator[tuple[Key, Claim, Account]]:
    """Yield each claim of a bundle with what it is about and what the bundle says of it."""
    sources = sources_of(opened)
    for claim in opened.one("claims").result.claims:
        machine = opened.bag.manifest_sha256 if claim.tier == "gated" else ""
        key = Key(claim.kernel, sources.get(claim.kernel), claim.variant, claim.tier, claim.target, machine)
        yield key, claim, _account(opened, claim)


# The sources of one kernel


def _standing(kernel: str, digest: Digest, at_hand: Digest | None, newest: Digest) -> tuple[bool, str]:
    """Return whether a source is current, and why, in words."""
    if at_hand is not None:
        said = "is" if digest == at_hand else "is not"
        return digest == at_hand, f"it {said} the kernels/{kernel}.py at hand"
    current = digest == newest
    return current, f"no kernels/{kernel}.py is at hand; {'no' if current else 'a'} newer bundle has another source"


def kernel_sources(bundles: Sequence[Opened], at_hand: Mapping[str, Digest]) -> list[KernelSource]:
    """Return every source of every kernel, the leading one of each first; `bundles` are in the order of their dates."""
    holders: dict[str, dict[Digest, list[Digest]]] = defaultdict(dict)
    for opened in bundles:
        for kernel, digest in sources_of(opened).items():
            # Taken out and put in again, so that the sources stand in the order in which they were last seen.
            holders[kernel][digest] = [*holders[kernel].pop(digest, []), opened.bag.manifest_sha256]
    found = []
    for kernel, by_digest in sorted(holders.items()):
        newest_first = list(reversed(by_digest))
        leading = at_hand.get(kernel) if at_hand.get(kernel) in by_digest else newest_first[0]
        for digest in sorted(newest_first, key=lambda digest: digest != leading):
            current, why = _standing(kernel, digest, at_hand.get(kernel), newest_first[0])
            found.append(
                KernelSource(
                    kernel=kernel,
                    sha256=digest,
                    freshness="current" if current else "stale",
                    reason=why,
                    leading=digest == leading,
                    bundles=by_digest[digest],
                )
            )
    return found


# One claim


def weigh(outcomes: Iterable[Outcome]) -> Outcome | Literal["conflict"]:
    """Return what several outcomes of one claim come to: passed and failed are a conflict."""
    found = set(outcomes)
    if {"passed", "failed"} <= found:
        return "conflict"
    return next(outcome for outcome in DECIDES if outcome in found)


def deciding(accounts: Sequence[Account]) -> list[Account]:
    """Return the accounts that a claim's outcome comes from: both sides of a conflict."""
    outcome = weigh(account.outcome for account in accounts)
    outcomes = ("passed", "failed") if outcome == "conflict" else (outcome,)
    return [account for account in accounts if account.outcome in outcomes]


def _said(accounts: Sequence[Account], outcome: str, labels: Mapping[Digest, str]) -> str:
    if outcome != "conflict":
        return accounts[-1].reason
    sides = {
        word: ", ".join(f"{labels[a.bundle]} on {a.day}" for a in accounts if a.outcome == word)
        for word in ("passed", "failed")
    }
    return f"passed in {sides['passed']}; failed in {sides['failed']}"


def _merge(key: Key, claim: Claim, accounts: list[Account], stale: bool, labels: Mapping[Digest, str]) -> MergedClaim:
    """Return one claim over all bundles; the newest of the deciding accounts gives reason and cause."""
    outcome, decided = weigh(account.outcome for account in accounts), deciding(accounts)
    fresh = not stale and any(account.freshness == "current" for account in decided)
    return MergedClaim(
        kernel=key.kernel,
        source=key.source,
        variant=key.variant,
        tier=key.tier,
        target=key.target,
        sentence=claim.sentence,
        outcome=outcome,
        cause=None if outcome == "conflict" else decided[-1].cause,
        reason=_said(decided, outcome, labels),
        freshness="current" if fresh else "stale",
        accounts=accounts,
    )


# All of them


def ordered(bundles: Iterable[Opened]) -> list[Opened]:
    """Return the bundles in the order of their dates, each content once."""
    once = {opened.bag.manifest_sha256: opened for opened in sorted(bundles, key=lambda opened: opened.name)}
    return sorted(once.values(), key=lambda opened: (contribution(opened).last, opened.bag.manifest_sha256))


def label(number: int, bundle: Contribution) -> str:
    """Return what a bundle is called in sentences, by its place among the bundles."""
    device = "no GPU" if isinstance(bundle.device, Unavailable) else bundle.device
    return f"bundle {number} ({device}, Triton {bundle.versions.get('triton', 'of unknown version')})"


def _notes(bundles: Sequence[Contribution], sources: Sequence[KernelSource]) -> list[str]:
    by_name: dict[str, list[str]] = defaultdict(list)
    for bundle in bundles:
        by_name[bundle.name].append(short(bundle.sha256))
    notes = [
        f"{len(digests)} bundles have the name {name} and different contents: {', '.join(digests)}"
        for name, digests in sorted(by_name.items())
        if len(digests) > 1
    ]
    gone = [source.kernel for source in sources if source.leading and source.freshness == "stale"]
    return [*notes, *(f"No bundle is of the kernels/{kernel}.py at hand" for kernel in gone)]


def counted(claims: Iterable[MergedClaim], sources: Iterable[KernelSource]) -> list[MergedClaim]:
    """Return the claims that the status is about: the gates', and those about each kernel's leading source."""
    leading = {(source.kernel, source.sha256) for source in sources if source.leading}
    return [claim for claim in claims if claim.source is None or (claim.kernel, claim.source) in leading]


def _as_claim(merged: MergedClaim) -> Claim:
    return Claim(
        kernel=merged.kernel,
        variant=merged.variant,
        tier=merged.tier,
        target=merged.target,
        sentence=merged.sentence,
        outcome="failed" if merged.outcome == "conflict" else merged.outcome,
        cause=merged.cause,
        reason=merged.reason,
        figures={},
        freshness=merged.freshness,
        links=[],
    )


def _status(bundles: Sequence[Opened], claims: Sequence[MergedClaim]) -> Status:
    settings = [
        Setting(
            opened.one("environment").result,
            opened.one("gate").result,
            [record.run.started[:10] for record in opened.records.values()],
        )
        for opened in bundles
    ]
    agreed, conflicts = [
        [_as_claim(claim) for claim in claims if (claim.outcome == "conflict") == wanted] for wanted in (False, True)
    ]
    return status_over(agreed, conflicts, settings)


def merge(given: Iterable[Opened], at_hand: Mapping[str, Digest]) -> Merged:
    """Return the bundles as one. `at_hand` maps kernels to the digests of their files in the checkout."""
    bundles = ordered(given)
    sources = kernel_sources(bundles, at_hand)
    stale = {(source.kernel, source.sha256) for source in sources if source.freshness == "stale"}
    brought = [contribution(opened) for opened in bundles]
    labels = {bundle.sha256: label(number, bundle) for number, bundle in enumerate(brought, 1)}
    found: dict[Key, list[tuple[Claim, Account]]] = defaultdict(list)
    for opened in bundles:
        for key, claim, account in accounts_of(opened):
            found[key].append((claim, account))
    claims = [
        _merge(key, told[-1][0], [account for _, account in told], (key.kernel, key.source) in stale, labels)
        for key, told in found.items()
    ]
    place = {(source.kernel, source.sha256): number for number, source in enumerate(sources)}
    claims.sort(key=lambda claim: -1 if claim.source is None else place[claim.kernel, claim.source])
    return Merged(
        status=_status(bundles, counted(claims, sources)),
        bundles=brought,
        sources=sources,
        claims=claims,
        notes=_notes(brought, sources),
    )
