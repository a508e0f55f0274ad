"""Requirements on what a bundle shows, such as 'matmul/tf32 accurate sm_90': read, and held against its claims. Pure.

A requirement has two forms:

    <kernel>[/<precision>[/<configuration>]] <tier> [<target>]
    status <status>[|<status>]...

Each part of the first may be a pattern with `*`, `?` and `[...]`; a part that is left out stands for all. It is met
where a matching claim passed, and every other one that applies passed too and is current. A status of more than one
word stands in double quotes.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import get_args

from assay.errors import UsageError
from assay.privacy import one_line
from assay.record import Claim, Claims, Overall, Tier

FORM = "<kernel>[/<precision>[/<configuration>]] <tier> [<target>], or status <status>[|<status>]..."
TIERS: tuple[Tier, ...] = get_args(Tier)
STATUSES: tuple[Overall, ...] = get_args(Overall)
NAMED = 3
"""Claims that the sentence about an unmet requirement names; of more it says how many."""

_PATTERN = re.compile(r"[A-Za-z0-9_.+*?\[\]!-]+")


@dataclass(frozen=True)
class ClaimsRequired:
    """Claims that must have passed: patterns for kernel, precision, configuration, tier and target."""

    parts: tuple[str, str, str, str, str]

    def matches(self, claim: Claim) -> bool:
        """Return whether a claim is one of those meant."""
        precision, _, configuration = claim.variant.partition("/")
        named = (claim.kernel, precision, configuration, claim.tier, claim.target or "")
        return all(fnmatchcase(name, pattern) for name, pattern in zip(named, self.parts, strict=True))


@dataclass(frozen=True)
class StatusRequired:
    """The overall statuses that will do."""

    allowed: tuple[Overall, ...]


Requirement = ClaimsRequired | StatusRequired


def _malformed(text: str, expected: str) -> UsageError:
    return UsageError(f"--require: expected {expected}, found {one_line(text, 120)!r}; --help has examples")


def _read_status(text: str, words: str) -> StatusRequired:
    allowed = []
    for word in words.split("|"):
        bare = re.fullmatch(r'\s*(?:"([^"]*)"|(\S+))\s*', word)
        status = next((status for status in STATUSES if bare and status in bare.groups()), None)
        if status is None:
            listed = ", ".join(f'"{status}"' for status in STATUSES)
            raise _malformed(text, f"one or more of {listed} behind 'status', with '|' between them")
        allowed.append(status)
    return StatusRequired(tuple(allowed))


def read_requirement(text: str) -> Requirement:
    """Read one requirement; UsageError where it is not in either form, or names a tier or status that there is not."""
    words = text.split()
    if words[:1] == ["status"]:
        return _read_status(text, text.strip().removeprefix("status"))
    if not 2 <= len(words) <= 3:
        raise _malformed(text, FORM)
    subject, tier, target = [*words, "*"][:3]
    names = subject.split("/", 2)
    patterns = [*names, "*", "*"][:3]
    for pattern in (*patterns, tier, target):
        if not _PATTERN.fullmatch(pattern):
            raise _malformed(text, "names and patterns of letters, digits and _.+-*?[!]")
    if not any(fnmatchcase(known, tier) for known in TIERS):
        raise _malformed(text, f"one of the tiers {', '.join(TIERS)}")
    return ClaimsRequired((patterns[0], patterns[1], patterns[2], tier, target))


def _named(claim: Claim) -> str:
    return " ".join(filter(None, (f"{claim.kernel}/{claim.variant}", claim.tier, claim.target)))


def _said(claim: Claim) -> str:
    cause = f" ({claim.cause})" if claim.cause else ""
    state = "stale" if claim.outcome == "passed" else f"{claim.outcome}{cause}"
    return f"{_named(claim)} is {state}: {one_line(claim.reason, 160)}"


def _unmet_claims(requirement: ClaimsRequired, claims: Sequence[Claim]) -> str | None:
    matching = [claim for claim in claims if requirement.matches(claim)]
    if not matching:
        return "no claim matches"
    asked = [claim for claim in matching if claim.outcome != "inapplicable"]
    # Where nothing applies nothing was shown, and who requires something wants it shown.
    short = [claim for claim in asked or matching if claim.outcome != "passed" or claim.freshness != "current"]
    if not short:
        return None
    more = f"; and {len(short) - NAMED} more" if len(short) > NAMED else ""
    return "; ".join(map(_said, short[:NAMED])) + more


def unmet(requirement: Requirement, claims: Claims) -> str | None:
    """Return why a requirement is not met, naming the claims that fall short; None where it is."""
    if isinstance(requirement, StatusRequired):
        return None if claims.status.overall in requirement.allowed else f"the status is {claims.status.overall}"
    return _unmet_claims(requirement, claims.claims)
