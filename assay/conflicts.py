"""Finds where programs of one launch use the same memory with nothing between them that puts them in order. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal, NamedTuple

import numpy as np

from assay.addresses import Array
from assay.ordering import NOTHING, Clock, knows


@dataclass(frozen=True)
class Access:
    """The lanes of one load or store: their addresses (flat, uint64), and the program, numbered in the order they ran.

    `epoch`: which of the program's it belongs to. `clock`: what the program knew of others. `line`: where in the kernel
    file it stands, or "" outside one.
    """

    program: int
    addresses: Array
    epoch: int = 0
    clock: Clock = field(default_factory=lambda: NOTHING)
    line: str = ""


class Conflict(NamedTuple):
    """What two programs do to one address, or two lanes of one store."""

    kind: Literal["lanes", "store", "load"]
    one: Access
    other: Access


def in_order(one: Access, other: Access) -> bool:
    """Return whether two accesses come one after the other under every schedule."""
    earlier, later = sorted((one, other), key=lambda access: access.program)
    return one.program == other.program or knows(later.clock, earlier.program, earlier.epoch)


def _by_address(accesses: Sequence[Access]) -> tuple[Array, Array]:
    """Return the addresses of all lanes, sorted, and beside each the number of its access."""
    owners = np.repeat(np.arange(len(accesses)), [access.addresses.size for access in accesses])
    addresses = np.concatenate([access.addresses for access in accesses])
    # Stable, so that those to one address stand as they happened.
    order = np.argsort(addresses, kind="stable")
    return addresses[order], owners[order]


def shared(accesses: Sequence[Access]) -> Access | None:
    """Return the last access to an address that an earlier one, of another program or another lane, is to as well."""
    if not accesses:
        return None
    addresses, owners = _by_address(accesses)
    programs = np.array([access.program for access in accesses])[owners]
    same = addresses[1:] == addresses[:-1]
    same &= (programs[1:] != programs[:-1]) | (owners[1:] == owners[:-1])
    return accesses[owners[1:][same].max()] if same.any() else None


def first_conflict(loads: Sequence[Access], stores: Sequence[Access]) -> Conflict | None:
    """Return a conflict between accesses, each list as they happened, or None: of stores first, then of loads."""
    if not stores:
        return None
    addresses, owners = _by_address(stores)
    found = chain(_between_stores(stores, addresses, owners), _with_loads(loads, stores, addresses, owners))
    return next(found, None)


def _between_stores(stores: Sequence[Access], addresses: Array, owners: Array) -> Iterator[Conflict]:
    """Yield conflicts of neighbours alone: order passes on from each to the next."""
    same = addresses[1:] == addresses[:-1]
    for one, other in np.unique(np.stack((owners[:-1][same], owners[1:][same]), axis=1), axis=0).tolist():
        if one == other:
            yield Conflict("lanes", stores[one], stores[one])
        elif not in_order(stores[one], stores[other]):
            yield Conflict("store", stores[one], stores[other])


def _with_loads(
    loads: Sequence[Access], stores: Sequence[Access], addresses: Array, owners: Array
) -> Iterator[Conflict]:
    for load in loads:
        first, past = (np.searchsorted(addresses, load.addresses, side) for side in ("left", "right"))
        # Each turn looks at one more store to every address.
        while (stored := first < past).any():
            first, past = first[stored], past[stored]
            for owner in np.unique(owners[first]).tolist():
                if not in_order(load, stores[owner]):
                    yield Conflict("load", load, stores[owner])
            first = first + 1
