"""Every claim leads to one exhibit, which names all that the claim rests on and leads back."""

from collections.abc import Sequence
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st
from records import MATMUL, SOFTMAX, claim, device, evidence_of, replaced

from assay.excerpts import excerpt, find
from assay.exhibits import Exhibit, build_exhibits
from assay.matrix import mark
from assay.record import Claim, Link, Outcome

RECORDS = [record for subject in (MATMUL, SOFTMAX) for record in evidence_of(subject, device())]
POINTERS = ["/result", "/result/checks", "/result/checks/0", "/result/checks/0/verdict", "/result/none", ""]


def link(place: int, pointer: str) -> Link:
    return Link(artifact=RECORDS[place].path, sha256=RECORDS[place].sha256, pointer=pointer)


links = st.lists(st.builds(link, st.integers(0, len(RECORDS) - 1), st.sampled_from(POINTERS)), max_size=3)
claims = st.lists(
    st.builds(
        lambda freshness, **rest: replaced(claim(**rest), freshness=freshness),
        freshness=st.sampled_from(["current", "stale"]),
        kernel=st.sampled_from(["matmul", "softmax", "*"]),
        outcome=st.sampled_from(get_args(Outcome)),
        reason=st.sampled_from(["one", "two"]),
        links=links,
    ),
    max_size=12,
)


def exhibits_of(given_claims: Sequence[Claim]) -> list[Exhibit]:
    return [one for _, group in build_exhibits(given_claims, RECORDS).groups for one in group]


@given(claims)
def test_every_claim_has_one_exhibit_that_says_what_it_says(given_claims: list[Claim]) -> None:
    built = build_exhibits(given_claims, RECORDS)
    found = {one.number: one for one in exhibits_of(given_claims)}
    assert sorted(place for one in found.values() for place, _ in one.claims) == list(range(len(given_claims)))
    for place, one in enumerate(given_claims):
        exhibit = found[built.of[place]]
        assert place in {at for at, _ in exhibit.claims}
        assert (exhibit.kernel, exhibit.mark, exhibit.reason) == (one.kernel, mark(one), one.reason)
        assert exhibit.stale == (one.freshness == "stale")


@given(claims)
def test_every_place_is_cited_and_is_quoted_once(given_claims: list[Claim]) -> None:
    found = exhibits_of(given_claims)
    quoted = [q.passage.number for one in found for q in one.quotations if q.whole]
    assert len(quoted) == len(set(quoted))
    for one in found:
        cited = [(q.source.path, q.source.pointer) for q in one.quotations]
        assert cited == [(link.artifact, link.pointer) for link in given_claims[one.claims[0][0]].links]
        assert {q.passage.number for q in one.quotations} <= set(quoted)


@given(claims)
def test_what_is_quoted_is_what_stands_there(given_claims: list[Claim]) -> None:
    at = {record.path: record for record in RECORDS}
    for one in exhibits_of(given_claims):
        for q in one.quotations:
            if q.whole:
                assert q.passage.text == excerpt(find(at[q.source.path].artifact, q.source.pointer))


def test_a_part_of_what_was_quoted_is_not_quoted_again_but_one_of_a_list_is() -> None:
    pointers = ["/result/checks", "/result/checks/0", "/result/checks/0/verdict"]
    found = exhibits_of([claim(reason=pointer, links=[link(0, pointer)]) for pointer in pointers])
    assert [q.whole for one in found for q in one.quotations] == [True, True, False]


def test_claims_that_say_the_same_on_the_same_evidence_stand_together() -> None:
    same = [claim(variant=variant, tier=tier) for variant in ("ieee/a", "tf32/b") for tier in ("ran", "accurate")]
    (one,) = exhibits_of(same)
    assert one.title == "ran, accurate of matmul: ieee/a, tf32/b on sm_90"
    assert one.claims[0] == (0, "ieee/a ran sm_90")
    assert len(exhibits_of([*same, claim(reason="another")])) == 2


def test_a_record_that_is_not_shown_is_not_quoted() -> None:
    gone = Link(artifact="results/other.json", sha256="0" * 64, pointer="/result")
    (one,) = exhibits_of([claim(links=[gone])])
    assert one.quotations == []
