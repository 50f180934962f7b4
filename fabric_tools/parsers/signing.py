"""`model_signing verify` and `cosign verify`: whether a signature held.

Evidence: real texts of model_signing (success, mismatch, wrong bundle) and cosign (no signatures,
tampered blob); cosign's success texts follow its documentation (format unverified).
"""

from __future__ import annotations

import re

from fabric_tools.models.system import SignatureCause, SignatureCheck
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.bounded import numbered, read_lines

PROBE = "signing"

_MODEL_OK = re.compile(r"Verification succeeded\.?$")
_MODEL_BAD = re.compile(r"Verification failed(?: with error)?: (\S.*)$")
_COSIGN_OK = re.compile(r"Verified OK$|Verification for \S{1,300} --$")
_COSIGN_CHECKS = "The following checks were performed on each of these signatures:"
_COSIGN_BAD = re.compile(r"(?:Error: |error during command execution: |main\.go:\d+: )(\S.*)$")
_TLOG = "Skipping tlog verification"
_CAUSES: tuple[tuple[SignatureCause, re.Pattern[str]], ...] = (
    ("files_mismatch", re.compile(r"Signature mismatch|Hash mismatch|Extra files|Missing files")),
    ("bundle_kind", re.compile(r"expected (?:certificate|(?:public )?key)\b.{0,40}\bin bundle")),
    (
        "identity",
        re.compile(
            r"none of the expected identities|identity|SANs? do(?:es)? not match|issuer", re.I
        ),
    ),
    ("no_signatures", re.compile(r"no (?:matching )?(?:signatures|attestations)")),
    (
        "missing_file",
        re.compile(r"No such file or directory|no such file|does not exist|FileNotFound"),
    ),
    (
        "invalid_signature",
        re.compile(r"invalid signature|signature verif|InvalidSignature|verify sig", re.I),
    ),
)  # fmt: skip


def _cause(text: str) -> SignatureCause:
    if re.match(r"no matching signatures: .*\binvalid signature", text):
        return "invalid_signature"
    return next((cause for cause, pattern in _CAUSES if pattern.search(text)), "other")


def parse_signing(text: str) -> SignatureCheck:
    """The verdict line. Noise before it (a key that did not verify TUF targets) is no verdict."""
    good: SignatureCheck | None = None
    bad: SignatureCheck | None = None
    skipped = checks = command = False
    for number, line in numbered(read_lines(PROBE, text, max_line=200_000)):
        said = line.strip()[:4000]
        skipped = skipped or _TLOG in said
        command = command or "error during command execution: " in said
        checks = checks or said == _COSIGN_CHECKS
        if _MODEL_OK.match(said):
            good = SignatureCheck(tool="model_signing", ok=True, text=said, line=number)
        elif match := _MODEL_BAD.match(said):
            bad = bad or SignatureCheck(
                tool="model_signing", ok=False, cause=_cause(match[1]), text=match[1], line=number
            )
        elif match := _COSIGN_BAD.match(said):
            bad = bad or SignatureCheck(
                tool="cosign", ok=False, cause=_cause(match[1]), text=match[1], line=number
            )
        elif _COSIGN_OK.match(said):
            good = SignatureCheck(tool="cosign", ok=True, text=said, line=number)
    if good is not None and bad is not None:
        raise ParseError(PROBE, bad.line, "the text says both that it held and that it failed")
    if bad is not None and bad.tool == "cosign" and bad.cause == "other" and not command:
        raise ParseError(PROBE, bad.line, f"an error, but is it cosign's? {bad.text[:120]!r}")
    found = bad or good
    if found is None:
        raise ParseError(PROBE, 0, "no verdict of model_signing or cosign")
    if found.ok and found.text.startswith("Verification for ") and not checks:
        raise ParseError(PROBE, found.line, "cosign named the image but not the checks (cut?)")
    return found.model_copy(update={"tlog_skipped": skipped})
