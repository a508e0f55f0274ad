"""Which cards a job may use, and holding one so that no other job is on it.

A lock is a file for each card, by its UUID, in a folder of this user and host: every run of this user meets there. The
system frees it when the last process that holds it has ended, however it ends.
"""

import errno
import fcntl
import os
import stat
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from assay import kfd
from assay.admission import kind, unlisted, usable
from assay.errors import UsageError
from assay.nvml import Shown, library, read_shown
from assay.privacy import one_line
from assay.record import Device, Environment, Unavailable, Verdict

FOLDER = Path("/tmp")  # noqa: S108, since the folder within is checked
"""Not TMPDIR: shells and schedulers set one for each job, and two jobs must meet."""
ASKING_S = 0.5
"""Between two looks at whether a card is free."""
SAYING_S = 60.0
"""Between two lines of a job that waits: it may wait for hours."""
NAME_BYTES = 200
"""Of what a holder writes into its lock, for those who wait."""


@dataclass(frozen=True)
class Card:
    """A card that a job may use: as the environment captured it, by its UUID and by what selects it alone; both None
    where NVML does not tell them.
    """

    device: Device
    uuid: str | None
    selector: str | None

    @property
    def variables(self) -> dict[str, str]:
        """What makes this card the only one that a process sees."""
        return {} if self.selector is None else {"CUDA_VISIBLE_DEVICES": self.selector}

    def named(self, uuid: str) -> bool:
        """Return whether a process whose device torch says is of this UUID, without prefix, is on this card, or on the
        instance of it that was selected.
        """
        return self.uuid is None or not {f"GPU-{uuid}", f"MIG-{uuid}"}.isdisjoint((self.uuid, self.selector))

    @property
    def lock(self) -> str:
        """The name of its lock."""
        return quote(self.uuid or "card-without-uuid", safe="")


def matching(shown: Sequence[Shown], environment: Environment) -> list[Card]:
    """Return those of the devices shown to this job that the environment captured, of the kind that its run is over.

    A device without a UUID is taken for a captured one of its kind, and only the first can be used: nothing selects
    another.
    """
    found, captured = list[Card](), usable(environment)
    for at, one in enumerate(shown):
        mine, named = one.device.uuid_hash, isinstance(one.device.uuid_hash, str)
        same = [d for d in captured if (d.uuid_hash == mine if named else kind(d) == kind(one.device))]
        if same and (one.selector is not None or at == 0):
            found.append(Card(same[0], one.uuid, one.selector))
    return found


def cards_here(environment: Environment) -> tuple[list[Card], Verdict]:
    """Return the cards that this job may use, and the verdict where there is none. Asks the driver now, since a
    scheduler shows each job other cards than those that were captured.
    """
    nvml = library()
    shown = [] if isinstance(nvml, Unavailable) else read_shown(nvml, os.environ.get("CUDA_VISIBLE_DEVICES"))
    shown = shown or kfd.read_shown(os.environ)
    return matching(shown, environment), unlisted(environment, [one.device for one in shown])


def lock_folder() -> Path:
    """Return this user's folder of locks, made if need be; UsageError where somebody else could write there."""
    folder = FOLDER / f"assay-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise UsageError(
            f"{folder}: expected a folder for the locks of cards, found {error.strerror}; see to it that "
            f"this user can make one in {FOLDER}, or remove what is there instead"
        ) from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise UsageError(f"{folder}: expected a folder of this user alone (mode 700), found another; remove it")
    return folder


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(f"{path}: expected a lock of this user's, found {error.strerror}; remove it") from None


def _take(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise
        return False
    return True


def _holder(lock: int) -> str:
    """Return what the holder of a lock wrote into it."""
    return one_line(os.pread(lock, NAME_BYTES, 0).decode("utf-8", "replace")) or "another process"


def _sign(lock: int, label: str) -> None:
    os.ftruncate(lock, 0)
    os.pwrite(lock, one_line(f"process {os.getpid()}, {label}").encode()[:NAME_BYTES], 0)


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@dataclass
class Hold:
    """The locks of some cards, opened; one is taken when the card is needed, and let go at the end.

    `files` are for the child processes: a child that outlives this process still uses the card, so it keeps the lock.
    Children must have ended before this ends.
    """

    cards: Sequence[Card]
    label: str
    say: Callable[[str], None] = _print
    files: list[int] = field(default_factory=list)

    def __enter__(self) -> Self:
        folder = lock_folder()
        self.files += [_opened(folder / card.lock) for card in self.cards]
        return self

    def __exit__(
        self, error_kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Closed and not unlocked: what a child left behind may still use the card.
        while self.files:
            os.close(self.files.pop())

    def _free(self, order: Sequence[int]) -> int | None:
        return next((at for at in order if _take(self.files[at])), None)

    def _waiting(self, since: float) -> str:
        count, waited = len(self.cards), time.monotonic() - since
        held = "; ".join(dict.fromkeys(_holder(lock) for lock in self.files))
        which = f"{self.cards[0].device.name} is" if count == 1 else f"one of {count} cards is"
        return f"{self.label}: waits, with no limit, until {which} free; held by {held}; {waited:.0f} s so far"

    def take(self, wanted: Device | None = None) -> Card:
        """Return a card and hold it: the wanted one if it is free, else the first that is. Waits as long as it takes,
        and says so.
        """
        order = sorted(range(len(self.cards)), key=lambda at: self.cards[at].device != wanted)
        since, said = time.monotonic(), -SAYING_S
        while (at := self._free(order)) is None:
            if time.monotonic() - since - said >= SAYING_S:
                said = time.monotonic() - since
                self.say(self._waiting(since))
            time.sleep(ASKING_S)
        _sign(self.files[at], self.label)
        return self.cards[at]
