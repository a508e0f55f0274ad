"""The chain from sources to claims as a drawing: which record was made from which, laid out in lanes. Pure.

Kernels stand one below another and stages one behind another. What every kernel shares stands above them all. An arrow
that other arrows imply is left out: with a reduction of the graph, a page of eight kernels can still be followed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assay.evidence import Evidence
from assay.record import ARTIFACTS, Digest

WIDTH, HEIGHT = 112, 40
"""Of a node, in pixels."""
GAP = 34
"""Between two columns; arrows turn in it."""
LANE = 54
"""From one lane to the next."""
BAND = 20
"""Before the first lane of a kernel, for its name."""
_COLUMN = {"sources": 0, "environment": 1, "interpreter": 2, "compile": 2, "gate": 2, "gpu": 3, "timing": 4, "teeth": 5}
"""In which column a stage stands; the claims come after all."""
_UPPER = ("interpreter",)
"""Stages in a kernel's upper lane, where nothing stands between them and the claims."""


@dataclass(frozen=True)
class Node:
    """One box. `record` is the number of a record in the page's list; None of what is no record."""

    key: str
    label: str
    sha256: Digest | None
    record: int | None
    column: int
    left: int
    top: int

    @property
    def right(self) -> int:
        """Where arrows leave the box."""
        return self.left + WIDTH

    @property
    def middle(self) -> int:
        """The height at which arrows leave and reach the box."""
        return self.top + HEIGHT // 2


@dataclass(frozen=True)
class Arrow:
    """From what was read to what was made of it. `path` draws it, in SVG's words."""

    source: str
    target: str
    path: str


@dataclass(frozen=True)
class Lineage:
    """The drawing, in pixels. `bands`: each kernel's name with the height it stands at."""

    width: int
    height: int
    nodes: list[Node]
    arrows: list[Arrow]
    bands: list[tuple[str, int]]
    said: str


@dataclass(frozen=True)
class Source:
    """A file or set of files that no stage made."""

    key: str
    label: str
    sha256: Digest
    kernel: str | None


def _edges(records: Sequence[Evidence], sources: Sequence[Source]) -> dict[str, set[str]]:
    """Map the path of every record to what it was made from, among the records and sources that are drawn."""
    known = {record.path for record in records} | {source.key for source in sources}
    shared = {source.key for source in sources if source.kernel is None}
    return {record.path: shared | set(record.artifact.materials) & known - {record.path} for record in records}


def _reached(edges: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Map every node to all that it rests on, in however many steps; a cycle ends where it began."""
    reached: dict[str, set[str]] = {}
    for start in edges:
        seen: set[str] = set()
        waiting = list(edges[start])
        while waiting:
            node = waiting.pop()
            if node not in seen:
                seen.add(node)
                waiting += edges.get(node, ())
        reached[start] = seen
    return reached


def reduced(edges: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return the edges without those that a longer way implies."""
    reached = _reached(edges)
    return {
        node: {one for one in of if not any(one in reached.get(other, ()) for other in of if other != one)}
        for node, of in edges.items()
    }


def _columns(records: Sequence[Evidence]) -> list[int]:
    """Return which columns something stands in, the claims after all others."""
    return sorted({0, *(_COLUMN.get(record.artifact.stage, 6) for record in records)})


def _left(column: int, used: Sequence[int]) -> int:
    return used.index(column) * (WIDTH + GAP)


def _tops(kernels: Sequence[str]) -> dict[str | None, int]:
    """Map each kernel to the height of its upper lane; what all share stands at 0."""
    return {None: 0, **{kernel: LANE + BAND + place * (2 * LANE + BAND) for place, kernel in enumerate(kernels)}}


def _node(record: Evidence, used: Sequence[int], tops: Mapping[str | None, int]) -> Node:
    stage, kernel = record.artifact.stage, record.artifact.kernel
    lower = kernel is not None and stage not in _UPPER
    column = _COLUMN.get(stage, 6)
    top = tops[kernel] + (LANE if lower else 0)
    return Node(record.path, stage, record.sha256, record.number, column, _left(column, used), top)


def _path(source: Node, target: Node) -> str:
    """Return an arrow's way: out to the right, up or down just before its end, and on to it."""
    turn = target.left - GAP // 2
    start, end = f"M{source.right} {source.middle}", f"{target.left - 1}"
    if source.middle == target.middle:
        return f"{start}H{end}"
    return f"{start}H{turn}V{target.middle}H{end}"


def _arrows(nodes: Mapping[str, Node], edges: Mapping[str, set[str]]) -> list[Arrow]:
    return [
        Arrow(source, target, _path(nodes[source], nodes[target]))
        for target in nodes
        for source in sorted(edges.get(target, ()))
        if source in nodes
    ]


def build_lineage(records: Sequence[Evidence], sources: Sequence[Source]) -> Lineage:
    """Draw how records, the claims among them, were made from one another and from `sources`."""
    kernels = list(dict.fromkeys(record.artifact.kernel for record in records if record.artifact.kernel is not None))
    used, tops = _columns(records), _tops(kernels)
    made = [
        *(Node(s.key, s.label, s.sha256, None, 0, 0, tops[s.kernel]) for s in sources if s.kernel in tops),
        *(_node(record, used, tops) for record in records if record.artifact.stage in ARTIFACTS),
    ]
    nodes = {node.key: node for node in made}
    edges = reduced(_edges(records, sources))
    bands = [(kernel, tops[kernel]) for kernel in kernels]
    height = max((node.top + HEIGHT for node in made), default=0)
    said = f"{len(sources)} sources, {len(records)} records; the last is of the claims."
    return Lineage(_left(used[-1], used) + WIDTH, height + 2, list(nodes.values()), _arrows(nodes, edges), bands, said)
