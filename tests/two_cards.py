"""A machine with two cards that are none: NVML lists them, the gate finds them, and work on them is done by the host.

Everything between is the project's own: the workflow, the stages, their child processes and the locks.
"""

import os
from pathlib import Path

from project import KERNELS, Project, new_project

UUIDS = ("GPU-aaaaaaaa-0000-4000-8000-000000000001", "GPU-bbbbbbbb-0000-4000-8000-000000000002")

NVML = """
class NVMLError(Exception):
    pass

NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0
UUIDS = (FIRST, SECOND)

def answering(value):
    return lambda *arguments: value

nvmlInit = nvmlShutdown = answering(None)
nvmlDeviceGetCount = answering(len(UUIDS))
nvmlSystemGetDriverVersion = nvmlSystemGetNVMLVersion = answering("580.159.04")
nvmlSystemGetCudaDriverVersion_v2 = answering(13010)
nvmlDeviceGetHandleByIndex = lambda index: index
nvmlDeviceGetUUID = lambda index: UUIDS[index]
nvmlDeviceGetName = answering("NVIDIA H200")
nvmlDeviceGetCudaComputeCapability = answering((9, 0))
nvmlDeviceGetPowerManagementLimit = answering(700000)
nvmlDeviceGetMaxClockInfo = answering(1980)

def refuse(*arguments):
    raise NVMLError("Not Supported")

nvmlDeviceGetMemoryInfo = nvmlDeviceGetVbiosVersion = nvmlDeviceGetEccMode = nvmlDeviceGetMigMode = refuse
nvmlDeviceGetPersistenceMode = nvmlDeviceGetMaxMigDeviceCount = refuse
"""
GATE = """

def look() -> Situation:
    return Situation(2, (Seen("NVIDIA H200", (9, 0)),))
"""
STOPWATCH = """if __name__ == "__main__":
    import fcntl
    from host_device import HostDevice

    class OnlyUser(HostDevice):
        def __init__(self) -> None:
            self.uuid = os.environ["CUDA_VISIBLE_DEVICES"].removeprefix("GPU-")
            # Two timings on one card would be an error, whatever the project's own locks say.
            self.busy = (Path(os.environ["TWO_CARDS"]) / self.uuid).open("w")
            fcntl.flock(self.busy, fcntl.LOCK_EX | fcntl.LOCK_NB)

        def identity(self) -> Identity:
            return Identity(uuid=self.uuid)

    serve(Worker(Path(sys.argv[1]), OnlyUser).answer, last_after_error=True)
"""
LAUNCH = """    from assay.schedules import current_watch

    watch = current_watch()
    if watch is not None:
        # What the host does stands for a launch.
        watch.launches += 1
    outputs["y"].copy_(inputs["x"] + {number})
"""


class TwoCards(Project):
    """A copy of the project on such a machine."""

    def variables(self, more: "dict[str, str] | None" = None) -> dict[str, str]:  # type: ignore[override]
        """Return the variables to run with: both cards are shown unless `more` says otherwise."""
        found = super().variables()
        del found["CUDA_VISIBLE_DEVICES"]
        path = os.pathsep.join([str(self.root / "simulated"), str(self.root / "tests")])
        return {**found, "PYTHONPATH": path, "TWO_CARDS": str(self.root / "busy"), **(more or {})}


def two_cards(folder: Path) -> TwoCards:
    """Return a copy of the project with two tiny kernels, on a machine with two cards."""
    project = TwoCards(new_project(folder).root)
    (folder / "busy").mkdir()
    (folder / "simulated").mkdir()
    named = NVML.replace("FIRST", repr(UUIDS[0])).replace("SECOND", repr(UUIDS[1]))
    (folder / "simulated/pynvml.py").write_text(named, "utf-8")
    (folder / "assay/situation.py").write_text((folder / "assay/situation.py").read_text("utf-8") + GATE, "utf-8")
    project.edit("assay/environment.py", 'torch_cuda=_torch_build("cuda")', 'torch_cuda="13.0"')
    project.edit("assay/cards.py", 'Path("/tmp")', f"Path({str(folder)!r})")
    project.edit("assay/correctness.py", "str(kernel), device]", 'str(kernel), "cpu"]')
    stopwatch = (folder / "assay/stopwatch.py").read_text("utf-8")
    (folder / "assay/stopwatch.py").write_text(stopwatch.partition("if __name__")[0] + STOPWATCH, "utf-8")
    for name, number in KERNELS.items():
        text = (folder / f"kernels/{name}.py").read_text("utf-8")
        start, end = text.index('    n = inputs["x"].numel()\n'), text.index("\n\nKERNEL = ")
        (folder / f"kernels/{name}.py").write_text(text[:start] + LAUNCH.format(number=number) + text[end:], "utf-8")
    return project
