"""The claims of the reference documents: places, proofs, and the page made from them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from fabric_tools.checks import BY_ID
from fabric_tools.models.claims import Claim, ClaimList, ClaimVerdict, Proof
from fabric_tools.phases import Phase
from fabric_tools.report.claims import claims_page, load_claims
from fabric_tools.report.reference import pages

# A last line without a newline counts.
LINES = {"000": 68, "001": 441, "004": 282}

CLAIMS = load_claims().claims
ROWS = [line for line in claims_page(load_claims()).splitlines() if line.startswith('| <a id="')]


def test_ids_are_unique() -> None:
    ids = [claim.id for claim in CLAIMS]
    assert len(ids) == len(set(ids))


def test_places_exist() -> None:
    assert {item.id: item.lines for item in load_claims().documents} == LINES
    for claim in CLAIMS:
        for document, line in claim.places:
            assert 1 <= line <= LINES[document], claim.id


def test_proofs_name_what_exists() -> None:
    for claim in CLAIMS:
        assert set(claim.proved_by.checks) <= set(BY_ID), claim.id
        assert set(claim.proved_by.later) <= set(Phase), claim.id


def test_what_is_unproved_rests_on_more_than_arithmetic() -> None:
    for claim in CLAIMS:
        if claim.verdict is ClaimVerdict.UNPROVED:
            assert claim.proved_by.later or claim.proved_by.not_observable, claim.id


def test_texts_are_short() -> None:
    for claim in CLAIMS:
        assert len(claim.claim) <= 160, claim.id
        assert len(claim.reading) <= 280, claim.id


def test_known_errors_are_judged() -> None:
    found = {claim.id: claim for claim in CLAIMS}
    assert found["nv12-on-h100"].verdict is ClaimVerdict.WRONG
    assert "NV18" in found["nv12-on-h100"].reading
    assert found["nv12-on-h100"].places == (("001", 101),)
    assert found["enable-metrics"].places == (("001", 145),)
    assert found["driver-570-86-15"].verdict is ClaimVerdict.OUTDATED
    assert set(ClaimVerdict) == {claim.verdict for claim in CLAIMS}


def test_page_has_each_claim_once_in_the_order_of_lines() -> None:
    shown = [re.match(r'\| <a id="([\w-]+)"></a>', row) for row in ROWS]
    assert sorted(match[1] for match in shown if match) == sorted(claim.id for claim in CLAIMS)
    first = {claim.id: claim.places[0] for claim in CLAIMS}
    places = [first[match[1]] for match in shown if match]
    assert places == sorted(places)


def test_page_has_whole_rows() -> None:
    for row in ROWS:
        assert len(re.findall(r"(?<!\\)\|", row)) == 6, row


def test_page_counts_add_up() -> None:
    count = re.search(r"^\| all \| (.+) \| \|$", claims_page(load_claims()), re.MULTILINE)
    assert count is not None
    *each, total = (int(cell) for cell in count[1].split(" | "))
    assert sum(each) == total == len(CLAIMS)


def test_links_lead_somewhere() -> None:
    made = pages()
    headings = re.findall(r"^## `(.+)`$", made["checks.md"], re.MULTILINE)
    anchors = {heading.replace(".", "") for heading in headings}
    page = made["reference-claims.md"]
    assert set(re.findall(r"\(checks\.md#([^)]+)\)", page)) <= anchors
    assert set(re.findall(r"\]\(#([^)]+)\)", page)) <= {claim.id for claim in CLAIMS}


def _claim(**changes: Any) -> dict[str, Any]:
    """A claim that is whole, as the file would have it."""
    whole: dict[str, Any] = {
        "id": "links", "where": ["000:2"], "claim": "a | b", "verdict": "right", "reading": "1 < 2",
        "source": "computed: 1 + 1 = 2", "proved_by": {"arithmetic": True},
    }  # fmt: skip
    return whole | changes


def _list(*claims: dict[str, Any]) -> ClaimList:
    documents = [{"id": "000", "title": "first", "lines": 3}]
    return ClaimList.model_validate(
        {"schema_version": 1, "documents": documents, "claims": list(claims)}
    )


def test_cells_cannot_break_the_table() -> None:
    claim = _claim(reading="1 < 2, `a|<b>`, 2 * 3 * 4", where=["000:1", "000:2", "000:3"])
    page = claims_page(_list(claim))
    assert "</a>1-3 | a \\| b | right | 1 &lt; 2, `a\\|<b>`, 2 \\* 3 \\* 4<br>" in page


def test_planned_check_is_called_planned() -> None:
    page = claims_page(_list(_claim(proved_by={"checks": ["gpu.count", "gpu.none"]})))
    assert "[`gpu.count`](checks.md#gpucount)<br>`gpu.none` (*planned*) |" in page


def test_proof_that_nobody_can_give() -> None:
    page = claims_page(_list(_claim(proved_by={"not_observable": "facility"})))
    assert "| not observable from a node: facility |" in page


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"where": ["000:4"]}, "no such line: 000:4"),
        ({"where": ["001:1"]}, "no such line: 001:1"),
        ({"where": ["000:0"]}, "where"),
        ({"where": []}, "where"),
        ({"where": ["000:1", "000:1"]}, "named twice"),
        ({"id": "Not Kebab"}, "id"),
        ({"verdict": "fine"}, "verdict"),
        ({"reading": ""}, "reading"),
        ({"source": "somebody"}, "the source shows none"),
        ({"note": "x"}, "note"),
    ],
)
def test_bad_claim_is_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(why)):
        _list(_claim(**changes))


def test_claim_twice_is_refused() -> None:
    with pytest.raises(ValidationError, match="links: there twice"):
        _list(_claim(), _claim())


@pytest.mark.parametrize(
    "proof", [{}, {"arithmetic": False}, {"not_observable": "x", "later": ["roce"]}]
)
def test_bad_proof_is_refused(proof: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Proof.model_validate(proof)


def test_claims_are_frozen() -> None:
    with pytest.raises(ValidationError):
        Claim.model_validate(_claim()).id = "other"  # type: ignore[misc]


def test_file_is_read_beside_the_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_claims().claims == CLAIMS
