"""What `python -m assay` offers, in one table: what each command does, an example of it, and its exit codes.

Apart from `__main__`, which every record names among what it was made of: a new command changes no stage.
"""

from typing import NamedTuple

WRITTEN = "0: the record is written, whatever it says"
DONE = "0: done"
REFUSED = "2: refused, in one sentence"


class Command(NamedTuple):
    """One command: what it does, an example as it is typed behind `python -m assay`, and its exit codes."""

    what: str
    example: str
    exits: str = f"{DONE}; {REFUSED}"


COMMANDS = {
    "environment": Command(
        "capture the machine and its software", "environment --out results/environment.json", f"{WRITTEN}; {REFUSED}"
    ),
    "interpreter": Command(
        "check one kernel under Triton's interpreter, with no GPU",
        "interpreter --kernel kernels/softmax.py",
        f"{WRITTEN}; {REFUSED}",
    ),
    "compile": Command(
        "compile one kernel for every target, with no GPU",
        "compile --kernel kernels/softmax.py",
        f"{WRITTEN}; {REFUSED}",
    ),
    "gate": Command(
        "say whether a usable device is here",
        "gate --minimum-capability 8.0",
        f"0: a usable device is here; 1: none is, and why; {REFUSED}",
    ),
    "gpu": Command("check one kernel on the device", "gpu --kernel kernels/softmax.py", f"{WRITTEN}; {REFUSED}"),
    "timing": Command(
        "time one kernel's variants and the library's", "timing --kernel kernels/softmax.py", f"{WRITTEN}; {REFUSED}"
    ),
    "teeth": Command(
        "plant faults in one kernel, by its name, and say which the evidence catches",
        "teeth softmax",
        f"{WRITTEN}; {REFUSED}",
    ),
    "claims": Command("derive what is shown, and what is not, from the records", "claims", f"{WRITTEN}; {REFUSED}"),
    "report": Command("render results/report.html and results/report.md", "report"),
    "show": Command(
        "print the matrix of claims in the terminal, from results/ or from a bundle",
        "show softmax --bundle bundles/NAME.tar",
        f"0: shown; 1: the bundle is not intact; {REFUSED}",
    ),
    "doctor": Command(
        "say what this machine can show, and why not the rest",
        "doctor",
        f"0: whatever the machine lacks; 1: the project itself cannot run here; {REFUSED}",
    ),
    "score": Command("say how many planted faults were caught", "score results/softmax/teeth.json"),
    "check": Command(
        "name each failed claim",
        "check --claims results/claims.json",
        f"0: no claim failed; 1: one did; {REFUSED}",
    ),
    "new": Command("write a commented kernel file that runs as it stands", "new mine"),
    "cache": Command(
        "show, check or clear what earlier runs compiled",
        "cache --check",
        f"{DONE}; 1: --check found a damaged entry; {REFUSED}",
    ),
    "schemas": Command("write the JSON Schemas of all records", "schemas --out schemas"),
    "bundle": Command("pack the evidence into one archive", "bundle"),
    "keygen": Command("make a key pair to sign bundles with", "keygen --out assay.key"),
    "sign": Command("add a signature to a bundle", "sign bundles/NAME.tar --key assay.key"),
    "verify": Command(
        "say whether a bundle is sound, trusted and fresh, without running anything in it",
        "verify bundles/NAME.tar --trust assay.key.pub --require 'softmax accurate sm_90'",
        "0: sound; 1: not intact; 2: unreadable, or wrong usage; 3: not signed by a key given with --trust; "
        "4: a requirement (--require, --fresh) is not met; of several, 2 before 1, 1 before 3, 3 before 4",
    ),
    "reproduce": Command(
        "run again what this machine can of a bundle, and compare",
        "reproduce bundles/NAME.tar --run",
        f"0: all that can be run here is alike; 1: something differs, or the bundle is not sound; {REFUSED}",
    ),
    "merge": Command(
        "show the claims of several bundles in one matrix",
        "merge bundles/A.tar bundles/B.tar --out merged",
        f"0: merged; 1: merged, without those that were refused; {REFUSED}",
    ),
    "compare": Command(
        "show what changed from one bundle to another",
        "compare bundles/A.tar bundles/B.tar --margin 2",
        f"0: nothing got worse; 1: something did; {REFUSED}",
    ),
    "completion": Command("print a script by which bash, zsh or fish completes `assay`", "completion bash"),
    "history": Command(
        "show the figures of all claims over a folder of bundles",
        "history archive --out history",
        f"0: no newest point is a regression; 1: one is; {REFUSED}, or a bundle was left out",
    ),
    "bisect": Command(
        "find which Triton version, commit or setting changed a claim",
        "bisect softmax 'compiled sm_90' --good 3.7.1 --bad 3.8.0",
        f"0: one place is found; 1: what could be judged leaves a range; {REFUSED}",
    ),
    "status": Command(
        "write the status that the evidence supports into pages, or check it",
        "status README.md --check --evidence archive",
        f"0: written, or as the evidence has it; 1: with --check, a page says something else; {REFUSED}",
    ),
    "install": Command(
        "build the locked environment of one Triton release",
        "install 3.8.0",
        f"0: built, or what is written says why it is not; {REFUSED}",
    ),
    "versions": Command(
        "show what changed from one Triton release to the next",
        "versions --installation .venvs/3.8.0/installation.json --record results/versions/3.8.0/environment.json",
    ),
}


def usage() -> str:
    """Return the list of commands."""
    lines = [f"  {name:<12} {command.what}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            "usage: python -m assay <command> [options]",
            "",
            *lines,
            "",
            "Every command has --help, with an example and its exit codes. Of most, 0 says that it is done, 1 that the",
            "answer is no, 2 that it was refused, and 130 that it was interrupted. Where the reader of its output goes",
            "early, as in `| head -1`, a command still does all that it was to do, and exits as it would have.",
            "",
            "example: python -m assay gate",
        ]
    )


def after_help(name: str) -> str:
    """Return what stands below a command's own --help: its exit codes and an example."""
    command = COMMANDS[name]
    exits = [f"  {line}" for line in command.exits.split("; ")]
    return "\n".join(["", "exit codes:", *exits, "", f"example: python -m assay {command.example}"])
