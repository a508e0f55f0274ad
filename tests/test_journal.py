"""What a run of teeth that was ended leaves to the next: everything whole, of the same source, and nothing else."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import of

from assay.journal import Journal, Known, open_journal

known = of(Known)


def kept(path: Path, made_of: object, found: list[Known]) -> Journal:
    journal = open_journal(path, made_of)
    for one in found:
        journal.add(one)
    return journal


def mine(journal: Journal, found: list[Known]) -> list[Known]:
    return [
        Known(**{name: getattr(one, name) for name in Known.__struct_fields__} | {"made_of": journal.made_of})
        for one in found
    ]


@given(st.lists(known, max_size=4, unique_by=lambda one: (one.phase, one.sha256)))
def test_what_was_added_is_known_to_the_next_run_of_the_same(
    tmp_path_factory: pytest.TempPathFactory, found: list[Known]
) -> None:
    path = tmp_path_factory.mktemp("journal") / "teeth.journal"
    written = mine(open_journal(path, ["same"]), found)
    kept(path, ["same"], written)
    again = open_journal(path, ["same"])
    assert {(one.phase, one.sha256): one for one in written} == again.found
    assert all(again.of(one.phase, one.sha256) == one for one in written)


@given(known)
def test_what_another_source_or_other_settings_gave_is_forgotten(
    tmp_path_factory: pytest.TempPathFactory, one: Known
) -> None:
    path = tmp_path_factory.mktemp("journal") / "teeth.journal"
    kept(path, ["one"], mine(open_journal(path, ["one"]), [one]))
    assert open_journal(path, ["other"]).found == {}
    assert path.read_bytes() == b""


@given(known, known, st.data())
def test_a_line_that_was_broken_off_is_left_out_and_no_other(
    tmp_path_factory: pytest.TempPathFactory, one: Known, other: Known, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("journal") / "teeth.journal"
    first, second = mine(open_journal(path, ["same"]), [one, other])
    kept(path, ["same"], [first])
    whole = len(path.read_bytes())
    kept(path, ["same"], [second])
    longest = len(path.read_bytes()) - 2
    path.write_bytes(path.read_bytes()[: data.draw(st.integers(whole, longest))])
    assert list(open_journal(path, ["same"]).found.values()) == [first]
    # What is added next stands on a line of its own.
    kept(path, ["same"], [second])
    assert open_journal(path, ["same"]).of(second.phase, second.sha256) == second
