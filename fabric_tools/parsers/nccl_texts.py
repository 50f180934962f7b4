"""What one saved text of NCCL says: a table of nccl-tests, NCCL's log, or both in one.

Evidence: that of ``nccl_tests`` and ``nccl_debug``, which read it; which words of a warning mean a
failure follows NCCL's source (format unverified).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from itertools import islice

from fabric_tools.models.facts import CudaInit
from fabric_tools.models.nccl import NcclDebug, NcclRun, TextNote
from fabric_tools.models.nccl_texts import NcclText
from fabric_tools.parsers.base import NothingHere, ParseError
from fabric_tools.parsers.bounded import note
from fabric_tools.parsers.nccl_debug import parse_nccl_debug
from fabric_tools.parsers.nccl_shape import MOST_GPUS, over_hosts
from fabric_tools.parsers.nccl_signs import FAILURE
from fabric_tools.parsers.nccl_tests import parse_nccl_tests

PROBE = "nccl_tests"
_LOG = re.compile(r"NCCL (?:INFO|WARN|TRACE)\b")
#: Signs of a table, its head or its footer: the parser of the table must understand such a text.
_TABLE = re.compile(
    r"nThread \d|(?:size|bytes)\s{1,40}(?:count|N)\s{1,40}type\b|Out of bounds values"
    r"|Avg bus bandwidth|Collective test (?:starting|concluded)|# Using devices"
    r"|\b(?:out_of_bounds|nwrong)\\?\"\s{0,9}:"
)
_ENDED = re.compile(r"Test (?:NCCL |CUDA )?failure\b")
_BAD = re.compile(
    r"\bcuda (?:failure|error)\b|\bfail(?:ed|ure)\b|\berror\b|unhandled|timed? ?out|refused"
    r"|reset by peer|closed by remote|\babort|duplicate gpu|status=[1-9]|mismatch|missing ranks?"
    r"|no socket interface|corrupt|inconsistent|uncorrectable|out of memory|illegal",
    re.IGNORECASE,
)
#: How NCCL passes an error up. A socket that a peer closes at the end leaves such lines as well.
_PASSED_UP = re.compile(
    r"NCCL INFO (?!misc/socket|proxy)[\w./-]{1,80}\.(?:cc|cu|h):\d{1,6} -> [1-689]\b", re.ASCII
)
#: A library or plugin that is not there is said as a warning too; ``transport`` judges its effect.
_HARMLESS = re.compile(
    r"libibverbs|libcudart|plugin|profiler|dlopen|dlsym|dlvsym|symbol", re.IGNORECASE
)


def failures_of(log: NcclDebug) -> tuple[TextNote, ...]:
    """Lines of the log that tell of a failure of CUDA, of the network or of the test."""
    return tuple(
        warning
        for warning in log.warnings
        if _BAD.search(warning.text) and not _HARMLESS.search(warning.text)
    )


def _log_over_hosts(log: NcclDebug, runs: tuple[NcclRun, ...]) -> bool | None:
    """By what the log says itself, else by the tests in the same text."""
    if log.nodes is not None:
        return log.nodes > 1
    if log.channels.net or (log.ranks or 0) > MOST_GPUS:
        return True
    told = {over_hosts(run) for run in runs}
    if len(told) == 1 and None not in told:
        return told.pop()
    return False if log.channels.p2p or log.channels.shm else None


def _ends_of(text: str, sign: re.Pattern[str] = _ENDED) -> tuple[TextNote, ...]:
    """A test that failed before it printed anything leaves one line."""
    found = []
    for match in islice(sign.finditer(text), 20):
        start = text.rfind("\n", 0, match.start()) + 1
        end = text.find("\n", match.start())
        line = text[start : end if end >= 0 else len(text)]
        found.append(note(text.count("\n", 0, start) + 1, line))
    return tuple(found)


@lru_cache(maxsize=1)  # several facts are made of one text
def _read(text: str) -> NcclText:
    is_json = text.lstrip()[:1] == "{"
    log = parse_nccl_debug(text) if not is_json and _LOG.search(text) else None
    runs: tuple[NcclRun, ...] = ()
    ended = _ends_of(text)
    unread = ""
    if is_json or _TABLE.search(text) or (log is None and not ended):
        try:
            runs = parse_nccl_tests(text).runs
        except ParseError as error:
            if log is None:
                raise
            unread = str(error)
    failures = failures_of(log) if log else ended if not runs else ()
    if log and not runs:
        # A log alone: no table tells that the job went well nevertheless.
        failures = failures or _ends_of(text, FAILURE) or _ends_of(text, _PASSED_UP)
    several = _log_over_hosts(log, runs) if log else None
    return NcclText(runs=runs, log=log, failures=failures, several=several, unread=unread)


def _tests(text: str, wanted: Callable[[bool | None], bool], whose: str) -> NcclText:
    found = _read(text)
    runs = tuple(
        run
        for run in found.runs
        if wanted(found.several if (told := over_hosts(run)) is None else told)
    )
    mine = wanted(found.several)
    failures = found.failures if mine else ()
    # A log that is not known to be of others explains the tests.
    log = found.log if mine or found.several is None else None
    aside = not (runs or failures or found.unread)
    if aside and log is None:
        raise NothingHere(PROBE, 0, f"no test {whose}")
    update = {"runs": runs, "failures": failures, "log": log, "aside": aside}
    return found.model_copy(update=update)


def _logs(text: str, wanted: Callable[[bool | None], bool], whose: str) -> NcclText:
    found = _read(text)
    if found.log is None or "NCCL INFO" not in text or not wanted(found.several):
        raise NothingHere("nccl_debug", 0, f"no log of NCCL {whose} (NCCL_DEBUG=INFO)")
    return found.model_copy(update={"runs": ()})


def node_tests(text: str) -> NcclText:
    """Tests inside one node. Where nothing tells the hosts, the test counts as one of these."""
    return _tests(text, lambda several: several is not True, "inside one node")


def cluster_tests(text: str) -> NcclText:
    """Tests that are known to have gone over several hosts."""
    return _tests(text, lambda several: several is True, "over several hosts")


def _names_network(log: NcclDebug) -> bool:
    return bool(log.networks or log.nics or log.no_ib_device or log.verbs_missing)


def node_log(text: str) -> NcclText:
    """The log, unless it is known to be of several hosts."""
    return _logs(text, lambda several: several is not True, "inside one node")


def cluster_log(text: str) -> NcclText:
    """The log of several hosts, or one that names a network and does not tell on how many."""
    found = _logs(text, lambda several: several is not False, "over several hosts")
    if found.several is None and found.log is not None and not _names_network(found.log):
        raise NothingHere("nccl_debug", 0, "the log tells neither hosts nor network")
    return found


def cuda_init_of_log(text: str) -> CudaInit:
    """The first CUDA error in NCCL's warnings."""
    try:
        log = _read(text).log
    except ParseError as error:
        raise NothingHere(error.probe, error.line, error.why) from error
    if log is None or not log.cuda_errors:
        raise NothingHere("nccl_debug", 0, "no CUDA error in NCCL's log")
    code = log.cuda_errors[0]
    said = next((item for item in log.warnings if str(code) in item.text), None)
    words = said.text.rpartition("NCCL WARN ")[2] if said else ""
    return CudaInit(code=code, text=words, line=said.line if said else 1)
