"""Stage `teeth`: plants faults in one kernel and says which of them the evidence would have caught, and how.

Each fault is the kernel file with one change in its syntax tree. The tiers look in order, each as it looked at the
kernel itself, until one catches it; what none catches is compared with the kernel's own code. It takes minutes, so
nothing else waits for it.
"""

import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from assay.artifact import hash_materials
from assay.building import Wanted
from assay.callers import callers
from assay.cards import Card, Hold, cards_here
from assay.catching import acceptances, accepted_places, line
from assay.child import Child, adopt_orphans, compiling_environment, interpreting_environment, threads
from assay.config import stage_settings
from assay.correctness import Terms
from assay.errors import UsageError
from assay.exposing import (
    Bench,
    Faulty,
    Rebuild,
    Rest,
    add_up,
    compare_plainly,
    compile_faulty,
    is_other,
    place_of,
    settle,
    try_faulty,
    try_rest,
)
from assay.forking import Session, opening
from assay.journal import Journal, open_journal
from assay.mutation import mutants
from assay.original import UNCOMPARED, Asked, Original, TierName, nothing_planted
from assay.pool import Answered, Item, Pool, worker_count
from assay.progress import Progress
from assay.record import Device, Teeth, Unavailable
from assay.stage import Job, job_of, parser, record_path, run

WORKER = "assay.faulty"


NEAR_BYTES, DISTANT_BYTES = 8 * 2**30, 40 * 2**30
"""Of device memory for a process: its context and a few small tensors, or tensors that are spread past 2^31 elements,
with copies of them to compare."""


class Processes(NamedTuple):
    """What faulty versions are put before, 'cpu', 'none' or 'cuda', and how many bytes a process has of a device."""

    device: str
    each: int


def room(device: Device | None, each: int) -> int:
    """Return how many processes that take so many bytes may use a device at a time, at least one."""
    memory = 0 if device is None or isinstance(device.memory_bytes, Unavailable) else device.memory_bytes
    return max(1, memory // each)


@dataclass(frozen=True)
class Field:
    """What all faults of one kernel have in common; `cards` may be used, `card` is held, by the locks `files`."""

    job: Job
    original: Original
    folder: Path
    cards: Sequence[Card]
    journal: Journal
    card: Card | None = None
    files: Sequence[int] = ()

    def bench(self, tier: TierName) -> Bench:
        """Return what a faulty kernel is put before at a tier."""
        terms = Terms(self.job.settings.seeds, self.job.settings.teeth.limit_s)
        assert self.job.kernel is not None
        return Bench(self.job.kernel, self.original, tier, terms)

    def environment(self, device: str, count: int) -> dict[str, str]:
        """Return the environment of so many children at a time, which share the cores."""
        if device == "cpu":
            return interpreting_environment()
        environment = compiling_environment(str(self.folder / "cache")) | threads(max(1, worker_count(0) // count))
        return environment | ({} if self.card is None else self.card.variables)

    def children(self, device: str, each: int) -> list[Child]:
        """Return children that have imported everything; on a device as many as have `each` so many bytes."""
        count = worker_count(self.job.settings.teeth.workers)
        if device == "cuda":
            count = min(count, room(self.original.device, each))
        environment = self.environment(device, count)
        command = [sys.executable, "-m", WORKER, device]
        first = opening(self.job.settings.loading.limit_s)
        logs = [self.job.log.with_name(f"teeth-{device}-{number}.log") for number in range(count)]
        return [Child(command, environment, log, first, held=self.files) for log in logs]

    def ask(
        self,
        what: str,
        items: Sequence[Item],
        ask: Callable[[Child, Item], Answered],
        keep: Callable[[Item], None],
        processes: Processes,
    ) -> list[Answered]:
        """Ask of every item, and say how far it is."""
        progress = Progress(f"teeth {self.job.name}, {what}", len(items))
        answers = Pool(items, ask, progress, keep).run(self.children(*processes)) if items else []
        progress.close(f"{len(items)} done")
        return list(answers)

    def look(
        self,
        phase: str,
        faults: Sequence[Faulty],
        look: Callable[[Child, Faulty], None],
        device: str,
    ) -> None:
        """Look at every fault that no earlier run has looked at in this phase, and keep what is found of each."""
        earlier = [(faulty, self.journal.of(phase, faulty.sha256)) for faulty in faults]

        def keep(faulty: Faulty) -> None:
            self.journal.add(faulty.known(self.journal.made_of, phase))

        new = [faulty for faulty, known in earlier if known is None]
        self.ask(phase, new, look, keep, Processes(device, NEAR_BYTES))
        for faulty, known in earlier:
            if known is not None:
                faulty.recall(known)

    def make(self, rests: Sequence[Rest], phase: str, each: int) -> None:
        """Make every part that no earlier run has made, and keep what it shows."""
        bench = self.bench("gpu")
        for rest in rests:
            known = self.journal.of(rest.phase, rest.faulty.sha256)
            rest.exposure = None if known is None else known.exposures[0]

        def keep(rest: Rest) -> None:
            if rest.exposure is not None:
                self.journal.add(rest.known(self.journal.made_of))

        new = [rest for rest in rests if rest.exposure is None]
        self.ask(f"{phase}, more", new, lambda child, rest: try_rest(child, rest, bench), keep, Processes("cuda", each))


def write_all(job: Job, original: Original, folder: Path) -> list[Faulty]:
    """Write every faulty version of the kernel file, each in a folder of its own that reasons name alike."""
    assert job.kernel is not None
    source, found = job.kernel.read_text("utf-8"), list[Faulty]()
    for number, mutation in enumerate(mutants(source)):
        path = folder / str(number) / "kernels" / job.kernel.name
        path.parent.mkdir(parents=True)
        path.write_text(mutation.text, "utf-8")
        found.append(Faulty(mutation, path, original.using(callers(source, mutation.function))))
    return found


def interpret(field: Field, faults: Sequence[Faulty]) -> None:
    """Put every fault before the interpreter, and look at it in the reference script's way where no device will."""
    bench = field.bench("interpreter")
    trials = field.original.trials("interpreter")

    def ask(child: Child, faulty: Faulty) -> None:
        with Session(child, faulty.path) as process:
            asked = [one for part in faulty.parts(trials) for one in part]
            faulty.exposures.append(try_faulty(process, faulty, bench, asked))
            if field.original.device is None:
                compare_plainly(process, faulty, bench)

    field.look("interpreter", faults, ask, "cpu")


def compile_open(field: Field, faults: Sequence[Faulty]) -> None:
    """Compile what is not caught yet, in each precision."""
    original, limit_s = field.original, field.job.settings.compile.limit_s
    waiting = [faulty for faulty in faults if faulty.open]
    field.look("compile", waiting, lambda child, one: compile_faulty(child, one, original, limit_s), "none")


def compare_code(field: Field, faults: Sequence[Faulty]) -> None:
    """Find out which of those that nothing caught are no faults, because all of their code is the kernel's own."""
    original, limit_s, kernel = field.original, field.job.settings.compile.limit_s, field.job.kernel
    assert kernel is not None
    same = [faulty for faulty in faults if faulty.differs == UNCOMPARED and faulty.fate == "survived"]
    for faulty in same:
        faulty.differs = None
    wanted = original.rebuilds if same else []
    items = [Rebuild(faulty, Wanted(*each)) for each in wanted for faulty in same]
    ask = partial(is_other, original=original, kernel=kernel, limit_s=limit_s)
    others = field.ask("code", items, ask, lambda _: None, Processes("none", NEAR_BYTES))
    # Several are compared at a time, so that which difference was found first is chance; which is first is not.
    for item, other in reversed(list(zip(items, others, strict=True))):
        if other:
            item.faulty.differs = place_of(item.wanted)
    for faulty in same:
        settle(faulty)


def try_on_device(field: Field, faults: Sequence[Faulty]) -> None:
    """Put what is not caught yet before the device, and look at every fault in the reference script's way.

    Most faults show in the first few trials, which come for all of them first. The rest follows part by part, so that
    what survives keeps no process to itself; cases whose tensors fill the device come last, a few at a time.
    """
    bench, near = field.bench("gpu"), field.original.near("gpu")

    def ask(child: Child, faulty: Faulty) -> None:
        with Session(child, faulty.path) as process:
            if faulty.open:
                first = faulty.parts(near)[:1]
                faulty.exposures.append(try_faulty(process, faulty, bench, [one for part in first for one in part]))
            # After it, for what a fault wrote anywhere must not change what the trials see.
            compare_plainly(process, faulty, bench)

    field.look("gpu", faults, ask, "cuda")
    looked = [faulty for faulty in faults if faulty.exposures and faulty.exposures[-1].tier == "gpu"]
    try_more(field, looked, lambda faulty: faulty.parts(near)[1:], "gpu", NEAR_BYTES)
    distant = field.original.distant("gpu")
    try_more(field, looked, lambda faulty: faulty.parts(distant), "gpu, distant", DISTANT_BYTES)


def try_more(
    field: Field,
    faults: Sequence[Faulty],
    parts: Callable[[Faulty], Sequence[Sequence[Asked]]],
    phase: str,
    each: int,
) -> None:
    """Make further parts of the trials of what is not settled yet, several of one fault at a time too."""
    rests = {id(faulty): rests_of(faulty, parts(faulty), phase) for faulty in faults if not faulty.settled}
    field.make([rest for made in rests.values() for rest in made], phase, each)
    for faulty in faults:
        add_up(faulty, rests.get(id(faulty), []))


def rests_of(faulty: Faulty, parts: Sequence[Sequence[Asked]], phase: str) -> list[Rest]:
    """Return the parts as what is still to be made, each with the one before it."""
    found: list[Rest] = []
    for number, asked in enumerate(parts, 1):
        found.append(Rest(faulty, f"{phase} {number}", asked, found[-1] if found else None))
    return found


def look(field: Field, faults: Sequence[Faulty]) -> Device | None:
    """Put every fault before each tier that can look; return the card that the last one looked on, if it did."""
    tiers, device = field.original.tiers, None
    if "interpreter" in tiers:
        interpret(field, faults)
    if "compile" in tiers:
        compile_open(field, faults)
    if "gpu" in tiers:
        with Hold(field.cards, f"teeth {field.job.name}") as hold:
            card = hold.take(field.original.device)
            try_on_device(replace(field, card=card, files=hold.files), faults)
        device = card.device
    compare_code(field, faults)
    return device


def journal_path(job: Job) -> Path:
    """Return where what is found is kept until the record holds all of it."""
    return job.out.with_name("teeth.journal")


def journal_of(job: Job) -> Journal:
    """Return what an earlier run, of the same files and settings, that did not come to its end has found."""
    settings = stage_settings(job.settings, "teeth")
    return open_journal(journal_path(job), [hash_materials(job.materials()), settings])


def plant(job: Job) -> Teeth:
    """Plant every fault and put it before the tiers."""
    original = Original(job.read("interpreter").result, job.read("compile").result, job.read("gpu").result)
    if original.loading.outcome != "passed":
        return nothing_planted(original.loading)
    cards, none = cards_here(job.read("environment").result)
    if "gpu" in original.tiers and not cards:
        return nothing_planted(none)
    with tempfile.TemporaryDirectory(prefix="assay-teeth-") as folder:
        faults = write_all(job, original, Path(folder))
        device = look(Field(job, original, Path(folder), cards, journal_of(job)), faults)
    accepted = acceptances(original.declaration.equivalents, [faulty.mutation for faulty in faults])
    found = Teeth(
        loading=original.loading,
        device=device,
        tiers=original.tiers,
        mutants=[faulty.record(at in accepted_places(accepted)) for at, faulty in enumerate(faults)],
        acceptances=accepted,
    )
    print(line(str(job.name), found), file=sys.stderr)
    return found


def named(argv: Sequence[str]) -> list[str]:
    """Let a kernel be given by its name, or its path, alone: `teeth matmul` for `teeth --kernel kernels/matmul.py`."""
    if not argv or argv[0].startswith("-"):
        return list(argv)
    path = argv[0] if argv[0].endswith(".py") else f"kernels/{argv[0]}.py"
    return ["--kernel", path, *argv[1:]]


def check_ready(job: Job) -> None:
    """Refuse to start without the earlier records, which take a command each; UsageError that says the one for all."""
    missing = next((path for path in job.records.values() if not path.exists()), None)
    if missing is not None:
        command = f"snakemake --cores 1 {record_path('teeth', job.name)}"
        raise UsageError(f"{missing}: expected what the kernel itself passes, found no such file; {command} makes all")


def main(argv: Sequence[str]) -> int:
    """Run the stage."""
    arguments = named(argv)
    adopt_orphans()
    job = job_of("teeth", parser("teeth", per_kernel=True).parse_args(arguments))
    check_ready(job)
    code = run("teeth", arguments, plant)
    journal_path(job).unlink(missing_ok=True)
    return code
