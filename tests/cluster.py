"""A real Slurm of one node on this machine, for as long as a test needs it. `python tests/cluster.py` installs it.

The daemons belong to the process that starts them and keep everything in a folder that is given, but for two files
that the Slurm plugin looks for in one place only. A machine that has a Slurm of its own is left alone.
"""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

SETTINGS = Path("/etc/slurm/slurm.conf")
DEVICES = SETTINGS.with_name("gres.conf")
PACKAGES = ("slurm-wlm", "munge")
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol")

# The node has more memory than this machine may have: nothing here measures what a job takes.
SLURM = """\
# Written by tests/cluster.py, process {process}, which removes it. Left behind by a process that was killed: delete it.
ClusterName=assay
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser=root
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
SlurmdParameters=config_overrides
NodeName=node NodeHostname={host} NodeAddr=127.0.0.1 CPUs={cores} RealMemory=64000 Gres=gpu:1
PartitionName=main Nodes=ALL Default=YES State=UP
"""
# Any file will do for a card: Slurm counts it and sets CUDA_VISIBLE_DEVICES.
GRES = "NodeName=node Name=gpu File=/dev/null Count=1\n"


def lacking() -> list[str]:
    """Return the programs that are not installed."""
    # Debian puts the daemons where only root's path leads.
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    return [name for name in PROGRAMS if shutil.which(name, path=path) is None]


def obstacle(root: bool, taken: list[Path], lacks: list[str], installer: bool) -> str | None:
    """Return why no Slurm can be started here, in one sentence, or None."""
    if taken:
        return f"{taken[0]} exists, and this test starts a Slurm only where there is none: run it elsewhere"
    if not root:
        return f"a Slurm for the test takes root, who alone may write {SETTINGS}: run `make slurm-test` as root"
    if lacks and not installer:
        return f"{', '.join(lacks)}: not found, and no apt-get to install {' and '.join(PACKAGES)} with"
    return None


def obstacle_here() -> str | None:
    """Return why no Slurm can be started on this machine, or None."""
    taken = [path for path in (SETTINGS, DEVICES) if path.exists()]
    return obstacle(os.geteuid() == 0, taken, lacking(), shutil.which("apt-get") is not None)


def install() -> None:
    """Install what is missing with apt-get; the daemons that Debian would start have nothing to run with."""
    quietly = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "--yes", "--no-install-recommends", *PACKAGES]):
        subprocess.run(["apt-get", "-qq", *command], env=quietly, stdout=sys.stderr, check=True)


def free_ports(number: int) -> list[int]:
    """Return ports that nobody listens on now, each another."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def wait_until(happened: Callable[[], bool], what: str, limit_s: float) -> None:
    """Ask again and again; AssertionError with `what` where it has not happened in time."""
    deadline = time.monotonic() + limit_s
    while not happened():
        assert time.monotonic() < deadline, f"not within {limit_s} s: {what}"
        time.sleep(0.1)


def slurm(*command: str) -> str:
    """Return what a Slurm command prints, or nothing where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout if done.returncode == 0 else ""


def jobs() -> dict[str, dict[str, str]]:
    """Return every job that Slurm remembers, by number, with what `scontrol` says of it."""
    found: dict[str, dict[str, str]] = {}
    for line in slurm("scontrol", "show", "job", "--oneliner").splitlines():
        pairs = dict(word.split("=", 1) for word in line.split() if "=" in word)
        if "JobId" in pairs:
            found[pairs["JobId"]] = pairs
    return found


def _key(folder: Path) -> Path:
    """Make the secret by which the daemons and commands know each other."""
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(128))
    return key


def _settings(folder: Path) -> str:
    controller_port, node_port = free_ports(2)
    return SLURM.format(
        process=os.getpid(),
        host=socket.gethostname().split(".")[0],
        folder=folder,
        cores=len(os.sched_getaffinity(0)),
        controller_port=controller_port,
        node_port=node_port,
    )


@contextlib.contextmanager
def _written(path: Path, content: str) -> Iterator[None]:
    """Keep a file that is not there yet, never in the place of somebody's own."""
    path.parent.mkdir(exist_ok=True)
    with path.open("x", encoding="utf-8") as stream:
        stream.write(content)
    try:
        yield
    finally:
        path.unlink()


@contextlib.contextmanager
def _daemon(folder: Path, *command: str) -> Iterator[None]:
    """Run a daemon that stays in the foreground, and stop it at the end."""
    path = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])
    with (folder / f"{command[0]}.log").open("wb") as log:
        process = subprocess.Popen(
            command, env={**os.environ, "PATH": path}, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _end_jobs() -> None:
    """End all jobs, so that none of their processes outlives the daemons."""
    slurm("scancel", "--user", "root")
    with contextlib.suppress(AssertionError):
        wait_until(lambda: not slurm("squeue", "--noheader"), "the jobs have ended", 30)


def _leave(number: int, _: FrameType | None) -> None:
    """End this process in the way that cleans up."""
    sys.exit(128 + number)


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[None]:
    """Run a Slurm of one node with one GPU in `folder`; at the end nothing of it is left outside."""
    for name in ("state", "spool"):
        (folder / name).mkdir()
    munge = [f"--{name}-file={folder}/munge.{name}" for name in ("pid", "seed", "log")]
    # Forced, since munged wants a socket that every user can reach, and this one is for root alone.
    munge += ["--foreground", "--force", f"--socket={folder}/munge.socket", f"--key-file={_key(folder)}"]
    with contextlib.ExitStack() as kept:
        kept.callback(signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, _leave))
        kept.enter_context(_written(SETTINGS, _settings(folder)))
        kept.enter_context(_written(DEVICES, GRES))
        kept.enter_context(_daemon(folder, "munged", *munge))
        wait_until((folder / "munge.socket").exists, "munged has its socket", 20)
        kept.enter_context(_daemon(folder, "slurmctld", "-D"))
        kept.enter_context(_daemon(folder, "slurmd", "-D", "-N", "node"))
        kept.callback(_end_jobs)
        wait_until(lambda: "idle" in slurm("sinfo", "--noheader", "--format=%T"), "the node is idle", 60)
        yield


def main() -> None:
    """Install what is missing, or say why the test cannot run here."""
    if reason := obstacle_here():
        sys.exit(reason)
    if lacking():
        install()
    if lacks := lacking():
        sys.exit(f"{', '.join(lacks)}: not found, though {' and '.join(PACKAGES)} are installed")


if __name__ == "__main__":
    main()
