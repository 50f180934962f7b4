"""What the fields of one GPU are called in `nvidia-smi -q`, as text, in XML and in csv.

One table for both forms of ``-q``, so that the two cannot tell differently.
Forms: the ``-q`` of an 8x H100 node with driver 565.57.01 (names, order), the longer health block
of a 580 driver, the csv of an H200 with driver 590.48.01. Unverified: the XML names under
``health`` but ``bandwidth`` (taken from the csv), and 610's XML.
"""

from __future__ import annotations

from .state import Gpu, Node, branch, cuda_version

#: A GPU and where nvidia-smi shows it: its number, and the version of the driver.
Shown = tuple[int, Gpu, Node, str]
Row = tuple[int, str, str, str | None]

_NO = {True: "Yes", False: "No"}
_ON = {True: "Enabled", False: "Disabled"}

# depth, words of the text, name in XML, value: None opens a group; "" leaves the row out of a form.
# Values are templates over ``values``.
_FIELDS: tuple[Row, ...] = (
    (0, "Product Name", "product_name", "{product}"),
    (0, "Product Brand", "product_brand", "NVIDIA"),
    (0, "Product Architecture", "product_architecture", "Hopper"),
    (0, "Display Mode", "display_mode", "Enabled"),
    (0, "Display Active", "display_active", "Disabled"),
    (0, "Persistence Mode", "persistence_mode", "{persistence}"),
    (0, "Addressing Mode", "addressing_mode", "None"),
    (0, "MIG Mode", "mig_mode", None),
    (1, "Current", "current_mig", "Disabled"),
    (1, "Pending", "pending_mig", "Disabled"),
    (0, "Accounting Mode", "accounting_mode", "Disabled"),
    (0, "Accounting Mode Buffer Size", "accounting_mode_buffer_size", "4000"),
    (0, "Driver Model", "driver_model", None),
    (1, "Current", "current_dm", "N/A"),
    (1, "Pending", "pending_dm", "N/A"),
    (0, "Serial Number", "serial", "{serial}"),
    (0, "GPU UUID", "uuid", "{uuid}"),
    (0, "Minor Number", "minor_number", "{minor}"),
    (0, "VBIOS Version", "vbios_version", "96.00.74.00.01"),
    (0, "MultiGPU Board", "multigpu_board", "No"),
    (0, "Board ID", "board_id", "0x{bus}00"),
    (0, "Board Part Number", "board_part_number", "692-2G520-0200-000"),
    (0, "GPU Part Number", "gpu_part_number", "2330-885-A1"),
    (0, "FRU Part Number", "gpu_fru_part_number", "N/A"),
    (0, "Platform Info", "platformInfo", None),
    (1, "Peer Type", "peer_type", "N/A"),
    (1, "Module Id", "module_id", "{module_id}"),
    (0, "Inforom Version", "inforom_version", None),
    (1, "Image Version", "img_version", "G520.0200.00.05"),
    (1, "OEM Object", "oem_object", "2.1"),
    (1, "ECC Object", "ecc_object", "7.16"),
    (1, "Power Management Object", "pwr_object", "N/A"),
    (0, "GPU Virtualization Mode", "gpu_virtualization_mode", None),
    (1, "Virtualization Mode", "virtualization_mode", "None"),
    (1, "Host VGPU Mode", "host_vgpu_mode", "N/A"),
    (0, "GPU Reset Status", "gpu_reset_status", None),
    (1, "Reset Required", "reset_required", "{reset_required}"),
    (1, "Drain and Reset Recommended", "drain_and_reset_recommended", "No"),
    (0, "GPU Recovery Action", "gpu_recovery_action", "None"),
    (0, "GSP Firmware Version", "gsp_firmware_version", "{driver}"),
    (0, "PCI", "pci", None),
    (1, "Bus", "pci_bus", "0x{bus}"),
    (1, "Device", "pci_device", "0x00"),
    (1, "Domain", "pci_domain", "0x0000"),
    (1, "Base Classcode", "pci_base_class", "0x3"),
    (1, "Sub Classcode", "pci_sub_class", "0x2"),
    (1, "Device Id", "pci_device_id", "0x{device_id}"),
    (1, "Bus Id", "pci_bus_id", "{bus_id}"),
    (1, "Sub System Id", "pci_sub_system_id", "0x16C110DE"),
    (1, "GPU Link Info", "pci_gpu_link_info", None),
    (2, "PCIe Generation", "pcie_gen", None),
    (3, "Max", "max_link_gen", "{gen_max}"),
    (3, "Current", "current_link_gen", "{gen_now}"),
    (3, "Device Current", "device_current_link_gen", "{gen_now}"),
    (3, "Device Max", "max_device_link_gen", "{gen_max}"),
    (3, "Host Max", "max_host_link_gen", "{gen_max}"),
    (2, "Link Width", "link_widths", None),
    (3, "Max", "max_link_width", "{width_max}x"),
    (3, "Current", "current_link_width", "{width_now}x"),
    (1, "Replays Since Reset", "replay_counter", "0"),
    (1, "Replay Number Rollovers", "replay_rollover_counter", "0"),
    (0, "Fan Speed", "fan_speed", "N/A"),
    (0, "Performance State", "performance_state", "P0"),
    (0, "Clocks Event Reasons", "clocks_event_reasons", None),
    (1, "Idle", "clocks_event_reason_gpu_idle", "Active"),
    (1, "Applications Clocks Setting",
     "clocks_event_reason_applications_clocks_setting", "Not Active"),
    (1, "SW Power Cap", "clocks_event_reason_sw_power_cap", "Not Active"),
    (1, "HW Slowdown", "clocks_event_reason_hw_slowdown", "Not Active"),
    (2, "HW Thermal Slowdown", "clocks_event_reason_hw_thermal_slowdown", "Not Active"),
    (2, "HW Power Brake Slowdown", "clocks_event_reason_hw_power_brake_slowdown", "Not Active"),
    (1, "Sync Boost", "clocks_event_reason_sync_boost", "Not Active"),
    (1, "SW Thermal Slowdown", "clocks_event_reason_sw_thermal_slowdown", "Not Active"),
    (1, "Display Clock Setting", "clocks_event_reason_display_clocks_setting", "Not Active"),
    (0, "FB Memory Usage", "fb_memory_usage", None),
    (1, "Total", "total", "81559 MiB"),
    (1, "Reserved", "reserved", "454 MiB"),
    (1, "Used", "used", "1 MiB"),
    (1, "Free", "free", "81106 MiB"),
    (0, "Compute Mode", "compute_mode", "Default"),
    (0, "Utilization", "utilization", None),
    (1, "Gpu", "gpu_util", "0 %"),
    (1, "Memory", "memory_util", "0 %"),
    (0, "ECC Mode", "ecc_mode", None),
    (1, "Current", "current_ecc", "{ecc_now}"),
    (1, "Pending", "pending_ecc", "{ecc_next}"),
    (0, "ECC Errors", "ecc_errors", None),
    (1, "Volatile", "volatile", None),
    (2, "SRAM Correctable", "sram_correctable", "{zero}"),
    (2, "SRAM Uncorrectable Parity", "sram_uncorrectable_parity", "{zero}"),
    (2, "SRAM Uncorrectable SEC-DED", "sram_uncorrectable_secded", "{zero}"),
    (2, "DRAM Correctable", "dram_correctable", "{zero}"),
    (2, "DRAM Uncorrectable", "dram_uncorrectable", "{uncorrectable}"),
    (1, "Aggregate", "aggregate", None),
    (2, "SRAM Correctable", "sram_correctable", "{zero}"),
    (2, "SRAM Uncorrectable Parity", "sram_uncorrectable_parity", "{zero}"),
    (2, "SRAM Uncorrectable SEC-DED", "sram_uncorrectable_secded", "{zero}"),
    (2, "DRAM Correctable", "dram_correctable", "{zero}"),
    (2, "DRAM Uncorrectable", "dram_uncorrectable", "{uncorrectable}"),
    (2, "SRAM Threshold Exceeded", "sram_threshold_exceeded", "{no}"),
    (0, "Remapped Rows", "remapped_rows", None),
    (1, "Correctable Error", "remapped_row_corr", "{remap_corr}"),
    (1, "Uncorrectable Error", "remapped_row_unc", "{remap_unc}"),
    (1, "Pending", "remapped_row_pending", "{remap_pending}"),
    (1, "Remapping Failure Occurred", "remapped_row_failure", "{remap_failed}"),
    (0, "Temperature", "temperature", None),
    (1, "GPU Current Temp", "gpu_temp", "{temperature} C"),
    (1, "GPU T.Limit Temp", "gpu_temp_tlimit", "{tlimit} C"),
    (1, "GPU Shutdown T.Limit Temp", "gpu_temp_max_tlimit_threshold", "-8 C"),
    (1, "GPU Slowdown T.Limit Temp", "gpu_temp_slow_tlimit_threshold", "-2 C"),
    (1, "GPU Max Operating T.Limit Temp", "gpu_temp_max_gpu_tlimit_threshold", "0 C"),
    (1, "GPU Target Temperature", "gpu_target_temperature", "N/A"),
    (1, "Memory Current Temp", "memory_temp", "36 C"),
    (1, "Memory Max Operating T.Limit Temp", "gpu_temp_max_mem_tlimit_threshold", "0 C"),
    (0, "GPU Power Readings", "gpu_power_readings", None),
    (1, "", "power_state", "P0"),
    (1, "Power Draw", "power_draw", "100.89 W"),
    (1, "Current Power Limit", "current_power_limit", "{power_limit}.00 W"),
    (1, "Requested Power Limit", "requested_power_limit", "{power_limit}.00 W"),
    (1, "Default Power Limit", "default_power_limit", "700.00 W"),
    (1, "Min Power Limit", "min_power_limit", "200.00 W"),
    (1, "Max Power Limit", "max_power_limit", "700.00 W"),
    (0, "Clocks", "clocks", None),
    (1, "Graphics", "graphics_clock", "345 MHz"),
    (1, "SM", "sm_clock", "345 MHz"),
    (1, "Memory", "mem_clock", "2619 MHz"),
    (1, "Video", "video_clock", "765 MHz"),
    (0, "Max Clocks", "max_clocks", None),
    (1, "Graphics", "graphics_clock", "1980 MHz"),
    (1, "SM", "sm_clock", "1980 MHz"),
    (1, "Memory", "mem_clock", "2619 MHz"),
    (1, "Video", "video_clock", "1545 MHz"),
    (0, "Fabric", "fabric", None),
    (1, "State", "state", "{fabric_state}"),
    (1, "Status", "status", "{fabric_status}"),
    (1, "CliqueId", "cliqueId", "{clique}"),
    (1, "ClusterUUID", "clusterUuid", "{cluster_uuid}"),
    (1, "Health", "health", None),
)  # fmt: skip
_HEALTH_565: tuple[Row, ...] = ((2, "Bandwidth", "bandwidth", "N/A"),)
_HEALTH_580: tuple[Row, ...] = (
    (2, "Summary", "summary", "N/A"),
    (2, "Bandwidth", "bandwidth", "N/A"),
    (2, "Route Recovery in progress", "route_recovery_in_progress", "N/A"),
    (2, "Route Unhealthy", "route_unhealthy", "N/A"),
    (2, "Access Timeout Recovery", "access_timeout_recovery", "N/A"),
    (2, "Incorrect Configuration", "incorrect_configuration", "N/A"),
)
_LAST: tuple[Row, ...] = (
    (0, "Processes", "", "None"),
    (0, "Capabilities", "capabilities", None),
    (1, "EGM", "egm", "disabled"),
)


def rows(driver: str) -> tuple[Row, ...]:
    """The fields of one GPU as this driver's ``-q`` has them."""
    return _FIELDS + (_HEALTH_580 if branch(driver) >= 580 else _HEALTH_565) + _LAST


def values(shown: Shown, persistence: bool) -> dict[str, str]:
    """What is put into the templates of one GPU."""
    _, gpu, node, driver = shown
    vendor, _, device = gpu.pci_id.partition(":")
    on = gpu.ecc_current  # without ECC nothing is counted
    return {
        "product": gpu.product, "serial": gpu.serial, "uuid": gpu.uuid, "driver": driver,
        "minor": str(gpu.place), "module_id": str(gpu.place + 1),
        "bus": gpu.bus_id[-7:-5].lower(), "bus_id": gpu.bus_id.upper(),
        "device_id": f"{device}{vendor}".upper(), "persistence": _ON[persistence],
        "gen_max": str(gpu.pcie_gen_max), "gen_now": str(gpu.pcie_gen_current),
        "width_max": str(gpu.pcie_width_max), "width_now": str(gpu.pcie_width_current),
        "ecc_now": _ON[on], "ecc_next": _ON[gpu.ecc_pending],
        "zero": "0" if on else "N/A", "no": "No" if on else "N/A",
        "uncorrectable": str(gpu.ecc_uncorrectable_volatile) if on else "N/A",
        "remap_corr": str(gpu.remap_correctable), "remap_unc": str(gpu.remap_uncorrectable),
        "remap_pending": _NO[gpu.remap_pending], "remap_failed": _NO[gpu.remap_failed],
        "reset_required": "No", "temperature": str(gpu.temperature_c),
        # The margin of the recorded node: 57 C left at 30 C.
        "tlimit": str(87 - gpu.temperature_c), "power_limit": str(gpu.power_limit_w),
        "fabric_state": node.fabric.state, "fabric_status": node.fabric.status,
        "clique": node.fabric.clique, "cluster_uuid": node.fabric.cluster_uuid,
    }  # fmt: skip


def versions(driver: str) -> tuple[tuple[str, str, str], ...]:
    """From 610 on the two versions have other names."""
    new = branch(driver) >= 610
    return (
        ("KMD Version" if new else "Driver Version", "kmd_version" if new else "driver_version",
         driver),
        ("CUDA UMD Version" if new else "CUDA Version", "cuda_umd_version" if new
         else "cuda_version", cuda_version(driver)),
    )  # fmt: skip


# Names of --query-gpu with their unit and value; a value that starts with "=" is a key of values().
CSV: dict[str, tuple[str, str]] = {
    "driver_version": ("", "=driver"), "name": ("", "=product"), "gpu_name": ("", "=product"),
    "serial": ("", "=serial"), "uuid": ("", "=uuid"), "gpu_uuid": ("", "=uuid"),
    "pci.bus_id": ("", "=bus_id"), "gpu_bus_id": ("", "=bus_id"),
    "vbios_version": ("", "96.00.74.00.01"), "compute_cap": ("", "9.0"),
    "persistence_mode": ("", "=persistence"), "pstate": ("", "P0"),
    "pcie.link.gen.current": ("", "=gen_now"), "pcie.link.gen.max": ("", "=gen_max"),
    "pcie.link.gen.gpucurrent": ("", "=gen_now"), "pcie.link.gen.gpumax": ("", "=gen_max"),
    "pcie.link.gen.hostmax": ("", "=gen_max"),
    "pcie.link.width.current": ("", "=width_now"), "pcie.link.width.max": ("", "=width_max"),
    "memory.total": ("MiB", "81559"), "memory.reserved": ("MiB", "454"),
    "memory.used": ("MiB", "1"), "memory.free": ("MiB", "81106"),
    "compute_mode": ("", "Default"), "utilization.gpu": ("%", "0"),
    "utilization.memory": ("%", "0"),
    "ecc.mode.current": ("", "=ecc_now"), "ecc.mode.pending": ("", "=ecc_next"),
    "ecc.errors.uncorrected.volatile.total": ("", "=uncorrectable"),
    "ecc.errors.uncorrected.volatile.dram": ("", "=uncorrectable"),
    "ecc.errors.corrected.volatile.total": ("", "=zero"),
    "remapped_rows.correctable": ("", "=remap_corr"),
    "remapped_rows.uncorrectable": ("", "=remap_unc"),
    "remapped_rows.pending": ("", "=remap_pending"),
    "remapped_rows.failure": ("", "=remap_failed"),
    "temperature.gpu": ("", "=temperature"), "temperature.gpu.tlimit": ("", "=tlimit"),
    "temperature.memory": ("", "36"), "power.draw": ("W", "100.89"),
    "power.limit": ("W", "=power_limit"), "power.default_limit": ("W", "700.00"),
    "clocks.max.sm": ("MHz", "1980"), "mig.mode.current": ("", "Disabled"),
    "mig.mode.pending": ("", "Disabled"), "fabric.state": ("", "=fabric_state"),
    "fabric.status": ("", "=fabric_status"), "fabric.cliqueId": ("", "=clique"),
    "fabric.clusterUuid": ("", "=cluster_uuid"), "gpu_recovery_action": ("", "None"),
    "clocks_event_reasons.active": ("", "0x0000000000000001"),
}  # fmt: skip
