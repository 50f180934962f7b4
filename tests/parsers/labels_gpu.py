"""What the labels of the GPU samples say, read from the parsed facts.

``READERS``: kind -> the values of label keys that a fact tells. ``PROSE``: keys that are words of
the labeller. ``NOT_READ``: keys whose value stands in no fact, with the reason. ``TIDY`` takes out
of a label what its README says is not in the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations
from typing import Any

from fabric_tools.models.base import Fact
from fabric_tools.models.dcgm import (
    DcgmDiag,
    DcgmDiscovery,
    DcgmHealth,
    DcgmNvlinkErrors,
    DcgmNvlinkStatus,
    FabricManagerLog,
    FabricManagerStatus,
)
from fabric_tools.models.facts import (
    EccErrors,
    FabricManagerVersion,
    GpuInventory,
    KernelLog,
    LoadedModule,
    NvlinkGpu,
    NvlinkStatus,
    Topology,
    UnitState,
)
from fabric_tools.models.nccl import NcclDebug, NcclMeasure, NcclRun, NcclTests
from fabric_tools.models.smi import (
    FabricStates,
    GpuReset,
    NvlinkErrors,
    SmiQuery,
    SmiTable,
    TopologyP2p,
)
from fabric_tools.models.system import CudaError, ModuleFile

Values = dict[str, object]


def _unique(items: Iterable[object]) -> list[object]:
    return list(dict.fromkeys(items))


# --- topo -----------------------------------------------------------------------------------


def _pairs(topo: Topology) -> dict[str, str]:
    found = {}
    for one, two in combinations(topo.gpus, 2):
        for row, column in ((one, two), (two, one)):
            cells = topo.row(row)
            if cells is not None and column in cells.cells:
                found[f"{one}-{two}"] = cells.cells[column]
    return found


def _nvlink_reading(topo: Topology, pairs: dict[str, str]) -> str:
    if not topo.gpu_rows_whole:
        return "incomplete"
    if len(topo.gpus) == 1:
        return "single-gpu"
    linked = {cell for cell in pairs.values() if cell.startswith("NV")}
    if not linked:
        return "no-nvlink"
    if not all(cell.startswith("NV") for cell in pairs.values()):
        return "partial-nvlink"
    return f"full-mesh-uniform {next(iter(linked))}" if len(linked) == 1 else "full-mesh-NONUNIFORM"


def _mesh(topo: Topology, pairs: dict[str, str]) -> bool:
    due = len(topo.gpus) * (len(topo.gpus) - 1) // 2
    return 0 < due == len(pairs) and all(cell.startswith("NV") for cell in pairs.values())


def topo(fact: Fact) -> Values:
    assert isinstance(fact, Topology)
    pairs = _pairs(fact)
    kinds = sorted(set(pairs.values()))
    alone = [
        gpu for gpu in fact.gpus
        if not any(v.startswith("NV") for k, v in pairs.items() if gpu in k.split("-"))
    ]  # fmt: skip
    rows = [(gpu, fact.row(gpu)) for gpu in fact.gpus]
    return {
        "gpu_count": len(fact.gpus),
        "pairs": pairs,
        "pair_kinds": kinds,
        "full_nvlink_mesh": _mesh(fact, pairs),
        "uniform": _mesh(fact, pairs) and len(kinds) == 1,
        "nv_counts": sorted({int(cell[2:]) for cell in kinds if cell.startswith("NV")}),
        "nic_columns": list(fact.nics),
        "nic_legend": fact.nic_names or None,
        "gpu_nic": {
            gpu: {nic: row.cells[nic] for nic in fact.nics if nic in row.cells}
            for gpu, row in rows
            if row is not None
        },
        "affinity": {
            gpu: {
                "cpu": row.cpu_affinity if row else None,
                "numa": row.numa_affinity if row else None,
                "gpu_numa_id": row.gpu_numa_id if row else None,
            }
            for gpu, row in rows
        },
        "asymmetric": [],  # refused by the parser
        "complete": fact.gpu_rows_whole,
        "truncated": fact.gpu_rows_whole and not fact.nic_rows_whole,
        "nvlink_reading": _nvlink_reading(fact, pairs),
        "broken_gpu": alone[0] if len(alone) == 1 else None,
    }


def topo_p2p(fact: Fact) -> Values:
    assert isinstance(fact, TopologyP2p)
    kinds = {cell for row in fact.rows for name, cell in row.cells.items() if name != row.name}
    return {
        "gpus": len(fact.gpus),
        "all_ok": fact.complete and kinds == {"OK"},
        "kinds": sorted(kinds),
        "complete": fact.complete,
    }


# --- nvidia-smi -----------------------------------------------------------------------------


def nvidia_smi(fact: Fact) -> Values:
    assert isinstance(fact, SmiTable)
    return {
        "gpus": len(fact.gpus),
        "driver": fact.driver_version,
        "cuda": fact.cuda_version,
        "names": _unique(gpu.name for gpu in fact.gpus),
        "mig": [gpu.mig_mode for gpu in fact.gpus],
        "ecc_uncorr_volatile": [gpu.ecc_uncorrectable_volatile for gpu in fact.gpus],
        "processes": None if fact.processes is None else len(fact.processes),
        "bus_ids": [gpu.bus_id for gpu in fact.gpus],
        "complete": fact.complete,
    }


def _uncorrectable(*periods: EccErrors) -> int | None:
    """None where no counter was told."""
    parts = [
        part
        for period in periods
        for part in (period.sram_uncorrectable, period.dram_uncorrectable)
    ]
    told = [part for part in parts if part is not None]
    return sum(told) if told else None


def _same_pcie(fact: GpuInventory) -> str | None:
    now = {(gpu.pcie_gen_current, gpu.pcie_width_current) for gpu in fact.gpus}
    most = {(gpu.pcie_gen_max, gpu.pcie_width_max) for gpu in fact.gpus}
    gen, width = next(iter(most))
    return f"gen{gen} x{width}" if len(now | most) == 1 else None


def _inventory(fact: GpuInventory) -> Values:
    gpus = fact.gpus
    uncorrectable = [_uncorrectable(gpu.ecc_volatile, gpu.ecc_aggregate) for gpu in gpus]
    known = [count for count in uncorrectable if count is not None]
    clusters = [gpu.fabric.cluster_uuid for gpu in gpus]
    return {
        "gpus": len(gpus),
        "attached_gpus": fact.attached_gpus,
        "driver": fact.driver_version,
        "cuda": fact.cuda_version,
        "names": _unique(gpu.product for gpu in gpus),
        "bus_ids": [gpu.bus_id for gpu in gpus],
        "persistence": [gpu.persistence_mode for gpu in gpus],
        "mig": [gpu.mig_mode for gpu in gpus],
        "ecc": [gpu.ecc_mode_current for gpu in gpus],
        "ecc_uncorrectable_any": sum(known) if known else None,
        "ecc_uncorrectable": sum(known) if known else None,
        "ecc_corrected_aggregate": [gpu.ecc_aggregate.correctable for gpu in gpus],
        "ecc_uncorrected_aggregate": [_uncorrectable(gpu.ecc_aggregate) for gpu in gpus],
        "ecc_uncorrected_volatile": [_uncorrectable(gpu.ecc_volatile) for gpu in gpus],
        "ecc_corrected_dram": {
            gpu.bus_id[-7:]: gpu.ecc_aggregate.correctable
            for gpu in gpus if gpu.ecc_aggregate.correctable
        },
        "remapped_correctable": {
            gpu.bus_id[-7:]: gpu.remap_correctable for gpu in gpus if gpu.remap_correctable
        },
        "remapped_uncorrectable": [gpu.remap_uncorrectable for gpu in gpus],
        "remap_failure": [gpu.remap_failure for gpu in gpus],
        "pending": [gpu.remap_pending for gpu in gpus],
        "reset_required": [gpu.reset_required for gpu in gpus],
        "recovery_action": [gpu.recovery_action for gpu in gpus],
        "fabric_state": [gpu.fabric.state for gpu in gpus],
        "fabric_status": [gpu.fabric.status for gpu in gpus],
        "clique_id": [gpu.fabric.clique_id for gpu in gpus],
        "cluster_uuid_all_zero": all(c and not c.strip("0-") for c in clusters),
        "health_summary": [gpu.fabric.health.get("summary") for gpu in gpus],
        "health_bandwidth": [gpu.fabric.health.get("bandwidth") for gpu in gpus],
        "pcie": _same_pcie(fact),
        "module_ids": [gpu.module_id for gpu in gpus],
        "replays_since_reset": [gpu.pcie_replays for gpu in gpus],
        "temp_c": [gpu.temperature_c for gpu in gpus],
        "power_w": [gpu.power_draw_w for gpu in gpus],
        "retired_pages": [gpu.retired_pages for gpu in gpus],
        "virtualization": [gpu.virtualization for gpu in gpus],
        "mig_devices": [gpu.mig_devices for gpu in gpus],
    }  # fmt: skip


def smi_q(fact: Fact) -> Values:
    if isinstance(fact, GpuInventory):
        return _inventory(fact)
    assert isinstance(fact, FabricStates)
    fabrics = [block.fabric for block in fact.blocks]
    return {
        "gpus": None,
        "complete": fact.complete,
        "fabric_state": [fabric.state for fabric in fabrics],
        "fabric_status": [fabric.status for fabric in fabrics],
        "clique_id": [fabric.clique_id for fabric in fabrics],
        "health_summary": [fabric.health.get("summary") for fabric in fabrics],
        "health_bandwidth": [fabric.health.get("bandwidth") for fabric in fabrics],
    }


def smi_query_csv(fact: Fact) -> Values:
    assert isinstance(fact, SmiQuery)

    def column(name: str) -> list[object]:
        return [fact.cell(row, name) for row in fact.rows]

    lanes = _unique(
        f"gen{gen} x{width}"
        for gen, width in zip(
            column("pcie.link.gen.gpucurrent"), column("pcie.link.width.current"), strict=True
        )
    )
    return {
        "rows": len(fact.rows) - sum(row.lost for row in fact.rows),
        "bad_rows": sum(row.lost for row in fact.rows),
        "columns": len(fact.columns),
        "header_first": fact.columns[0].name if fact.columns else None,
        "name": column("name"),
        "ecc_uncorrected_volatile_total": column("ecc.errors.uncorrected.volatile.total"),
        "mig": column("mig.mode.current"),
        "fabric_state": column("fabric.state"),
        "fabric_status": column("fabric.status"),
        "pcie": lanes,
        "remapped_uncorrectable": column("remapped_rows.uncorrectable"),
        "remapped_pending": column("remapped_rows.pending"),
        "driver": column("driver_version"),
        "compute_cap": column("compute_cap"),
        "missing_index": fact.errors[0].gpu if fact.errors else None,
        "lost": fact.errors[0].bus_id if fact.errors else None,
    }


def smi_gpu_reset(fact: Fact) -> Values:
    assert isinstance(fact, GpuReset)
    return {"reset": len(fact.reset)}


def _nvlink_state(gpu: NvlinkGpu) -> str:
    return "active" if gpu.state == "links" else gpu.state


def nvlink(fact: Fact) -> Values:
    if isinstance(fact, NvlinkErrors):
        counters = [link for gpu in fact.gpus for link in gpu.links]
        counts = [count for link in counters for count in link.counts.values()]
        return {
            "gpus": len(fact.gpus),
            "links_seen": len(counters),
            "errors_total": None if None in counts else sum(c for c in counts if c is not None),
            "complete": fact.complete,
        }
    assert isinstance(fact, NvlinkStatus)
    links = [[link.gbytes_s for link in gpu.links] for gpu in fact.gpus]
    speeds = {speed for speeds in links for speed in speeds if speed is not None}
    counts_of = {len(speeds) for speeds in links}
    return {
        "gpus": len(fact.gpus),
        "links_per_gpu": [len(speeds) for speeds in links] if fact.complete else None,
        "active": [sum(s is not None for s in speeds) for speeds in links]
        if fact.complete
        else None,
        "speed_gbs": next(iter(speeds)) if len(speeds) == 1 else None,
        "state": [_nvlink_state(gpu) for gpu in fact.gpus],
        "states": [_nvlink_state(gpu) for gpu in fact.gpus],
        "inactive": [
            f"GPU {gpu.index} link {link.index}"
            for gpu in fact.gpus for link in gpu.links if link.gbytes_s is None
        ],
        "links_shown_per_gpu": next(iter(counts_of)) if len(counts_of) == 1 else None,
        "complete": fact.complete,
    }  # fmt: skip


# --- kernel log, fabric manager -------------------------------------------------------------


def xid(fact: Fact) -> Values:
    assert isinstance(fact, KernelLog)
    return {
        "xids": [event.xid for event in fact.xids],
        "pci": _unique(event.pci for event in fact.xids),
        "fatal": [event.fatal for event in fact.xids],
        "probe_failed": [
            note.pci for note in fact.notes if note.kind == "probe_failed" and note.pci
        ],
    }


def sxid(fact: Fact) -> Values:
    assert isinstance(fact, KernelLog)
    return {
        "xids": [event.xid for event in fact.xids],
        "sxid_events": [
            [event.switch, event.sxid, event.port, "Fatal" if event.fatal else "Non-fatal"]
            for event in fact.sxids
        ],
        "fatal": any(event.fatal for event in fact.sxids),
    }


_CAUSES = ("version_mismatch", "nvswitch_count", "nothing_to_do")


def fabricmanager(fact: Fact) -> Values:
    if isinstance(fact, FabricManagerVersion):
        return {"version": fact.version}
    if isinstance(fact, UnitState):
        assert isinstance(fact, FabricManagerStatus)
        return {
            "state": fact.active,
            "result": fact.result,
            "signal": fact.signal,
            "enabled": None if fact.enabled is None else fact.enabled == "enabled",
            "nvlsm": fact.nvlsm,
            "configured": any(event.kind == "configured" for event in fact.events),
            "version": None,
        }
    assert isinstance(fact, FabricManagerLog)
    causes = [event.kind for event in fact.events if event.kind in _CAUSES]
    sxids = fact.of_kind("sxid")
    mismatches = fact.of_kind("version_mismatch")
    return {
        "state": fact.state,
        "errors": fact.errors,
        "sxid": sorted({event.sxid or 0 for event in sxids}),
        "fatal": any(event.fatal for event in sxids),
        "port": [event.port for event in sxids],
        "cause": causes[0].replace("nothing_to_do", "no_nvswitch") if causes else None,
        "fm_version": mismatches[0].fm_version if mismatches else None,
        "driver_version": mismatches[0].driver_version if mismatches else None,
        "nvlsm": fact.nvlsm,
    }


# --- DCGM -----------------------------------------------------------------------------------


def _diag(fact: DcgmDiag) -> Values:
    failed, gpu_count = [], len(fact.gpu_device_ids)
    for result in fact.results:
        if result.status == "fail" and result.test not in " ".join(failed):
            everywhere = result.gpus is None and result.category == "Hardware" and gpu_count
            failed.append(f"{result.test} (all {gpu_count})" if everywhere else result.test)
    return {
        "command": "diag",
        "format": fact.form,
        "version": fact.dcgm_version,
        "dcgm": fact.dcgm_version,
        "driver": fact.driver_version,
        "fails": failed if fact.results else None,
        "warns": list(fact.tests("warn")),
        "skips": list(fact.tests("skip")),
        "overall": "Fail" if failed else "Pass" if fact.results else None,
        "error_ids": _unique(number for result in fact.results for number in result.error_ids),
    }


def _dcgm_links(fact: DcgmNvlinkStatus) -> Values:
    return {
        "command": "nvlink",
        "format": "text",
        "gpus": {
            str(gpu.id): {
                "U": len(gpu.at("up")), "D": len(gpu.at("down")), "X": len(gpu.at("disabled")),
            }
            for gpu in fact.gpus
        },
        "nvswitches": None if fact.switches is None else len(fact.switches),
        "fails": [f"GPU {gpu.id} link {at}" for gpu in fact.gpus for at in gpu.at("down")],
        "complete": fact.complete,
    }  # fmt: skip


def _dcgm_errors(fact: DcgmNvlinkErrors) -> Values:
    bad = {
        f"Link {link.index}": {name: count for name, count in link.counts.items() if count}
        for link in fact.links
    }
    bad = {name: counts for name, counts in bad.items() if counts}
    return {
        "command": "nvlink",
        "format": "json",
        "gpu": fact.gpu,
        "links": len(fact.links),
        "errors": bad,
        "fails": [f"GPU {fact.gpu} {name}" for name in bad],
    }


def dcgmi(fact: Fact) -> Values:
    if isinstance(fact, DcgmDiag):
        return _diag(fact)
    if isinstance(fact, DcgmNvlinkStatus):
        return _dcgm_links(fact)
    if isinstance(fact, DcgmNvlinkErrors):
        return _dcgm_errors(fact)
    if isinstance(fact, DcgmHealth):
        bad = fact.overall not in (None, "Healthy")
        return {
            "command": "health",
            "overall": fact.overall,
            "fails": list(fact.details) if bad else [],
        }
    assert isinstance(fact, DcgmDiscovery)
    return {
        "command": "discovery",
        "format": "text",
        "gpus": fact.gpu_count,
        "nvswitches": fact.nvswitch_count,
        "cpus": fact.cpu_count,
        "fails": [],
    }


# --- NCCL -----------------------------------------------------------------------------------


def _best(run: NcclRun, half: str) -> Values | None:
    found = [
        (measure.busbw_gbytes_s, row.size_bytes)
        for row in run.rows
        if (measure := getattr(row, half)) is not None and measure.busbw_gbytes_s is not None
    ]
    if not found:
        return None
    best = max(found, key=lambda cell: cell[0])
    return {"busbw": best[0], "size": best[1]}


def _measures(run: NcclRun) -> list[NcclMeasure]:
    return [half for row in run.rows for half in (row.out_of_place, row.in_place) if half]


def _wrong(run: NcclRun) -> Values | None:
    if run.error_column is None:
        return None
    halves = _measures(run)
    if run.error_column == "#wrong" or not halves:
        counts = [half.wrong for half in halves]
        told = [count for count in counts if count is not None]
        return {
            "sum": sum(told),
            "nonzero_cells": sum(count != 0 for count in told),
            "na_cells": counts.count(None),
        }
    deltas = [half.max_delta for half in halves]
    return {
        "max_delta": max((delta for delta in deltas if delta is not None), default=None),
        "na_cells": deltas.count(None),
    }


def _last_row(run: NcclRun) -> Values | None:
    if not run.rows:
        return None
    row = run.rows[-1]
    out, inside = row.out_of_place, row.in_place
    return {
        "size": row.size_bytes,
        "oop_busbw": out.busbw_gbytes_s if out else None,
        "ip_busbw": inside.busbw_gbytes_s if inside else None,
    }


def _brief(run: NcclRun) -> Values:
    return {
        "collective": run.collective,
        "ranks": run.ranks,
        "sizes": len(run.rows),
        "complete": run.complete,
    }


def nccl(fact: Fact) -> Values:
    assert isinstance(fact, NcclTests)
    run = fact.runs[0]
    sizes = [row.size_bytes for row in run.rows]
    cells = [half.busbw_gbytes_s for half in _measures(run) if half.busbw_gbytes_s is not None]
    words = {True: "OK", False: "FAILED", None: None}
    return {
        **_brief(run),
        "distinct_sizes": len(set(sizes)),
        "first_size": sizes[0] if sizes else None,
        "last_size": sizes[-1] if sizes else None,
        "max_busbw_out_of_place": _best(run, "out_of_place"),
        "max_busbw_in_place": _best(run, "in_place"),
        "last_row": _last_row(run),
        "avg_busbw": run.avg_busbw_gbytes_s,
        "avg_recomputed": round(sum(cells) / len(cells), 4) if cells else None,
        "avg_status": words[run.avg_busbw_ok],
        "error_column": run.error_column,
        "wrong": _wrong(run),
        "out_of_bounds": run.out_of_bounds,
        "out_of_bounds_status": words[run.out_of_bounds_ok],
        "collective_in_text": run.collective is not None,
        "tests_in_log": len(fact.runs),
        "second_test": _brief(fact.runs[1]) if len(fact.runs) > 1 else None,
    }


def nccl_debug(fact: Fact) -> Values:
    assert isinstance(fact, NcclDebug)
    return {
        "network": fact.network,
        "nics": [nic.name for nic in fact.nics],
        "link_layer": fact.link_layer,
        "gdrdma": fact.gdrdma,
        "nvls": fact.nvls.replace("_", " ") if fact.nvls else None,
        "nodes": fact.nodes,
        "ranks": fact.ranks,
        "dmabuf": fact.dmabuf,
        "cause": "libibverbs missing" if fact.verbs_missing else None,
        "cuda_error": list(fact.cuda_errors),
    }


# --- driver ---------------------------------------------------------------------------------


def cuda_error(fact: Fact) -> Values:
    assert isinstance(fact, CudaError)
    return {"cuda_error": fact.code}


def modinfo(fact: Fact) -> Values:
    assert isinstance(fact, ModuleFile)
    return {
        "version": fact.version,
        "license": fact.license,
        "flavour": fact.flavour,
        "kernel": fact.kernel,
        "dkms": fact.dkms,
    }


def proc_nvidia_version(fact: Fact) -> Values:
    assert isinstance(fact, LoadedModule)
    return {"version": fact.version, "flavour": fact.flavour}


READERS: dict[str, Callable[[Fact], Values]] = {
    "topo": topo,
    "topo_p2p": topo_p2p,
    "nvidia_smi": nvidia_smi,
    "smi_q": smi_q,
    "smi_query_csv": smi_query_csv,
    "smi_gpu_reset": smi_gpu_reset,
    "nvlink": nvlink,
    "xid": xid,
    "sxid": sxid,
    "fabricmanager": fabricmanager,
    "dcgmi": dcgmi,
    "nccl": nccl,
    "nccl_debug": nccl_debug,
    "cuda_error": cuda_error,
    "modinfo": modinfo,
    "proc_nvidia_version": proc_nvidia_version,
}

#: Words of the labeller: a judgement or a remark, not a value of the text.
PROSE: dict[str, frozenset[str]] = dict.fromkeys(READERS, frozenset({"verdict"})) | {
    "nvidia_smi": frozenset({"verdict", "missing_bus_id"}),  # what should be there is not printed
    "smi_query_csv": frozenset({"verdict", "note"}),
    "nccl": frozenset({"verdict", "expert_verdict", "note"}),
}

#: Values that stand in no fact, and why.
NOT_READ: dict[str, dict[str, str]] = {
    "smi_q": {
        "format": "the fact is the same from XML and from text",
    },
    "topo": {"nics_total": "a banner of one tool version, the columns are counted"},
    "topo_p2p": {"mode": "the text does not say which capability was asked for"},
    "fabricmanager": {"fabric_state": "a line of another tool that the author put below"},
    "dcgmi": {
        "level": "the table does not print it, only the command line",
        "rc": "an exit status is not in the text",
        "format": "health reads the same from either form",
    },
}


def _nccl(label: dict[str, Any]) -> dict[str, Any]:
    """Without the name that only the source gives, and without remarks inside a value."""
    tidy = dict(label)
    if not label.get("collective_in_text", True):
        del tidy["collective"]
    if isinstance(label.get("wrong"), dict):
        tidy["wrong"] = {key: value for key, value in label["wrong"].items() if key != "note"}
    return tidy


def _first_words(label: dict[str, Any]) -> dict[str, Any]:
    """``gen5 x16 (current = max on all 8)``: the words in brackets explain."""
    pcie = label.get("pcie")
    return label | {"pcie": pcie.split(" (")[0]} if isinstance(pcie, str) else label


def _sorted_sxids(label: dict[str, Any]) -> dict[str, Any]:
    """The label names the worst first."""
    sxids = label.get("sxid")
    return label | {"sxid": sorted(sxids)} if isinstance(sxids, list) else label


def _no_fails(label: dict[str, Any]) -> dict[str, Any]:
    """Two ways to write that nothing failed."""
    return label | {"fails": []} if label.get("fails") == 0 else label


TIDY: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "nccl": _nccl,
    "smi_q": _first_words,
    "smi_query_csv": _first_words,
    "fabricmanager": _sorted_sxids,
    "dcgmi": _no_fails,
}
