"""Keeps the machine's owner out of the evidence: home paths, user and host names, credentials, raw serials."""

import contextlib
import getpass
import hmac
import os
import pwd
import re
import secrets
import socket
import tempfile
import unicodedata
from functools import cache
from pathlib import Path

from assay.record import Unavailable

SALT_BYTES = 32

# CSI sequences, and OSC sequences (window titles, links) with either of their two endings.
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_UNUSUAL = re.compile(r"[^ -~\t\n]")
_CREDENTIALS = re.compile(r"(?<=://)[^/\s]+@")
_PACKAGES = re.compile(r"[^\s:;,'\"()]*/(?:site|dist)-packages/")
_HOME = re.compile(r"(?<![\w.])/(?:home|Users)/[^/\s:;,'\"]+")
# A whole UUID, or the prefix of one that CUDA_VISIBLE_DEVICES accepts.
_SERIAL = re.compile(r"(?<![\w-])(?:GPU|MIG)-(?:GPU-)?(?=[a-f-]*\d)[0-9a-f][0-9a-f-]{3,}(?![\w-])", re.IGNORECASE)


def _salt_file() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "assay" / "salt"


def _make_salt(path: Path) -> None:
    """Make the salt under another name first: a process that starts beside this one reads a whole salt or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(secrets.token_bytes(SALT_BYTES))
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(beside)
    finally:
        Path(beside).unlink()


@cache
def _salt() -> bytes | Unavailable:
    try:
        path = _salt_file()
        if not path.exists():
            _make_salt(path)
        salt = path.read_bytes()
    except OSError as error:
        return Unavailable(reason=f"no place for this machine's salt ({error.strerror})")
    except RuntimeError:
        return Unavailable(reason="no place for this machine's salt (the user has no home; set XDG_STATE_HOME)")
    if len(salt) != SALT_BYTES:
        return Unavailable(
            reason=f"this machine's salt has {len(salt)} bytes where {SALT_BYTES} were written; delete it"
        )
    return salt


def salted(identity: str) -> str | Unavailable:
    """Return a salted sha256 of a serial or host name, the same on one machine, and useless away from it.

    The salt is made once and stays on the machine; without a place to keep it there is no hash, and the reason.
    """
    salt = _salt()
    if isinstance(salt, Unavailable):
        return salt
    return hmac.new(salt, identity.encode("utf-8", "surrogateescape"), "sha256").hexdigest()


def _serial(match: re.Match[str]) -> str:
    kind, digest = match[0][:3].upper(), salted(match[0])
    return f"{kind}-<{digest[:16] if isinstance(digest, str) else 'hidden'}>"


def _homes() -> set[str]:
    """Return this user's home as the environment and as the password file have it: sudo and containers differ."""
    homes = {os.environ.get("HOME", "")}
    with contextlib.suppress(KeyError):
        homes.add(pwd.getpwuid(os.getuid()).pw_dir)
    return {home.rstrip("/") for home in homes}


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""


@cache
def _replacements(folder: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    """Return what names this machine, each with what stands for it: longest paths first, then names as whole words."""
    paths = [(path, "~") for path in _homes()]
    host = socket.gethostname()
    names = [(name, "<host>") for name in (host, host.split(".")[0]) if name != "localhost"]
    # A neighbour of the folder keeps its name, `x.tmp` beside `x`; of a home's neighbour the user's part is hidden too.
    rules = [(rf"(?<![\w.-]){re.escape(folder)}(?!\.?[\w-])", ".")] if len(folder) > 1 else []
    pairs = sorted(paths, key=lambda pair: -len(pair[0]))
    rules += [(rf"(?<![\w.-]){re.escape(found)}(?![\w-])", put) for found, put in pairs if len(found) > 1]
    rules += [(rf"(?<![\w-]){re.escape(found)}(?![\w-])", put) for found, put in names if len(found) > 1]
    user = re.escape(_user())
    # Only where a path or an address names the user: 'root' and 'runner' are also words.
    rules += [(rf"(?<=/){user}(?=/|$|[\s:;,'\"])|(?<![\w.-]){user}(?=@)", "<user>")] if user else []
    return tuple((re.compile(found), put) for found, put in rules)


def _shown(match: re.Match[str]) -> str:
    """Replace controls, invisible and bidirectional characters, and surrogates, which UTF-8 cannot carry."""
    return "\ufffd" if unicodedata.category(match[0]) in ("Cc", "Cf", "Cs") else match[0]


def printable(text: str) -> str:
    """Return text without terminal escapes, control, invisible or bidi characters; line ends and tabs stay."""
    return _UNUSUAL.sub(_shown, _ANSI.sub("", text))


def scrub(text: str) -> str:
    """Return text fit to publish: no terminal escapes, control, invisible or bidi characters, home path, user name in a
    path, host name, credentials in an address, or serial of a GPU; folders of installed packages are cut off.
    """
    text = printable(text)
    text = _PACKAGES.sub("", _CREDENTIALS.sub("", text))
    for found, put in _replacements(str(Path.cwd())):
        text = found.sub(put, text)
    return _SERIAL.sub(_serial, _HOME.sub("~", text))


def one_line(text: str, limit: int = 400) -> str:
    """Return scrubbed text on one line, cut in the middle to at most `limit` characters."""
    line = " ".join(scrub(text).split())
    half = (limit - 5) // 2
    return line if len(line) <= limit else f"{line[:half]} ... {line[-half:]}"
