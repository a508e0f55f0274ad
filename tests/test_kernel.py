"""What a kernel file declares: the bound's formula, the names of variants, and each refusal of a file."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from trials import ROOT

from assay.bounds import BoundError
from assay.kernel import Kernel, KernelError, Problem, ReductionBound, Space, Variant, load

VARIANT = Variant("tf32", "64x64x32")
ONE = torch.ones(1, dtype=torch.float64)
positive = st.floats(1e-12, 1.0)


def bound_of(terms: int, table: float, eps: float) -> ReductionBound:
    return ReductionBound(terms=lambda size: size["k"], table={"tf32": table}, eps={"tf32": eps})


def posed(terms: int, want: torch.Tensor = ONE, variant: Variant = VARIANT) -> Problem:
    return Problem(variant, {"k": terms}, {}, {"c": want}, lambda inputs: {"c": want})


@given(st.integers(1, 10**9), positive, positive, st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9))
def test_the_bound_is_the_rule_of_the_reference(terms: int, table: float, eps: float, values: list[float]) -> None:
    want = torch.tensor(values, dtype=torch.float64)
    limit = bound_of(terms, table, eps).limit(posed(terms, want), "c")
    rtol = max(table, 4 * eps * math.sqrt(terms))
    atol = rtol * max(map(abs, values))
    assert limit.dtype == torch.float64
    assert limit.tolist() == pytest.approx([atol + rtol * abs(value) for value in values])


@given(st.integers(1, 10**6), st.integers(1, 10**6), positive, positive)
def test_a_longer_sum_is_never_allowed_less(few: int, more: int, table: float, eps: float) -> None:
    bound = bound_of(0, table, eps)
    short, long = sorted((few, few + more))
    assert bound.rtol(posed(short)) <= bound.rtol(posed(long))


def test_the_words_carry_every_number_of_the_rule() -> None:
    words = bound_of(0, 0.001, 2.0**-10).words(posed(1024, torch.tensor([-2.0, 1.0])), "c")
    assert words == (
        "|got - want| <= 0.25 + 0.125 |want|; K = 1024 terms, "
        "rtol = max(0.001, 4 * 0.000976562 * sqrt(1024)) = 0.125, atol = rtol * max|want|"
    )


def test_a_precision_that_the_bound_does_not_know_is_an_error() -> None:
    with pytest.raises(
        BoundError,
        match="expected table and eps for precision 'bf16x3', found them for tf32; add both to the kernel's bound",
    ):
        bound_of(0, 0.1, 0.1).rtol(posed(1, variant=Variant("bf16x3", "a")))


@pytest.mark.parametrize(
    ("kernel", "own", "needed"),
    [
        (None, None, None),
        ((8, 0), None, "8.0"),
        (None, (9, 0), "9.0"),
        ((8, 0), (9, 0), "9.0"),
        ((10, 0), (9, 0), "10.0"),
    ],
)
def test_a_variant_needs_the_newer_of_its_own_and_its_kernels_capability(
    kernel: tuple[int, int] | None, own: tuple[int, int] | None, needed: str | None
) -> None:
    declared = Variant("tf32", "a", capability=own).declared(kernel, (9, 0))
    assert (declared.minimum_capability, declared.maximum_capability) == (needed, "9.0")


GOOD = """
import torch
from assay.kernel import *

KERNEL = Kernel(
    name="good", title="Copies", inputs=lambda size, generator: {}, outputs=lambda inputs: {},
    oracle=lambda inputs: {}, launch=lambda inputs, outputs, variant: None,
    variants=[Variant("f32", "a"), Variant("f32", "b", {"warps": 4})],
    cases=[Case("one", {"n": 1}), Case("two", {"n": 2})], timed=[Case("big", {"n": 9})],
    bound=ReductionBound(terms=lambda size: 1, table={}, eps={}), work=lambda size: Work(0, 0),
    peers=[Peer("torch", "f32", lambda inputs: None)], contrasts=[Contrast("f32", "f32")], capability=(8, 0),
)
"""


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    def write(text: str, name: str = "good.py") -> Path:
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def test_a_kernel_file_is_loaded_with_all_that_it_declares(written: Callable[..., Path]) -> None:
    kernel = load(written(GOOD))
    assert isinstance(kernel, Kernel)
    assert kernel.variant("f32/b").options == {"warps": 4}
    assert [kernel.case(name).size["n"] for name in ("one", "two", "big")] == [1, 2, 9]
    declaration = kernel.declaration()
    assert [(v.id, v.precision, v.configuration, v.minimum_capability) for v in declaration.variants] == [
        ("f32/a", "f32", "a", "8.0"),
        ("f32/b", "f32", "b", "8.0"),
    ]
    assert (declaration.cases, declaration.timed, declaration.contrasts) == (
        ["one", "two"],
        ["big"],
        [("f32", "f32")],
    )


REFUSED = {
    "no-KERNEL": (
        "x = 1",
        r"expected KERNEL = Kernel\(\.\.\.\) at module level, found NoneType; add it as docs/adding-a-kernel.md shows",
    ),
    "not-a-Kernel": (
        "KERNEL = {'name': 'good'}",
        r"expected KERNEL = Kernel\(\.\.\.\) at module level, found dict; add it as docs/adding-a-kernel.md shows",
    ),
    "another-name": (
        GOOD.replace('"good"', '"better"'),
        r"expected the name 'good', as the file's, found 'better'; rename one of the two",
    ),
    "no-variant": (
        GOOD + "object.__setattr__(KERNEL, 'variants', [])",
        "expected at least one variant and one case, found 0 and 2; declare them",
    ),
    "no-case": (
        GOOD + "object.__setattr__(KERNEL, 'cases', [])",
        "expected at least one variant and one case, found 2 and 0; declare them",
    ),
    "a-space-that-was-not-unpacked": (
        GOOD + "from assay.kernel import Space\nobject.__setattr__(KERNEL, 'variants', [Space(['f32'], {'w': [1]})])",
        r"variants: expected Variant\(\.\.\.\), found Space; write \*Space\(\.\.\.\) in a list",
    ),
    "another-kind-of-variant": (
        GOOD + "object.__setattr__(KERNEL, 'variants', ['f32/a'])",
        r"variants: expected Variant\(\.\.\.\), found str; write Variant\(precision, configuration\)",
    ),
    "a-ceiling-that-no-card-has": (
        GOOD + "object.__setattr__(KERNEL, 'ceilings', {'f32': ('fp64', 1)})",
        "ceilings, f32: found 'fp64'; allowed: bf16, copy, fp32, tf32",
    ),
    "a-rival-that-no-variant-is": (
        GOOD.replace("lambda inputs: None)]", "lambda inputs: None, ('f16',))]"),
        "peer torch, rivals: found 'f16'; allowed: f32",
    ),
    "another-layout": (
        GOOD.replace('{"n": 1})', '{"n": 1}, {"x": "strided"})'),
        "case one, layouts: found 'strided'; allowed: contiguous, .*, transposed",
    ),
    "another-pattern": (
        GOOD.replace('{"n": 1})', '{"n": 1}, values={"x": "one_nan"})'),
        "case one, values: found 'one_nan'; allowed: denormal, .*, zero",
    ),
    "another-tier": (
        GOOD.replace('{"n": 1})', '{"n": 1}, tiers=("interpretr",))'),
        "case one, tiers: found 'interpretr'; allowed: gpu, interpreter",
    ),
    "another-precision-exempt": (
        GOOD.replace('{"n": 1})', '{"n": 1}, exempt={"tf32": "why"})'),
        "case one, exempt: found 'tf32'; allowed: f32",
    ),
    "a-variant-twice": (
        GOOD.replace('"f32", "b"', '"f32", "a"'),
        "expected every name once, found f32/a declared twice; rename one of each",
    ),
    "a-peer-named-as-a-variant": (
        GOOD.replace('"torch"', '"f32/a"'),
        "expected every name once, found f32/a declared twice; rename one of each",
    ),
    "a-case-twice": (
        GOOD.replace('"two"', '"one"'),
        "expected every name once, found one declared twice; rename one of each",
    ),
    "a-size-named-as-a-case": (
        GOOD.replace('"big"', '"two"'),
        "expected every name once, found two declared twice; rename one of each",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_declares_no_usable_kernel_is_refused_for_its_own_reason(
    written: Callable[..., Path], name: str
) -> None:
    text, reason = REFUSED[name]
    with pytest.raises(KernelError, match=rf"good\.py: {reason}$"):
        load(written(text))


def test_a_file_of_another_kind_is_refused(written: Callable[..., Path]) -> None:
    with pytest.raises(
        KernelError, match=r"good\.txt: expected a Python file, found another; rename it to end in \.py"
    ):
        load(written("", "good.txt"))


@pytest.mark.parametrize(
    ("text", "kind"),
    [("x = (", SyntaxError), ("import no_such_module_anywhere", ImportError), ("1 / 0", ZeroDivisionError)],
)
def test_what_a_file_raises_passes_through(written: Callable[..., Path], text: str, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        load(written(text))


OPTIONS: dict[str, list[int | str]] = {
    "BLOCK_M": [64, 128],
    "BLOCK_N": [64, 128],
    "BLOCK_K": [32],
    "GROUP_M": [8],
    "num_warps": [4, 8],
}


def test_a_space_is_the_sequence_of_its_variants_named_after_their_options() -> None:
    space = Space(["tf32"], OPTIONS, stack_bytes=0)
    assert len(space) == len(list(space)) == 8
    assert [variant.configuration for variant in space[:3]] == [
        "m64n64k32gm8w4",
        "m64n64k32gm8w8",
        "m64n128k32gm8w4",
    ]
    first = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 8, "num_warps": 4}
    assert space[0] == Variant("tf32", "m64n64k32gm8w4", first, stack_bytes=0, searched=True)


def test_a_space_holds_what_its_predicate_keeps_in_every_precision() -> None:
    space = Space(["ieee", "tf32"], OPTIONS, keep=lambda options: options["BLOCK_M"] == options["BLOCK_N"])
    assert [variant.precision for variant in space] == ["ieee"] * 4 + ["tf32"] * 4
    assert all(variant.options["BLOCK_M"] == variant.options["BLOCK_N"] for variant in space)


def test_a_space_of_nothing_is_refused() -> None:
    space = Space(["tf32"], OPTIONS, keep=lambda options: False)
    with pytest.raises(KernelError, match="Space: expected combinations of its options, found that none of 8 is kept"):
        len(space)


names = st.lists(
    st.sampled_from(["BLOCK_M", "GROUP_M", "m", "num_warps", "W", "_", "STAGE_2"]), unique=True, min_size=1
)


@given(names, st.integers(2, 4))
def test_no_two_variants_of_a_space_have_one_name(options: list[str], values: int) -> None:
    space = Space(["f32"], {option: list(range(values)) for option in options})
    ids = [variant.id for variant in space]
    assert len(set(ids)) == len(ids) == values ** len(options)


def test_what_comes_from_a_space_is_declared_so(written: Callable[..., Path]) -> None:
    more = "from assay.kernel import Space\n"
    more += "mixed = [*KERNEL.variants, *Space(['f32'], {'num_warps': [1, 2]}), *Space(['f32'], {'num_stages': [3]})]\n"
    kernel = load(written(GOOD + more + "object.__setattr__(KERNEL, 'variants', mixed)"))
    assert [(v.id, v.searched) for v in kernel.declaration().variants] == [
        ("f32/a", False),
        ("f32/b", False),
        ("f32/w1", True),
        ("f32/w2", True),
        ("f32/s3", True),
    ]


def test_the_ceilings_declared_are_those_of_what_is_timed(written: Callable[..., Path]) -> None:
    assert load(written(GOOD)).declaration().ceilings == {"f32": ("fp32", 1)}
    own = GOOD + "object.__setattr__(KERNEL, 'ceilings', {'f32': ('tf32', 4), 'other': ('copy', 1)})"
    assert load(written(own)).declaration().ceilings == {"f32": ("tf32", 4)}
    unknown = GOOD.replace('"f32"', '"e4m3"')
    assert load(written(unknown)).declaration().ceilings == {}


def test_the_rivals_declared_are_those_that_peers_name(written: Callable[..., Path]) -> None:
    assert load(written(GOOD)).declaration().rivals == {}
    named = GOOD.replace("lambda inputs: None)]", "lambda inputs: None, rivals=('f32',))]")
    assert load(written(named)).declaration().rivals == {"torch": ["f32"]}


@pytest.mark.parametrize("path", sorted((ROOT / "kernels").glob("*.py")), ids=lambda path: path.stem)
def test_every_variant_that_assay_comes_with_has_a_limit_for_its_stack(path: Path) -> None:
    variants = load(path).declaration().variants
    assert [variant.id for variant in variants if variant.stack_budget_bytes is None] == []
