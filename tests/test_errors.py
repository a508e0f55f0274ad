"""Every refusal in the package says what was found, what was expected and what to do; so does the system's own."""

import ast
import errno
import importlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.__main__ import main
from assay.errors import AssayError, UsageError, refused_by_system
from assay.opening import UnsoundError

ROOT = Path(__file__).parents[1]
MODULES = sorted(path.stem for path in (ROOT / "assay").glob("*.py") if path.stem != "__main__")

# These become a reason in a result, or why a kept compilation is not used: nothing is refused or to be done.
OF_RESULTS = {
    "CaptureError",
    "CeilingError",
    "OutputError",
    "DeviceOnlyOperation",
    "UnsupportedDtype",
    "OutsideRead",
    "OutsideWrite",
    "FalsePromise",
    "EntryError",
    "StuckError",
    "EndlessError",
    "GridTooLarge",
}
# These are about one part of a bundle, and reach a user within an UnsoundError, which has the remedy of all.
WITHIN_UNSOUND = {"ArchiveError", "BagError", "SignatureError"}
# Here bytes are decoded that may be a record or a bundle's: who asked adds what to do, as tests of both say.
PARTS = {("artifact", name) for name in ("parse", "convert", "_check_large", "decode", "decode_artifact", "read")}
PARTS |= {("chain", "settings_of")}

EXPECTED = r"expected|allowed:|needed|cannot be (read|written)|changed while|stale|was not derived|both of stage"
EXPECTED += r"|derived from|made without|cites"
CARRIED = r"\{(str\()?error|\{one_line\(str\(error|\{fault\}|\{found\[0\]\}"
"""Another refusal, which says what was expected."""


def is_asked(module: str, function: str, kind: object) -> bool:
    """Return whether a class that a function makes is a refusal that has to be whole where it is made."""
    if not isinstance(kind, type) or not issubclass(kind, AssayError):
        return False
    return kind.__name__ not in OF_RESULTS | WITHIN_UNSOUND and (module, function) not in PARTS


def refusals(module: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, class and template of every refusal that a module makes."""
    tree = ast.parse((ROOT / "assay" / f"{module}.py").read_text("utf-8"))
    namespace = vars(importlib.import_module(f"assay.{module}"))
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
        made = [node for node in ast.walk(function) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
        for node in made:
            name = ast.unparse(node.func)
            if is_asked(module, function.name, namespace.get(name)):
                yield node.lineno, name, template(node.args[0])


def template(argument: ast.expr) -> str:
    """Return a message as it is written, with {} for what is filled in; of `a or b`, the one that is made here."""
    if isinstance(argument, ast.BoolOp):
        return template(argument.values[-1])
    if isinstance(argument, ast.Constant):
        return str(argument.value)
    assert isinstance(argument, ast.JoinedStr), ast.unparse(argument)
    parts = [str(part.value) if isinstance(part, ast.Constant) else filled(part) for part in argument.values]
    return "".join(parts)


def filled(part: ast.expr) -> str:
    assert isinstance(part, ast.FormattedValue)
    return f"{{{ast.unparse(part.value)}}}"


ASKED = [(module, *refusal) for module in MODULES for refusal in refusals(module)]


def test_there_are_refusals_to_ask() -> None:
    assert len(ASKED) > 50


@pytest.mark.parametrize(
    ("kind", "said"), [one[2:] for one in ASKED], ids=[f"{module}-{line}" for module, line, *_ in ASKED]
)
def test_a_refusal_says_what_was_expected_and_what_to_do(kind: str, said: str) -> None:
    assert re.search(f"{EXPECTED}|{CARRIED}", said), said
    assert kind == "UnsoundError" or "; " in said or "allowed: " in said, said


def test_what_is_unsound_has_the_same_remedy_everywhere() -> None:
    assert UnsoundError("a.tar: cut off").sentence == (
        "a.tar: cut off; rely on nothing in it: fetch it again, or ask who made it for another"
    )
    assert UsageError("--out: found it; choose another").sentence == "--out: found it; choose another"


@pytest.mark.parametrize(
    ("number", "what"),
    [
        (errno.ENOSPC, "No space left on device); free space on that disk, or set TMPDIR and TRITON_CACHE_DIR"),
        (errno.EROFS, "Read-only file system); work in a folder"),
        (errno.EACCES, "Permission denied); make it readable and writable"),
    ],
)
def test_the_state_of_the_machine_is_a_refusal_and_no_traceback(
    number: int, what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(_: object) -> int:
        raise OSError(number, os.strerror(number), "results/gate.json")

    monkeypatch.setattr("assay.check.main", full)
    assert main(["check"]) == 2
    assert capsys.readouterr().err.startswith(f"assay check: results/gate.json: cannot be read or written ({what}")


def test_an_error_that_is_a_fault_of_assay_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(_: object) -> int:
        raise FileNotFoundError(errno.ENOENT, "No such file", "results/gate.json")

    monkeypatch.setattr("assay.check.main", wrong)
    with pytest.raises(FileNotFoundError):
        main(["check"])
    assert refused_by_system(OSError()) is None
