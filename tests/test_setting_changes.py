"""Two configurations, change by change: made one after the other they lead from the first to the second."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from assay.config import GpuSettings, InterpreterSettings, Settings, parse_settings
from assay.setting_changes import apply, changes

SEEDS = st.lists(st.integers(0, 9), min_size=1, max_size=6, unique=True)
LIMITS = st.sampled_from([1.0, 60.0, 120.0])


@st.composite
def configurations(draw: Any) -> dict[str, Any]:
    made = Settings(
        kernels=draw(st.sampled_from(["all", ["a"], ["a", "b"], ["b", "a"]])),
        seeds=draw(SEEDS),
        interpreter=InterpreterSettings(limit_s=draw(LIMITS)),
        gpu=GpuSettings(limit_s=draw(LIMITS)),
    )
    tree: dict[str, Any] = msgspec.to_builtins(made)
    return tree


@given(configurations(), configurations())
def test_the_changes_lead_from_one_to_the_other(good: dict[str, Any], bad: dict[str, Any]) -> None:
    assert apply(good, changes(good, bad)) == bad


@given(configurations(), configurations())
def test_each_step_on_the_way_is_a_configuration(good: dict[str, Any], bad: dict[str, Any]) -> None:
    found = changes(good, bad)
    for count in range(len(found) + 1):
        parse_settings(apply(good, found[:count]), "config")


@given(configurations())
def test_nothing_differs_from_itself(tree: dict[str, Any]) -> None:
    assert changes(tree, tree) == []


def test_a_seed_that_came_is_a_change_of_its_own() -> None:
    good, bad = [msgspec.to_builtins(Settings(seeds=seeds)) for seeds in ([1, 2], [2, 3, 4])]
    assert [str(change) for change in changes(good, bad)] == ["seeds: with 3", "seeds: with 4", "seeds: without 1"]


def test_another_order_is_one_change() -> None:
    good, bad = [msgspec.to_builtins(Settings(seeds=seeds)) for seeds in ([1, 2], [2, 1])]
    assert [str(change) for change in changes(good, bad)] == ["seeds: [2, 1]"]
