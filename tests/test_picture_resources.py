"""The picture of resources: every build has its mark, what does not fit is said first, no limit is made up."""

from collections.abc import Sequence

import pytest
from records import MATMUL, TARGETS, compilation, replaced

from assay.picture import Line, Marks, Picture, Spot
from assay.picture_resources import resources_picture
from assay.record import Build, Unavailable

PRECISIONS = {variant.id: variant.precision for variant in MATMUL.variants}


def builds(targets: Sequence[str] = TARGETS, **changes: int) -> list[Build]:
    made = compilation(MATMUL, targets).builds
    return [replaced(one, binaries=[replaced(binary, **changes) for binary in one.binaries]) for one in made]


def picture_of(found: Sequence[Build]) -> Picture:
    picture = resources_picture("resources-1", "matmul", found, PRECISIONS)
    assert isinstance(picture, Picture)
    return picture


def spots(picture: Picture, panel: int) -> list[Spot]:
    return [spot for one in picture.panels[panel].shown if isinstance(one, Marks) for spot in one.spots]


def test_what_a_block_cannot_have_is_said_first_and_drawn_past_its_limit() -> None:
    picture = picture_of(builds())
    assert picture.said == (
        "4 of 12 builds need more shared memory than a block can have (sm_75), most of all ieee/64x64x32 on sm_75: 72 "
        "of 64 KiB; the most registers a thread, 168, takes ieee/64x64x32 on sm_75."
    )
    limits = [
        place
        for one in picture.panels[2].shown
        if isinstance(one, Line)
        for place in one.places
        if place is not None and place[0] == 64
    ]
    assert limits
    assert all(spot.x == 72 for spot in spots(picture, 2))


def test_where_all_fits_the_nearest_to_its_limit_is_named() -> None:
    said = picture_of(builds(("sm_80", "sm_90"), shared_bytes=1024)).said
    assert said.startswith(
        "Every build fits; nearest to its limit of shared memory comes ieee/64x64x32 on sm_80: 1 of 227"
    )


def test_without_shared_memory_the_registers_remain() -> None:
    assert picture_of(builds(("sm_90",), shared_bytes=0)).said.startswith(
        "No build uses shared memory; the most registers"
    )


def test_variants_that_take_the_same_share_a_mark_that_counts_them() -> None:
    picture = picture_of(builds(("sm_90",)))
    found = spots(picture, 1)
    assert len(found) == len(set(PRECISIONS.values()))
    assert found[0].told == "ieee/64x64x32, ieee/128x64x64: 168 of 255 registers"
    assert len(picture.table.rows) == len(PRECISIONS)


def test_a_limit_that_is_not_known_is_no_number() -> None:
    found = [replaced(one, target="xe_hpc") for one in builds(("sm_90",))]
    picture = picture_of(found)
    assert [row[4] for row in picture.table.rows] == [None] * len(PRECISIONS)
    assert not [one for one in picture.panels[1].shown if isinstance(one, Line)]
    assert spots(picture, 1)[0].told.endswith(": 168 registers")


@pytest.mark.parametrize(("target", "limit"), [("sm_120", 255), ("gfx942", 512), ("gfx1100", 256)])
def test_registers_stand_against_the_limit_of_their_target(target: str, limit: int) -> None:
    picture = picture_of([replaced(one, target=target) for one in builds(("sm_90",))])
    assert {row[4] for row in picture.table.rows} == {limit}
    (line,) = (one for one in picture.panels[1].shown if isinstance(one, Line))
    assert {place[0] for place in line.places if place is not None} == {limit}


def test_without_a_build_there_is_no_picture() -> None:
    empty = [replaced(one, binaries=[]) for one in builds(("sm_90",))]
    for found in ([], empty):
        absent = resources_picture("resources-1", "matmul", found, PRECISIONS)
        assert absent == Unavailable(reason="nothing of matmul was compiled")
