"""Lanes: one below another, every track on a line of its own or, where flat, on one; past limits have a colour."""

from hypothesis import given
from hypothesis import strategies as st

from assay.picture import WIDTH, Axis, Line, Marks, Series, Spot, Words
from assay.picture_lanes import Lane, Track, lanes_panel, unit_panel

SERIES = Series("ieee", "circle", "s1")
AXIS = Axis(-9.0, -3.0)
tracks = st.builds(
    Track, st.just(SERIES), st.floats(-9, -3), st.none() | st.floats(-9, -3), st.text(max_size=4), st.booleans()
)
lanes = st.lists(
    st.builds(Lane, st.text(max_size=9), st.just(""), st.lists(tracks, max_size=5).map(tuple), st.booleans())
)


def spots(shown: tuple[object, ...]) -> list[Spot]:
    return [spot for one in shown if isinstance(one, Marks) for spot in one.spots]


@given(lanes.filter(bool))
def test_every_lane_has_its_name_and_every_track_its_mark_within_the_panel(given_lanes: list[Lane]) -> None:
    panel, bottom = lanes_panel(given_lanes, AXIS, 30)
    found = spots(panel.shown)
    assert sorted(spot.told for spot in found) == sorted(t.told for lane in given_lanes for t in lane.tracks)
    assert all(0 < spot.y < panel.height for spot in found)
    assert bottom > panel.top + panel.height
    names = [one for one in panel.shown if isinstance(one, Words) and one.anchor == "start"]
    assert [one.y for one in names] == sorted({one.y for one in names})
    assert len(names) == len(given_lanes)


def test_tracks_stand_below_each_other_unless_the_lane_is_flat() -> None:
    two = (Track(SERIES, -8.0, None, "a"), Track(SERIES, -7.0, None, "b"))
    (deep, _), (flat, _) = lanes_panel([Lane("x", "", two)], AXIS, 0), lanes_panel([Lane("x", "", two, True)], AXIS, 0)
    assert len({spot.y for spot in spots(deep.shown)}) == 2
    assert len({spot.y for spot in spots(flat.shown)}) == 1
    assert flat.height < deep.height


def test_a_limit_that_is_not_kept_is_shown_in_its_colour_and_the_way_past_it() -> None:
    kept = Track(SERIES, -8.0, -7.0, "")
    broken = Track(SERIES, -6.0, -7.0, "", past=True)
    for track, tones in ((kept, ["ink"]), (broken, ["bad", "bad"])):
        panel, _ = lanes_panel([Lane("x", "", (track,))], AXIS, 0)
        assert [line.tone for line in panel.shown if isinstance(line, Line)] == tones


def test_panels_beside_each_other_share_the_width() -> None:
    left, right = unit_panel("a", 0, 0, 200), unit_panel("b", 0, 200, WIDTH - 200)
    assert left.left + left.width < right.left
    assert right.left + right.width < WIDTH
