"""An index of small wheels made here, from which the real uv installs: no network, and no large download."""

import base64
import hashlib
import sys
import zipfile
from collections.abc import Mapping
from importlib.metadata import distribution
from pathlib import Path

TAG = "py3-none-any"


def _recorded(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def make_wheel(folder: Path, name: str, version: str, files: Mapping[str, str]) -> Path:
    """Write a wheel with these files into `folder`, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    described = f"{name}-{version}.dist-info"
    texts = {
        **files,
        f"{described}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{described}/WHEEL": f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {TAG}\n",
    }
    record = [f"{path},{_recorded(text.encode())},{len(text.encode())}" for path, text in texts.items()]
    texts[f"{described}/RECORD"] = "\n".join([*record, f"{described}/RECORD,,", ""])
    path = folder / f"{name}-{version}-{TAG}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inside, text in texts.items():
            archive.writestr(inside, text)
    return path


def pin(wheel: Path) -> str:
    """Return a lock's line for a wheel."""
    name, version, *_ = wheel.name.split("-")
    return f"{name}=={version} --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"


def seen_from_here() -> str:
    """Return the lines of a .pth file that lets an environment import what this one has."""
    return "".join(f"{path}\n" for path in sys.path if Path(path).name in ("site-packages", "dist-packages"))


def lock_of(folder: Path, version: str, files: Mapping[str, str] | None = None) -> str:
    """Make wheels that call themselves torch and triton of a release, and return their lock.

    The torch and Triton that are imported are those of the tests, unless `files` says otherwise.
    """
    shown = {"here.pth": seen_from_here(), **_backends(version)} if files is None else files
    wheels = make_wheel(folder, "torch", "2.11.0", {}), make_wheel(folder, "triton", version, shown)
    return "".join(map(pin, wheels))


def _backends(version: str) -> dict[str, str]:
    """Return the file by which Triton finds its compilers: the real one's is hidden behind a wheel of the same name."""
    named = distribution("triton").read_text("entry_points.txt")
    return {} if named is None else {f"triton-{version}.dist-info/entry_points.txt": named}


def index_variables(folder: Path, cache: Path) -> dict[str, str]:
    """Return the variables under which uv looks into `folder` alone, and keeps what it takes in `cache`."""
    return {"UV_FIND_LINKS": str(folder), "UV_NO_INDEX": "1", "UV_OFFLINE": "1", "UV_CACHE_DIR": str(cache)}
