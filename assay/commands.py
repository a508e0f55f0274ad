"""What `python -m assay` offers, in one table.

Apart from `__main__`, which every record names among what it was made of: a new command changes no stage.
"""

COMMANDS = {
    "environment": "capture the machine and its software",
    "interpreter": "check one kernel under Triton's interpreter, with no GPU",
    "compile": "compile one kernel for every target, with no GPU",
    "gate": "say whether a usable device is here: exit 0, or 1 with the reason",
    "gpu": "check one kernel on the device",
    "timing": "time one kernel's variants and the library's",
    "teeth": "plant faults in one kernel, by its name, and say which the evidence catches",
    "claims": "derive what is shown, and what is not, from the records",
    "report": "render results/report.html and results/report.md",
    "score": "say how many planted faults were caught",
    "check": "exit 1 naming each failed claim",
    "new": "write a commented kernel file that runs as it stands",
    "cache": "show, check or clear what earlier runs compiled",
    "schemas": "write the JSON Schemas of all records",
    "bundle": "pack the evidence into one archive",
    "keygen": "make a key pair to sign bundles with",
    "sign": "add a signature to a bundle",
    "verify": "say whether a bundle is sound, trusted and fresh, without running anything in it",
    "reproduce": "run again what this machine can of a bundle, and compare",
    "merge": "show the claims of several bundles in one matrix",
    "compare": "show what changed from one bundle to another",
    "history": "show the figures of all claims over a folder of bundles, and exit with 1 on a regression",
    "bisect": "find which Triton version, commit or setting changed a claim",
    "status": "write the status that the evidence supports into pages, or check it",
}


def usage() -> str:
    """Return the list of commands."""
    lines = [f"  {name:<12} {what}" for name, what in COMMANDS.items()]
    return "\n".join(["usage: python -m assay <command> [options]", "", *lines, "", "Every command has --help."])
