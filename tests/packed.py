"""Bundles packed from a tree of records, for tests of what reads them."""

import json
from pathlib import Path

from assay.bag import Bag, make_bag, read_bag
from assay.ustar import pack


def payload_of(folder: Path) -> dict[str, bytes]:
    """Return every record under `folder`, with the sources that the records name."""
    records = {path.relative_to(folder).as_posix() for path in (folder / "results").rglob("*.json")}
    materials = {name for record in records for name in json.loads((folder / record).read_bytes())["materials"]}
    return {name: (folder / name).read_bytes() for name in sorted(records | materials)}


def bag_of(payload: dict[str, bytes], signatures: dict[str, bytes] | None = None) -> Bag:
    """Return a bag with this payload."""
    return read_bag({**make_bag(payload, {}), **(signatures or {})})


def name_of(bag: Bag, words: str = "assay-test") -> str:
    """Return a bundle's name, which ends with the digest of its content."""
    return f"{words}-{bag.manifest_sha256[:12]}"


def archive_of(payload: dict[str, bytes], words: str = "assay-test") -> tuple[str, bytes]:
    """Return the name and the bytes of a bundle."""
    name = name_of(bag_of(payload), words)
    return name, pack({f"{name}/{path}": data for path, data in make_bag(payload, {}).items()})


def write_bundle(folder: Path, into: Path, words: str = "assay-test") -> Path:
    """Pack the records under `folder` and return the bundle's path."""
    name, data = archive_of(payload_of(folder), words)
    into.mkdir(parents=True, exist_ok=True)
    (into / f"{name}.tar").write_bytes(data)
    return into / f"{name}.tar"
