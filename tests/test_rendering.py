"""A report is rendered again where that can be expected to give the same bytes, by the templates at hand alone."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from forge import H200, Forge, forge
from msgspec.structs import replace as with_fields
from records import MATMUL, SOFTMAX

from assay import rendering
from assay.artifact import sha256_bytes
from assay.opening import Opened
from assay.rendering import (
    MOST_SHOWN_BYTES,
    Installed,
    drawn_otherwise,
    hindrance,
    installed,
    rendering_faults,
)
from assay.soundness import faults

HTML, MARKDOWN, REPORT = "results/report.html", "results/report.md", "results/report.json"
HERE = installed()

Spoil = Callable[[Forge], object]


def opened(spoil: Spoil = lambda forged: None) -> Opened:
    forged = forge(H200, [MATMUL, SOFTMAX], rendered=True)
    spoil(forged)
    return forged.opened()


def edited(page: str, old: bytes, new: bytes) -> Spoil:
    """Edit a page, its digest in the report's record put right."""

    def spoil(forged: Forge) -> None:
        before = forged.payload()[page]
        assert old in before
        data = before.replace(old, new, 1)
        forged.put(f"{REPORT}/result/outputs", lambda found: {**found, page: sha256_bytes(data)})
        forged.at_last(lambda files: files.update({page: data}))

    return spoil


def test_a_report_renders_to_the_same_bytes_again() -> None:
    found = opened()
    assert hindrance(found, HERE) is None
    assert drawn_otherwise(found, HERE) is None
    assert list(rendering_faults(found, HERE)) == []


@pytest.mark.parametrize(
    ("page", "old", "new"),
    [
        (HTML, b"15 blocked", b" 0 blocked"),
        (HTML, b"</body>", b"<script>alert(1)</script></body>"),
        (MARKDOWN, b"15 blocked", b"15 passed!"),
    ],
)
def test_an_edited_page_is_refused_though_every_digest_is_right(page: str, old: bytes, new: bytes) -> None:
    found = opened(edited(page, old, new))
    assert faults(found) == []
    (fault,) = rendering_faults(found, HERE)
    assert fault.startswith(f"{page}: expected the page that the records render to, with sha256 ")


def other_template(forged: Forge) -> None:
    forged.sources["reports/report.css"] += b"/* mine */"


def other_module(forged: Forge) -> None:
    forged.sources["assay/page.py"] += b"# mine\n"


def extra_template(forged: Forge) -> None:
    forged.sources["reports/evil.html.j2"] = b"{{ cycler.__init__.__globals__.os.system('touch /tmp/evil') }}"


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (other_template, "made with another reports/report.css than the one here"),
        (other_module, "made with another assay/page.py than the one here"),
        (extra_template, "made with another reports/evil.html.j2 than the one here"),
        (
            lambda forged: forged.put("results/environment.json/result/distributions/jinja2", "1.0"),
            " is here, and 1.0 where the records were made",
        ),
        (
            lambda forged: forged.put("results/environment.json/result/variables/TRITON_X", "x" * MOST_SHOWN_BYTES),
            f"and at most {MOST_SHOWN_BYTES} are rendered",
        ),
    ],
)
def test_a_report_made_otherwise_is_not_rendered_again(spoil: Spoil, told: str) -> None:
    found = opened(spoil)
    assert faults(found) == []
    said = hindrance(found, HERE)
    assert said is not None
    assert told in said


# Pictures that another library drew

ELSEWHERE = [
    replace(HERE, drawing={**HERE.drawing, "matplotlib": "3.0.0"}),
    replace(HERE, drawing={**HERE.drawing, "numpy": "unknown"}),
    replace(HERE, processor="a64fx"),
]


@pytest.mark.parametrize(
    ("here", "told"),
    [
        (ELSEWHERE[0], "matplotlib 3.0.0 is here"),
        (ELSEWHERE[1], "numpy unknown is here"),
        (ELSEWHERE[2], "the processor here is a64fx"),
    ],
)
def test_where_pictures_come_out_otherwise_it_is_said_and_no_fault(here: Installed, told: str) -> None:
    def redrawn(forged: Forge) -> None:
        edited(HTML, b"<path ", b"<path  ")(forged)

    found = opened(redrawn)
    assert faults(found) == []
    assert len(list(rendering_faults(found, HERE))) == 1
    assert hindrance(found, here) is None
    said = drawn_otherwise(found, here)
    assert said is not None
    assert said.startswith(f"the pictures of {HTML} may have been drawn otherwise than here ({told}, and ")
    assert said.endswith(" where the records were made); the Markdown page is identical")
    assert list(rendering_faults(found, here)) == []


@pytest.mark.parametrize("here", ELSEWHERE)
def test_the_words_are_compared_wherever_the_pictures_were_drawn(here: Installed) -> None:
    found = opened(edited(MARKDOWN, b"15 blocked", b" 0 blocked"))
    (fault,) = rendering_faults(found, here)
    assert fault.startswith(f"{MARKDOWN}: expected the page that the records render to, with sha256 ")


def test_of_more_pictures_than_are_drawn_none_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "MOST_PICTURES", 3)
    said = drawn_otherwise(opened(), HERE)
    assert said is not None
    assert said.endswith("pictures, and at most 3 are drawn; the Markdown page is identical")


def test_the_templates_of_a_bundle_are_never_used(tmp_path: Path) -> None:
    """Where the installed templates are gone, nothing is rendered by those of the bundle."""
    found = opened()
    assert hindrance(found, replace(HERE, root=tmp_path, sources={})) == (
        "made with another assay/__init__.py than the one here"
    )


def test_hostile_text_renders_to_itself() -> None:
    device = with_fields(H200, name="{{ 7*7 }}<script>alert(1)</script>")
    found = forge(device, [MATMUL], rendered=True).opened()
    assert faults(found) == []
    assert hindrance(found, HERE) is None
    assert list(rendering_faults(found, HERE)) == []
    assert b"<script>alert(1)" not in found.payload[HTML]
