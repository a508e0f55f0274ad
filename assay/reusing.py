"""Has a child process take from the storage what was compiled before, and keep there what it compiles.

Triton's own key covers a kernel's source with all that it calls, the arguments' types and alignments, the options, the
target, Triton itself, the assembler's version and the variables that Triton knows of. Not in it are a constant that is
reached through a module, the assembler's content, and what a kernel file changes in Triton; so the key here is made of
Triton's and of everything that is loaded.
"""

import ast
import os
import re
import sys
import sysconfig
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import triton
from triton import knobs
from triton.runtime.cache import FileCacheManager

from assay.artifact import canonical, sha256_bytes, sha256_file
from assay.errors import AssayError, RecordError
from assay.record import Compilations, Digest
from assay.storage import Storage

KEPT = (".json", ".ptx", ".cubin", ".amdgcn", ".hsaco")
"""What a record is made from. Intermediate code is the larger part of what Triton writes."""

_VARIABLES = re.compile(r"(TRITON|LLVM|MLIR|PTXAS|NVPTX|AMDGCN|DISABLE|USE_IR|ALLOW)_")
_PLACES = ("TRITON_CACHE_DIR", "TRITON_HOME", "TRITON_CACHE_MANAGER")
"""Variables that say where something lies, and decide no byte of it."""
_FOUND = "found.json"


def code_of(source: str, name: str) -> str:
    """Return the code of a kernel file, whatever its name: its syntax without places, comments and the declared name.

    Where each function stands is in Triton's own key.
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "Kernel":
            for keyword in node.keywords:
                if keyword.arg == "name" and isinstance(keyword.value, ast.Constant) and keyword.value.value == name:
                    keyword.value.value = ""
    return ast.dump(tree)


def _code(data: bytes, name: str) -> Digest:
    try:
        return sha256_bytes(code_of(data.decode("utf-8"), name).encode("utf-8", "replace"))
    except (ValueError, SyntaxError, RecursionError):
        # It will not load either.
        return sha256_bytes(data)


def _outside() -> tuple[Path, ...]:
    """Return the folders of what is installed: Python's own, and those on the search path that hold metadata."""
    packages = [folder for folder in map(Path, sys.path) if any(folder.glob("*.dist-info"))]
    return tuple(folder.resolve() for folder in (*packages, Path(sysconfig.get_path("stdlib"))))


def _file(module: str) -> Path | None:
    """Return a loaded module's file. Some modules are objects of another kind, and some name a file that is none."""
    named = (getattr(sys.modules.get(module), "__dict__", None) or {}).get("__file__")
    path = Path(named).resolve() if isinstance(named, str) else None
    return path if path and path.is_file() else None


def _versions(modules: Iterable[str]) -> dict[str, str]:
    found = {name: getattr(sys.modules.get(name), "__version__", None) for name in modules if "." not in name}
    # torch has a type of its own for its version.
    return {name: str(version) for name, version in found.items() if isinstance(version, str)}


def _tools() -> list[Digest]:
    """Return the digests of assemblers and disassemblers: those that Triton carries, and those put in their place."""
    carried = (Path(triton.__file__).parent / "backends" / "nvidia" / "bin").glob("*")
    named = (Path(value) for name, value in os.environ.items() if re.fullmatch(r"TRITON_\w+_PATH", name))
    return sorted(sha256_file(path) for path in (*carried, *named) if path.is_file())


class Reuse:
    """One process's dealings with the storage. Make it before the kernel file is loaded."""

    def __init__(self, storage: Storage, kernel: Path) -> None:
        self._storage, self._kernel = storage, kernel.resolve()
        data = kernel.read_bytes()
        self._code, self._sources = _code(data, kernel.stem), {self._kernel: sha256_bytes(data)}
        self._seen = set(sys.modules)
        self._versions, self._outside = _versions(self._seen), _outside()
        self._add(name for name in self._seen if not self._is_outside(name))
        self.made = self.reused = 0
        self.notes: list[str] = []

    def install(self) -> None:
        """Have Triton ask here from now on."""
        knobs.cache.manager_class = lambda key, **options: _Manager(self, key, **options)

    def take(self) -> tuple[Compilations, list[str]]:
        """Return what happened since this was last asked, and what was odd about it."""
        found = Compilations(made=self.made, reused=self.reused), self.notes
        self.made, self.reused, self.notes = 0, 0, []
        return found

    @cached_property
    def _machinery(self) -> dict[str, Any]:
        return {
            "python": sys.version,
            "versions": self._versions,
            "tools": _tools(),
            "variables": {n: v for n, v in os.environ.items() if _VARIABLES.match(n) and n not in _PLACES},
        }

    def loaded(self) -> None:
        """Say that the kernel file was loaded: whatever it brought along decides what its functions are."""
        self._add(set(sys.modules) - self._seen)
        self._seen |= set(sys.modules)

    def _add(self, modules: Iterable[str]) -> None:
        for path in filter(None, map(_file, modules)):
            if path not in self._sources:
                self._sources[path] = sha256_file(path)

    def _is_outside(self, module: str) -> bool:
        path = _file(module)
        return path is None or any(path.is_relative_to(folder) for folder in self._outside)

    def _digests(self) -> list[Digest]:
        """Return the digests of what was loaded, the kernel file aside. What a launch loads counts where it is no
        installed package: which of those are there by then depends on what was launched before.
        """
        late = set(sys.modules) - self._seen
        self._add(name for name in late if not self._is_outside(name))
        self._seen |= late
        return sorted(digest for path, digest in self._sources.items() if path != self._kernel)

    def _unchanged(self) -> bool:
        """Return whether the files are still those that the key was made of: an edit meanwhile belongs to another."""
        return all(sha256_file(path) == digest for path, digest in self._sources.items())

    def _key(self, kind: str, of: str) -> Digest:
        known = {"kind": kind, "of": of, "code": self._code, "loaded": self._digests(), **self._machinery}
        return sha256_bytes(canonical(known))

    def look_up(self, kind: str, of: str) -> dict[str, bytes] | None:
        """Return the files kept for something, or None. A bad entry is none, and noted."""
        try:
            return self._storage.get(self._key(kind, of))
        except AssayError as error:
            self.notes.append(f"{error}; it is not used, and what it was of is made anew")
            return None

    def keep(self, kind: str, of: str, files: dict[str, bytes]) -> None:
        """Keep files for something; a storage that takes none is noted."""
        try:
            if self._unchanged():
                self._storage.put(self._key(kind, of), files)
        except RecordError:
            # A file that the key was made of is gone.
            return
        except OSError as error:
            self.notes.append(f"{self._storage.folder}: nothing can be kept ({error.strerror})")

    def recall(self, kind: str, of: str, shape: Any, find: Callable[[], Any]) -> Any:
        """Return what `find` returns, which plain JSON can carry and is of type `shape`, from the storage if it can."""
        kept = self.look_up(kind, of) or {}
        try:
            return msgspec.json.decode(kept[_FOUND], type=shape, strict=True)
        except (KeyError, msgspec.DecodeError):
            found = find()
            self.keep(kind, of, {_FOUND: msgspec.json.encode(found)})
            return found


def _altered() -> bool:
    """Return whether Triton was told to let something else into what it compiles, or to show all that it does."""
    return bool(knobs.compilation.override or knobs.compilation.dump_ir or knobs.compilation.always_compile)


class _Manager(FileCacheManager):  # type: ignore[misc]
    """Triton's own folder for one key, with the storage behind it. A group is all files of one compilation."""

    def __init__(self, reuse: Reuse, key: str, **options: Any) -> None:
        super().__init__(key, **options)
        self._reuse, self._behind = reuse, not any(options.values()) and not _altered()

    def get_group(self, filename: str) -> dict[str, str] | None:
        found: dict[str, str] | None = super().get_group(filename)
        if found is not None or not self._behind:
            return found
        kept = self._reuse.look_up("compilation", f"{self.key} {filename}")
        if kept is None or filename not in kept:
            return None
        self._reuse.reused += 1
        group = {name: self.put(data, name) for name, data in kept.items()}
        super().put_group(filename, group)
        return group

    def put_group(self, filename: str, group: dict[str, str]) -> None:
        super().put_group(filename, group)
        self._reuse.made += 1
        files = {name: Path(path).read_bytes() for name, path in group.items() if name.endswith(KEPT)}
        # Code that a kernel has read from a file instead is in no key.
        if self._behind and not msgspec.json.decode(files[filename]).get("ir_override"):
            self._reuse.keep("compilation", f"{self.key} {filename}", files)
