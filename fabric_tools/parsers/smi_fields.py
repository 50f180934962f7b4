"""What `nvidia-smi -q` calls each field, in XML and in text, and how a value becomes a fact.

One table for both forms, so that the two readings of one node cannot differ.
Evidence: real text captures of drivers 550 to 595, real XML of DTD v11 and v12. Unverified: XML
names under fabric/health but bandwidth, and the 610 names of the two versions (`--version`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from fabric_tools.models.facts import EccErrors, GpuFabric, GpuFacts
from fabric_tools.parsers.base import ParseError

Get = Callable[[str], str | None]

#: A DGX-2 has 16; the bound keeps a hostile file from costing minutes.
MAX_GPUS = 256

BUS_ID = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]")

# name -> (XML path, text path)
HEAD = {
    "driver_version": ("driver_version", "Driver Version"),
    "kmd_version": ("kmd_version", "KMD Version"),
    "cuda_version": ("cuda_version", "CUDA Version"),
    "cuda_umd_version": ("cuda_umd_version", "CUDA UMD Version"),
    "attached_gpus": ("attached_gpus", "Attached GPUs"),
}

_PERIODS = (("volatile", "Volatile"), ("aggregate", "Aggregate"))
_ECC = (
    ("sram_correctable", "SRAM Correctable"),
    ("sram_uncorrectable", "SRAM Uncorrectable"),
    ("sram_uncorrectable_parity", "SRAM Uncorrectable Parity"),
    ("sram_uncorrectable_secded", "SRAM Uncorrectable SEC-DED"),
    ("dram_correctable", "DRAM Correctable"),
    ("dram_uncorrectable", "DRAM Uncorrectable"),
    ("sram_threshold_exceeded", "SRAM Threshold Exceeded"),
    ("single_bit/total", "Single Bit/Total"),
    ("double_bit/device_memory", "Double Bit/Device Memory"),
    ("double_bit/total", "Double Bit/Total"),
)

#: What may hold the clocks down: name in XML -> words of the text.
THROTTLE = {
    "gpu_idle": "Idle",
    "applications_clocks_setting": "Applications Clocks Setting",
    "sw_power_cap": "SW Power Cap",
    "hw_slowdown": "HW Slowdown",
    "hw_thermal_slowdown": "HW Slowdown/HW Thermal Slowdown",
    "hw_power_brake_slowdown": "HW Slowdown/HW Power Brake Slowdown",
    "sync_boost": "Sync Boost",
    "sw_thermal_slowdown": "SW Thermal Slowdown",
    "display_clocks_setting": "Display Clock Setting",
}

GPU = (
    {
        "product": ("product_name", "Product Name"),
        "uuid": ("uuid", "GPU UUID"),
        "device_id": ("pci/pci_device_id", "PCI/Device Id"),
        "vbios": ("vbios_version", "VBIOS Version"),
        "mig": ("mig_mode/current_mig", "MIG Mode/Current"),
        "mig_pending": ("mig_mode/pending_mig", "MIG Mode/Pending"),
        "persistence": ("persistence_mode", "Persistence Mode"),
        "ecc_current": ("ecc_mode/current_ecc", "ECC Mode/Current"),
        "ecc_pending": ("ecc_mode/pending_ecc", "ECC Mode/Pending"),
        "remap_corr": ("remapped_rows/remapped_row_corr", "Remapped Rows/Correctable Error"),
        "remap_unc": ("remapped_rows/remapped_row_unc", "Remapped Rows/Uncorrectable Error"),
        "remap_pending": ("remapped_rows/remapped_row_pending", "Remapped Rows/Pending"),
        "remap_failure": (
            "remapped_rows/remapped_row_failure",
            "Remapped Rows/Remapping Failure Occurred",
        ),
        "reset_required": ("gpu_reset_status/reset_required", "GPU Reset Status/Reset Required"),
        "drain_and_reset": (
            "gpu_reset_status/drain_and_reset_recommended",
            "GPU Reset Status/Drain and Reset Recommended",
        ),
        "recovery": ("gpu_recovery_action", "GPU Recovery Action"),
        "gen_max": (
            "pci/pci_gpu_link_info/pcie_gen/max_link_gen",
            "PCI/GPU Link Info/PCIe Generation/Max",
        ),
        "gen_now": (
            "pci/pci_gpu_link_info/pcie_gen/current_link_gen",
            "PCI/GPU Link Info/PCIe Generation/Current",
        ),
        "width_max": (
            "pci/pci_gpu_link_info/link_widths/max_link_width",
            "PCI/GPU Link Info/Link Width/Max",
        ),
        "width_now": (
            "pci/pci_gpu_link_info/link_widths/current_link_width",
            "PCI/GPU Link Info/Link Width/Current",
        ),
        "temperature": ("temperature/gpu_temp", "Temperature/GPU Current Temp"),
        "tlimit": ("temperature/gpu_temp_tlimit", "Temperature/GPU T.Limit Temp"),
        "memory_temperature": ("temperature/memory_temp", "Temperature/Memory Current Temp"),
        "power_limit": (
            "gpu_power_readings/current_power_limit",
            "GPU Power Readings/Current Power Limit",
        ),
        "power_default": (
            "gpu_power_readings/default_power_limit",
            "GPU Power Readings/Default Power Limit",
        ),
        # Up to driver 525.
        "power_limit.old": (
            "power_readings/enforced_power_limit",
            "Power Readings/Enforced Power Limit",
        ),
        "power_default.old": (
            "power_readings/default_power_limit",
            "Power Readings/Default Power Limit",
        ),
        "module_id": ("platformInfo/module_id", "Platform Info/Module Id"),
        "module_id.old": ("gpu_module_id", "Module ID"),
        "replays": ("pci/replay_counter", "PCI/Replays Since Reset"),
        "virtualization": (
            "gpu_virtualization_mode/virtualization_mode",
            "GPU Virtualization Mode/Virtualization Mode",
        ),
        "retired_single": (
            "retired_pages/multiple_single_bit_retirement/retired_count",
            "Retired Pages/Single Bit ECC",
        ),
        "retired_double": (
            "retired_pages/double_bit_retirement/retired_count",
            "Retired Pages/Double Bit ECC",
        ),
        "retired_pending": (
            "retired_pages/pending_retirement",
            "Retired Pages/Pending Page Blacklist",
        ),
        "retired_pending.old": ("retired_pages/pending_blacklist", "Retired Pages/Pending"),
        "draw": ("gpu_power_readings/power_draw", "GPU Power Readings/Power Draw"),
        "draw.instant": (
            "gpu_power_readings/instant_power_draw",
            "GPU Power Readings/Instantaneous Power Draw",
        ),
        "draw.old": ("power_readings/power_draw", "Power Readings/Power Draw"),
        "fabric_state": ("fabric/state", "Fabric/State"),
        "fabric_status": ("fabric/status", "Fabric/Status"),
        "clique": ("fabric/cliqueId", "Fabric/CliqueId"),
        "cluster": ("fabric/clusterUuid", "Fabric/ClusterUUID"),
    }
    | {
        f"{period}.{xml}": (f"ecc_errors/{period}/{xml}", f"ECC Errors/{title}/{words}")
        for period, title in _PERIODS
        for xml, words in _ECC
    }
    | {
        f"throttle.{name}{old}": (
            f"clocks_{word}_reasons/clocks_{word}_reason_{name}",
            f"Clocks {title} Reasons/{words}",
        )
        for name, words in THROTTLE.items()
        # The word was "throttle" up to driver 530.
        for old, word, title in (("", "event", "Event"), (".old", "throttle", "Throttle"))
    }
)

_NOT_AVAILABLE = {"", "n/a"}
_ERROR_WORDS = {
    "unknown error",
    "gpu requires reset",
    "gpu is lost",
    "insufficient permissions",
    "err!",
}
_NO_NUMBER = (
    _NOT_AVAILABLE | _ERROR_WORDS | {"requested functionality has been deprecated", "not supported"}
)
_NUMBER = re.compile(r"\d{1,18}", re.ASCII)
_WIDTH = re.compile(r"(\d{1,3})x", re.ASCII)
_DEGREES = re.compile(r"(-?\d{1,3}) C", re.ASCII)
_WATTS = re.compile(r"(\d{1,5}(?:\.\d{1,3})?) W", re.ASCII)
_DEVICE_ID = re.compile(r"(?:0x)?([0-9A-Fa-f]{4})([0-9A-Fa-f]{4})")
# People point at a value with an arrow before they paste the text.
_ARROW = re.compile(r"\s{1,100}<=+$")


class Fields:
    """Typed access to the raw values of one block; every refusal names field and line."""

    def __init__(self, probe: str, line: int, get: Get) -> None:
        self._probe, self._line, self._get = probe, line, get
        self.unreadable: dict[str, str] = {}

    def _raw(self, name: str) -> str:
        value = _ARROW.sub("", self._get(name) or "").strip()
        if _bare(value) in _ERROR_WORDS:
            self.unreadable[name] = value.strip("[]")
        return value

    def _refuse(self, name: str, value: str) -> ParseError:
        return ParseError(self._probe, self._line, f"{name}: cannot read {value[:60]!r}")

    def words(self, name: str) -> str | None:
        """What was printed; None for N/A."""
        value = self._raw(name)
        return None if _bare(value) in _NOT_AVAILABLE else value

    def number(self, name: str, pattern: re.Pattern[str] = _NUMBER) -> int | None:
        """A count; None where the tool gave a known reason not to tell one."""
        value = self._raw(name)
        if _bare(value) in _NO_NUMBER:
            return None
        match = pattern.fullmatch(value)
        if match is None:
            raise self._refuse(name, value)
        return int(match.group(match.lastindex or 0))

    def decimal(self, name: str, pattern: re.Pattern[str]) -> float | None:
        """A number with a unit; None where the tool gave a known reason not to tell one."""
        value = self._raw(name)
        if _bare(value) in _NO_NUMBER:
            return None
        match = pattern.fullmatch(value)
        if match is None:
            raise self._refuse(name, value)
        return float(match[1])

    def active(self, name: str) -> bool | None:
        """Active or Not Active."""
        value = self._raw(name)
        if _bare(value) in _NO_NUMBER:
            return None
        if value not in ("Active", "Not Active"):
            raise self._refuse(name, value)
        return value == "Active"

    def flag(self, name: str) -> bool | None:
        """Yes or No."""
        value = self._raw(name)
        if _bare(value) in _NO_NUMBER:
            return None
        if value not in ("Yes", "No"):
            raise self._refuse(name, value)
        return value == "Yes"

    def device_id(self) -> str | None:
        """``233010DE`` and ``0x233010DE`` are device then vendor; lspci writes vendor first."""
        value = self._raw("device_id")
        if _bare(value) in _NO_NUMBER:
            return None
        match = _DEVICE_ID.fullmatch(value)
        if match is None:
            raise self._refuse("device_id", value)
        return f"{match[2]}:{match[1]}".lower()

    def version(self, name: str, new_name: str) -> str | None:
        """Driver 610 prints "Deprecated, see ..." under the old name and the value under a new."""
        value = self.words(name)
        if value is None or value.lower().startswith("deprecated"):
            return self.words(new_name)
        return value


def _bare(value: str) -> str:
    return value.strip("[]").lower()


def _sum(*parts: int | None) -> int | None:
    """A part that was not told makes the sum unknown, unless the rest already shows errors."""
    known = [part for part in parts if part is not None]
    total = sum(known)
    return total if known and (total > 0 or len(known) == len(parts)) else None


def _ecc(fields: Fields, period: str) -> EccErrors:
    def number(name: str) -> int | None:
        return fields.number(f"{period}.{name}")

    double, memory = number("double_bit/total"), number("double_bit/device_memory")
    correctable = _sum(number("sram_correctable"), number("dram_correctable"))
    sram = _sum(number("sram_uncorrectable_parity"), number("sram_uncorrectable_secded"))
    if sram is None:
        sram = number("sram_uncorrectable")
    if sram is None and double is not None and memory is not None and double >= memory:
        sram = double - memory
    dram = number("dram_uncorrectable")
    return EccErrors(
        correctable=correctable if correctable is not None else number("single_bit/total"),
        sram_uncorrectable=sram,
        dram_uncorrectable=dram if dram is not None else memory,
        sram_threshold_exceeded=fields.flag(f"{period}.sram_threshold_exceeded"),
    )


def _throttle(fields: Fields) -> dict[str, bool]:
    """What is told, under its new or old heading."""
    found: dict[str, bool] = {}
    for name in THROTTLE:
        told = fields.active(f"throttle.{name}")
        told = fields.active(f"throttle.{name}.old") if told is None else told
        if told is not None:
            found[name] = told
    return found


def _watts(fields: Fields, name: str) -> float | None:
    found = fields.decimal(name, _WATTS)
    return fields.decimal(f"{name}.old", _WATTS) if found is None else found


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _draw(fields: Fields) -> float | None:
    """Drivers from 580 on print an average and an instantaneous value."""
    found = (fields.decimal(name, _WATTS) for name in ("draw", "draw.instant", "draw.old"))
    return next((watts for watts in found if watts is not None), None)


def _retired(fields: Fields) -> int | None:
    """Pages taken out of use (before Ampere; later GPUs remap rows and print N/A)."""
    single, double = fields.number("retired_single"), fields.number("retired_double")
    return None if single is None or double is None else single + double


def health(printed: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Every line under Fabric/Health that says something, by its normalised name."""
    found = {name.strip().lower().replace(" ", "_"): value.strip() for name, value in printed}
    return {name: value for name, value in found.items() if _bare(value) not in _NOT_AVAILABLE}


def build_fabric(fields: Fields, fabric_health: dict[str, str]) -> GpuFabric:
    """The Fabric block from its raw values, by the keys of ``GPU``."""
    return GpuFabric(
        state=fields.words("fabric_state"),
        status=fields.words("fabric_status"),
        clique_id=fields.words("clique"),
        cluster_uuid=fields.words("cluster"),
        health=fabric_health,
    )


def build_gpu(
    probe: str, index: int, line: int, bus_id: str, get: Get, fabric_health: dict[str, str]
) -> GpuFacts:
    """One GPU from the raw values of its block; ``get`` takes a key of ``GPU``."""
    fields = Fields(probe, line, get)
    facts = _facts(fields, index, line, bus_id, fabric_health)
    return facts.model_copy(update={"unreadable": dict(sorted(fields.unreadable.items()))})


def _facts(
    fields: Fields, index: int, line: int, bus_id: str, fabric_health: dict[str, str]
) -> GpuFacts:
    return GpuFacts(
        index=index,
        line=line,
        bus_id=bus_id,
        product=fields.words("product"),
        uuid=fields.words("uuid"),
        pci_device_id=fields.device_id(),
        vbios_version=fields.words("vbios"),
        mig_mode=fields.words("mig"),
        mig_pending=fields.words("mig_pending"),
        persistence_mode=fields.words("persistence"),
        ecc_mode_current=fields.words("ecc_current"),
        ecc_mode_pending=fields.words("ecc_pending"),
        ecc_volatile=_ecc(fields, "volatile"),
        ecc_aggregate=_ecc(fields, "aggregate"),
        remap_correctable=fields.number("remap_corr"),
        remap_uncorrectable=fields.number("remap_unc"),
        remap_pending=fields.words("remap_pending"),
        remap_failure=fields.words("remap_failure"),
        reset_required=fields.words("reset_required"),
        drain_and_reset=fields.words("drain_and_reset"),
        recovery_action=fields.words("recovery"),
        pcie_gen_max=fields.number("gen_max"),
        pcie_gen_current=fields.number("gen_now"),
        pcie_width_max=fields.number("width_max", _WIDTH),
        pcie_width_current=fields.number("width_now", _WIDTH),
        throttle=_throttle(fields),
        power_draw_w=_draw(fields),
        power_limit_w=_watts(fields, "power_limit"),
        power_default_w=_watts(fields, "power_default"),
        temperature_c=fields.number("temperature", _DEGREES),
        tlimit_c=fields.number("tlimit", _DEGREES),
        memory_temperature_c=fields.number("memory_temperature", _DEGREES),
        module_id=_first(fields.number("module_id"), fields.number("module_id.old")),
        pcie_replays=fields.number("replays"),
        retired_pages=_retired(fields),
        retired_pending=fields.words("retired_pending") or fields.words("retired_pending.old"),
        virtualization=fields.words("virtualization"),
        fabric=build_fabric(fields, fabric_health),
    )
