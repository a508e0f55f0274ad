"""The picture of accuracy against speed: the chart's spots, its names and its sentence, and every entrant's figures."""

from records import MATMUL, device, timing

from assay.picture import Marks, Picture, Words
from assay.picture_tradeoff import tradeoff_picture
from assay.record import Unavailable
from assay.scatter import scatter_chart

SWEEP = timing(MATMUL, device()).sweeps[0]
CHART = scatter_chart(SWEEP.rows, [best.entrant for best in SWEEP.best], 0.01)


def test_every_spot_and_every_name_of_the_chart_is_drawn() -> None:
    assert CHART is not None
    picture = tradeoff_picture("tradeoff-1-0", "matmul", SWEEP, CHART)
    assert isinstance(picture, Picture)
    panel = picture.panels[1]
    spots = [spot for one in panel.shown if isinstance(one, Marks) for spot in one.spots]
    assert [(spot.x, spot.y, spot.told) for spot in spots] == [(s.at, s.top, s.title) for s in CHART.spots]
    assert [one.text for one in panel.shown if isinstance(one, Words)] == [s.label.text for s in CHART.spots if s.label]
    assert picture.said == CHART.said
    assert picture.notes == (f"Not in the picture: {CHART.left_out}",)
    assert [row[0] for row in picture.table.rows] == [row.entrant for row in SWEEP.rows if row.kind != "twin"]


def test_without_a_chart_there_is_no_picture() -> None:
    absent = tradeoff_picture("tradeoff-1-0", "matmul", SWEEP, None)
    assert absent == Unavailable(reason="no entrant of matmul at 2048x2048x2048 has both a rate and an error")
