"""Claims of the reference documents: what they say, whether it holds, and how that is proved.

Format: ``report/claims.yaml``. A place is ``document:line``, lines count from 1.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from fabric_tools.models.base import Model

Id = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
Place = Annotated[str, StringConstraints(pattern=r"^\d{3}:[1-9]\d*$")]
Text = Annotated[str, StringConstraints(min_length=1, pattern=r"^[^\n]*$")]


class ClaimVerdict(StrEnum):
    """How a claim stands."""

    RIGHT = "right"
    IMPRECISE = "imprecise"
    WRONG = "wrong"
    OUTDATED = "outdated"
    CONTRADICTORY = "contradictory"
    UNPROVED = "unproved"


class ReferenceDocument(Model):
    """A reference document: its number, what it is about, and how many lines it has."""

    id: Annotated[str, StringConstraints(pattern=r"^\d{3}$")]
    title: Text
    lines: Annotated[int, Field(gt=0)]


class Proof(Model):
    """What proves or disproves a claim.

    ``checks``: ids of checks of this product. ``later``: ids of phases whose gate is to prove it.
    ``arithmetic``: the computation stands in the claim's source. ``not_observable``: why a node
    cannot tell; then there is no check and no phase.
    """

    checks: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    arithmetic: bool = False
    not_observable: str = ""

    @model_validator(mode="after")
    def _says_how(self) -> Proof:
        if not (self.checks or self.later or self.arithmetic or self.not_observable):
            raise ValueError("says nothing about how the claim is proved")
        if self.not_observable and (self.checks or self.later):
            raise ValueError("not observable, yet a check or phase is to prove it")
        return self


class Claim(Model):
    """One claim. ``reading`` is what holds, with units; ``source`` says who says so.

    ``where``: at least one place; the first one decides under which document it is shown.
    """

    id: Id
    where: Annotated[tuple[Place, ...], Field(min_length=1)]
    claim: Text
    verdict: ClaimVerdict
    reading: Text
    source: Text
    proved_by: Proof

    @property
    def places(self) -> tuple[tuple[str, int], ...]:
        """``where`` as (document, line)."""
        parts = (place.partition(":") for place in self.where)
        return tuple((document, int(line)) for document, _, line in parts)

    @model_validator(mode="after")
    def _arithmetic_is_shown(self) -> Claim:
        if self.proved_by.arithmetic and "computed" not in self.source:
            raise ValueError(f"{self.id}: arithmetic, and the source shows none")
        return self


class ClaimList(Model):
    """The whole file. Ids are there once, and every place exists."""

    schema_version: Literal[1]
    documents: Annotated[tuple[ReferenceDocument, ...], Field(min_length=1)]
    claims: Annotated[tuple[Claim, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _consistent(self) -> ClaimList:
        lines = {document.id: document.lines for document in self.documents}
        if len(lines) != len(self.documents):
            raise ValueError("a document is listed twice")
        seen: set[str] = set()
        for claim in self.claims:
            if claim.id in seen:
                raise ValueError(f"{claim.id}: there twice")
            seen.add(claim.id)
            if len(set(claim.where)) != len(claim.where):
                raise ValueError(f"{claim.id}: a place is named twice")
            for document, line in claim.places:
                if line > lines.get(document, 0):
                    raise ValueError(f"{claim.id}: no such line: {document}:{line}")
        return self
