"""Keeps the machine's owner out of the evidence: home paths, user and host names, raw serials."""

import getpass
import hmac
import os
import re
import secrets
import socket
from functools import cache
from pathlib import Path

from assay.record import Unavailable

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


def _salt_file() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "assay" / "salt"


@cache
def _salt() -> bytes | Unavailable:
    path = _salt_file()
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
                stream.write(secrets.token_bytes(32))
        return path.read_bytes()
    except OSError as error:
        return Unavailable(reason=f"no place for this machine's salt ({error.strerror})")


def salted(identity: str) -> str | Unavailable:
    """Return a salted sha256 of a serial or host name, the same on one machine, and useless away from it.

    The salt is made once and stays on the machine; without a place to keep it there is no hash, and the reason.
    """
    salt = _salt()
    return salt if isinstance(salt, Unavailable) else hmac.new(salt, identity.encode(), "sha256").hexdigest()


@cache
def _replacements() -> tuple[tuple[str, str], ...]:
    pairs = [(str(Path.cwd()), "."), (str(Path.home()), "~"), (socket.gethostname(), "<host>")]
    try:
        pairs.append((f"/{getpass.getuser()}/", "/<user>/"))
    except (OSError, KeyError):
        pass
    return tuple((found, put) for found, put in pairs if len(found) > 3)


def scrub(text: str) -> str:
    """Return text fit to publish: no terminal escapes, control or bidi characters, home path, user or host name."""
    text = _CONTROL.sub("\ufffd", _ANSI.sub("", text))
    for found, put in _replacements():
        text = text.replace(found, put)
    return re.sub(r"\S*/(site|dist)-packages/", "", text)


def one_line(text: str, limit: int = 400) -> str:
    """Return scrubbed text on one line, cut in the middle to at most `limit` characters."""
    line = " ".join(scrub(text).split())
    half = (limit - 5) // 2
    return line if len(line) <= limit else f"{line[:half]} ... {line[-half:]}"
