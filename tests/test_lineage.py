"""The drawing shows every record with its digest, and arrows that say neither more nor less than the materials."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as with_fields
from records import MATMUL, SOFTMAX, SOURCE, Subject, claim, device, environment, evidence, evidence_of, gate, status

from assay.evidence import Evidence
from assay.lineage import HEIGHT, WIDTH, Source, build_lineage, reduced
from assay.record import Claims
from assay.stage import NEEDS

KERNELS = [Source(f"kernels/{name}.py", "kernel file", "b" * 64, name) for name in ("matmul", "softmax")]
SOURCES = [Source("workflow", "workflow", SOURCE.digest, None), *KERNELS]

graphs = st.integers(1, 9).flatmap(
    lambda size: st.fixed_dictionaries(
        {str(n): st.sets(st.integers(0, n - 1).map(str), max_size=n) if n else st.just(set()) for n in range(size)}
    )
)


def reach(edges: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    for node in edges.get(start, ()):
        found |= {node} | reach(edges, node)
    return found


@given(graphs)
def test_the_reduced_graph_reaches_what_the_graph_does_and_needs_every_edge(edges: dict[str, set[str]]) -> None:
    less = reduced(edges)
    for node, of in less.items():
        assert of <= edges[node]
        assert reach(less, node) == reach(edges, node)
        for one in of:
            without = {**less, node: of - {one}}
            assert one not in reach(without, node)


def linked(subjects: tuple[Subject, ...]) -> list[Evidence]:
    """Return records whose materials are what their stages read."""
    found = [evidence("environment", environment(device())), evidence("gate", gate(device()))]
    found += [record for subject in subjects for record in evidence_of(subject, device())]
    paths = {(record.artifact.stage, record.artifact.kernel): record.path for record in found}
    made = []
    for number, record in enumerate(found, start=1):
        stage, kernel = record.artifact.stage, record.artifact.kernel
        needs = [paths.get((need, kernel), paths.get((need, None), "")) for need in NEEDS[stage]]
        own = [f"kernels/{kernel}.py"] if kernel else []
        materials = dict.fromkeys([*needs, *own, f"assay/{stage}.py"], "a" * 64)
        made.append(Evidence(number, record.path, record.sha256, with_fields(record.artifact, materials=materials)))
    claims = evidence("claims", Claims(status=status([claim()]), claims=[claim()], source=SOURCE))
    rests = with_fields(claims.artifact, materials={record.path: record.sha256 for record in made})
    return [*made, Evidence(len(made) + 1, claims.path, claims.sha256, rests)]


def test_the_chain_of_a_pipeline_runs_from_its_sources_to_the_claims() -> None:
    drawn = build_lineage(linked((MATMUL, SOFTMAX)), SOURCES)
    arrows = {(arrow.source, arrow.target) for arrow in drawn.arrows}
    assert ("workflow", "results/environment.json") in arrows
    for kernel in ("matmul", "softmax"):
        own = {(s, t) for s, t in arrows if f"/{kernel}" in t or (f"/{kernel}" in s and "claims" in t)}
        assert own == {
            (f"kernels/{kernel}.py", f"results/{kernel}/interpreter.json"),
            (f"kernels/{kernel}.py", f"results/{kernel}/compile.json"),
            ("results/environment.json", f"results/{kernel}/interpreter.json"),
            ("results/environment.json", f"results/{kernel}/compile.json"),
            ("results/gate.json", f"results/{kernel}/gpu.json"),
            (f"results/{kernel}/compile.json", f"results/{kernel}/gpu.json"),
            (f"results/{kernel}/gpu.json", f"results/{kernel}/timing.json"),
            (f"results/{kernel}/timing.json", "results/claims.json"),
            (f"results/{kernel}/interpreter.json", "results/claims.json"),
        }


def test_every_record_and_source_is_a_box_of_its_own_within_the_drawing() -> None:
    records = linked((MATMUL, SOFTMAX))
    drawn = build_lineage(records, SOURCES)
    assert {(node.key, node.sha256) for node in drawn.nodes} == {
        *((record.path, record.sha256) for record in records),
        *((source.key, source.sha256) for source in SOURCES),
    }
    places = [(node.left, node.top) for node in drawn.nodes]
    assert len(set(places)) == len(places)
    for left, top in places:
        assert 0 <= left <= drawn.width - WIDTH
        assert 0 <= top <= drawn.height - HEIGHT
    assert [kernel for kernel, _ in drawn.bands] == ["matmul", "softmax"]


def test_arrows_lead_to_the_right() -> None:
    drawn = build_lineage(linked((MATMUL, SOFTMAX)), SOURCES)
    nodes = {node.key: node for node in drawn.nodes}
    assert drawn.arrows
    for arrow in drawn.arrows:
        assert nodes[arrow.source].right < nodes[arrow.target].left


def test_records_that_name_none_of_their_sources_still_stand_in_the_drawing() -> None:
    records = evidence_of(MATMUL, None)
    assert len(build_lineage(records, []).nodes) == len(records)
    assert build_lineage([], []).nodes == []
