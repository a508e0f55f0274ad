"""Whether executed binaries are those that were compiled ahead."""

import records
from hypothesis import given
from hypothesis import strategies as st
from records import CASES, MATMUL, cubin, replaced
from strategies import of

from assay.prediction import predicted, predictions
from assay.record import Digest

digests = st.lists(of(Digest), max_size=3)


@given(digests, digests)
def test_binaries_are_identical_only_in_number_order_and_every_digest(
    executed: list[Digest], other: list[Digest]
) -> None:
    assert predicted(executed, executed) == "identical"
    assert predicted(executed, None) == "not-compiled-ahead"
    assert predicted(executed, other) == ("identical" if executed == other else "different")


def test_only_binaries_for_this_target_are_predictions() -> None:
    compiled = records.compilation(MATMUL, ("sm_80", "sm_90"))
    found = predictions(compiled, "sm_90")
    assert found == {(v.id, CASES[0]): [cubin(v.id, "sm_90")] for v in MATMUL.variants}
    unbuilt = replaced(compiled, builds=[replaced(build, binaries=[]) for build in compiled.builds])
    assert predictions(unbuilt, "sm_90") == {}
