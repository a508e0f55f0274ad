"""Command `check`: says the status of the claims, and exits with 1 naming each claim that failed."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from assay.artifact import read
from assay.privacy import one_line
from assay.record import Claim, Claims
from assay.stage import record_path


def name_of(claim: Claim) -> str:
    """Return what the claim is about: tier, kernel and variant, and target where it has one."""
    where = "" if claim.target is None else f" on {claim.target}"
    return f"{claim.tier}, {claim.kernel}, {claim.variant}{where}"


def failures(claims: Claims) -> list[str]:
    """Return one line for each failed claim: what it is about, its cause and its reason."""
    return [
        one_line(f"failed: {name_of(claim)} ({claim.cause or 'no cause given'}): {claim.reason}")
        for claim in claims.claims
        if claim.outcome == "failed"
    ]


def main(argv: Sequence[str]) -> int:
    """Return 0 where no claim failed and 1 where one did; RecordError where the claims cannot be read."""
    options = argparse.ArgumentParser(prog="python -m assay check", description="Exit with 1 naming each failed claim.")
    options.add_argument(
        "--claims", type=Path, default=record_path("claims", None), help="the record (default: %(default)s)"
    )
    claims: Claims = read(options.parse_args(argv).claims, "claims").result
    failed = failures(claims)
    print(one_line(claims.status.sentence, limit=2000))
    for line in failed:
        print(line, file=sys.stderr)
    return 1 if failed else 0
