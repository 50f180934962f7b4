"""``docs/reference-claims.md``: what the reference documents claim, and what holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from fabric_tools.checks import BY_ID
from fabric_tools.models.claims import Claim, ClaimList, ClaimVerdict, Proof, ReferenceDocument
from fabric_tools.yaml_file import load_shipped

_FILE = Path(__file__).with_name("claims.yaml")
_MEANING = {
    ClaimVerdict.RIGHT: "holds as it stands",
    ClaimVerdict.IMPRECISE: "holds in part, or only under a condition that is not named",
    ClaimVerdict.WRONG: "does not hold",
    ClaimVerdict.OUTDATED: "held once; a version or name has passed",
    ClaimVerdict.CONTRADICTORY: "two claims of the documents exclude each other",
    ClaimVerdict.UNPROVED: "may hold; nothing shows it yet",
}
_HEAD = """\
# What the reference documents claim, and what holds

This product follows three reference documents, which are not part of it. Where they are wrong it
does the right thing, and this page says so, claim by claim. A number such as 001:101 is document
and line; each row can be linked to by its id, for example [nv12-on-h100](#nv12-on-h100).

What holds rests on the public source named below it or on the computation shown. "Observed" is a
run of the named program on a machine without a GPU; "to be confirmed on a node" says that no
public source was found. A check marked *planned* is not in this version.
"""


def load_claims() -> ClaimList:
    """The claims that come with the product."""
    return load_shipped(_FILE, ClaimList)


def claims_page(found: ClaimList) -> str:
    """The page as Markdown: counts, then a table for each document, in the order of its lines."""
    parts = [_HEAD, _counts(found)]
    for document in found.documents:
        mine = [claim for claim in found.claims if claim.places[0][0] == document.id]
        mine.sort(key=lambda claim: claim.places[0][1])
        parts.append(_table(document, mine))
    return "\n".join(parts)


def _counts(found: ClaimList) -> str:
    names = [document.id for document in found.documents]
    count = Counter((claim.verdict, claim.places[0][0]) for claim in found.claims)
    lines = [f"| verdict | {' | '.join(names)} | all | meaning |"]
    lines.append("|---|" + "---:|" * (len(names) + 1) + "---|")
    for verdict in ClaimVerdict:
        each = [count[verdict, name] for name in names]
        cells = " | ".join(str(number) for number in [*each, sum(each)])
        lines.append(f"| {verdict.value} | {cells} | {_MEANING[verdict]} |")
    each = [sum(count[verdict, name] for verdict in ClaimVerdict) for name in names]
    cells = " | ".join(str(number) for number in [*each, sum(each)])
    return "\n".join([*lines, f"| all | {cells} | |", ""])


def _table(document: ReferenceDocument, claims: Iterable[Claim]) -> str:
    lines = [f"## {document.id}: {document.title}", ""]
    lines += ["| line | the document says | verdict | what holds | proved by |"]
    lines += ["|---|---|---|---|---|"]
    lines += [_row(document, claim) for claim in claims]
    return "\n".join([*lines, ""])


def _row(document: ReferenceDocument, claim: Claim) -> str:
    verdict = claim.verdict.value
    cells = (
        f'<a id="{claim.id}"></a>{_places(document, claim)}',
        _cell(claim.claim),
        verdict if claim.verdict is ClaimVerdict.RIGHT else f"**{verdict}**",
        f"{_cell(claim.reading)}<br><sub>{_cell(claim.source)}</sub>",
        _proof(claim.proved_by),
    )
    return "| " + " | ".join(cells) + " |"


def _places(document: ReferenceDocument, claim: Claim) -> str:
    """Lines of the own document as ranges, places in others in full."""
    own = sorted(line for name, line in claim.places if name == document.id)
    runs: list[list[int]] = []
    for line in own:
        if runs and line == runs[-1][-1] + 1:
            runs[-1].append(line)
        else:
            runs.append([line])
    ranges = [f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    others = [f"{name}:{line}" for name, line in claim.places if name != document.id]
    return ", ".join([*ranges, *others])


def _proof(proof: Proof) -> str:
    parts = [_check(name) for name in proof.checks]
    parts += ["arithmetic"] if proof.arithmetic else []
    parts += [f"later: phase {', '.join(proof.later)}"] if proof.later else []
    if proof.not_observable:
        parts.append(f"not observable from a node: {_cell(proof.not_observable)}")
    return "<br>".join(parts)


def _check(name: str) -> str:
    if name not in BY_ID:
        return f"`{name}` (*planned*)"
    return f"[`{name}`](checks.md#{name.replace('.', '')})"


def _cell(text: str) -> str:
    """Text that cannot end a cell or begin a tag; what stands in backticks stays as it is."""
    parts = text.replace("|", "\\|").split("`")
    parts[::2] = [part.replace("<", "&lt;").replace("*", "\\*") for part in parts[::2]]
    return "`".join(parts)
