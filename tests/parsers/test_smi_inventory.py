"""`nvidia-smi -q` in both forms: labels, the two forms of one node, and what must be refused."""

from __future__ import annotations

import pytest
from corpus import Sample, of_kind, text_of

from fabric_tools.models.facts import EccErrors, GpuInventory
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.smi_text import parse_gpu_inventory_text
from fabric_tools.parsers.smi_xml import parse_gpu_inventory_xml

SMI_Q = of_kind("smi_q")
XML = [s for s in SMI_Q if s.label["format"] == "xml"]
TEXT = [s for s in SMI_Q if s.label["format"] == "text" and s.label["gpus"]]
EXCERPTS = [s for s in SMI_Q if s.label["format"] == "text" and not s.label["gpus"]]

H100_XML, H100_TEXT = text_of("sq10"), text_of("sq09")


def _read(sample: Sample) -> GpuInventory:
    parse = parse_gpu_inventory_xml if sample in XML else parse_gpu_inventory_text
    return parse(sample.text)


def _same(value: object, label: object) -> bool:
    return value is None if label == "N/A" else value == label


@pytest.mark.parametrize("sample", XML + TEXT, ids=lambda s: s.file)
def test_label(sample: Sample) -> None:
    label, inventory = sample.label, _read(sample)
    gpus = inventory.gpus
    assert len(gpus) == label["gpus"]
    assert [gpu.index for gpu in gpus] == list(range(len(gpus)))
    if "attached_gpus" in label:
        assert inventory.attached_gpus == label["attached_gpus"]
    if "driver" in label:
        assert inventory.driver_version == label["driver"]
    if "cuda" in label:
        assert inventory.cuda_version == label["cuda"]
    if "names" in label:
        assert {gpu.product for gpu in gpus} == set(label["names"])
    if "bus_ids" in label:
        assert [gpu.bus_id for gpu in gpus] == label["bus_ids"]
    for key, name in (("mig", "mig_mode"), ("persistence", "persistence_mode")):
        if key in label:
            assert {getattr(gpu, name) for gpu in gpus} == {label[key]}
    if "ecc" in label:
        assert {gpu.ecc_mode_current for gpu in gpus} == {label["ecc"]}
    for key, name in (("fabric_state", "state"), ("fabric_status", "status")):
        if key in label:
            want = label[key] if isinstance(label[key], list) else [label[key]] * len(gpus)
            assert all(_same(getattr(g.fabric, name), w) for g, w in zip(gpus, want, strict=True))


@pytest.mark.parametrize("sample", XML + TEXT, ids=lambda s: s.file)
def test_line_is_where_the_block_begins(sample: Sample) -> None:
    lines = sample.text.split("\n")
    for gpu in _read(sample).gpus:
        assert (
            lines[gpu.line - 1]
            .strip()
            .rstrip(">")
            .endswith((f'"{gpu.bus_id}"', f"GPU {gpu.bus_id}"))
        )


def test_both_forms_of_one_node_read_alike() -> None:
    xml, text = parse_gpu_inventory_xml(H100_XML), parse_gpu_inventory_text(H100_TEXT)
    gpus = tuple(
        gpu.model_copy(update={"line": other.line})
        for gpu, other in zip(text.gpus, xml.gpus, strict=True)
    )
    plain = tuple(gpu.model_copy(update={"mig_devices": None}) for gpu in xml.gpus)  # XML only
    assert xml.model_copy(update={"gpus": plain}) == text.model_copy(update={"gpus": gpus})
    gpu = xml.gpus[3]
    assert gpu.pci_device_id == "10de:2330"
    assert (gpu.pcie_gen_max, gpu.pcie_gen_current) == (5, 5)
    assert (gpu.pcie_width_max, gpu.pcie_width_current) == (16, 16)
    assert gpu.ecc_volatile == EccErrors(
        correctable=0, sram_uncorrectable=0, dram_uncorrectable=0, sram_threshold_exceeded=None
    )
    assert gpu.ecc_aggregate.sram_threshold_exceeded is False
    assert (gpu.remap_pending, gpu.remap_failure, gpu.remap_uncorrectable) == ("No", "No", 0)
    assert (gpu.reset_required, gpu.recovery_action) == ("No", "None")
    assert gpu.fabric.clique_id == "0"


def test_old_counters_of_p100() -> None:
    gpu = parse_gpu_inventory_xml(text_of("sq05")).gpus[0]
    assert gpu.ecc_aggregate == EccErrors(correctable=3, sram_uncorrectable=0, dram_uncorrectable=0)
    assert gpu.remap_pending is None


def test_a100_counters() -> None:
    gpus = {gpu.bus_id[9:]: gpu for gpu in parse_gpu_inventory_text(text_of("sq11")).gpus}
    assert gpus["9E:00.0"].ecc_volatile.correctable == 353
    assert {bus for bus, gpu in gpus.items() if gpu.remap_correctable} == {"9E:00.0", "C2:00.0"}


def test_remap_pending_with_unreadable_ecc() -> None:
    gpu = parse_gpu_inventory_text(text_of("sq16")).gpus[0]
    assert gpu.ecc_mode_current == "Unknown Error"
    assert gpu.ecc_volatile == gpu.ecc_aggregate == EccErrors()
    assert (gpu.remap_pending, gpu.remap_uncorrectable, gpu.remap_failure) == ("Yes", 1, "No")
    assert gpu.product is None


def test_minimal_xml_tells_nothing_more() -> None:
    inventory = parse_gpu_inventory_xml(text_of("sq07"))
    assert (inventory.driver_version, inventory.attached_gpus) == (None, None)
    assert inventory.gpus[0].remap_pending is None


def test_mig_slices_are_not_the_gpu() -> None:
    # The counters of the slices stand before those of the GPU and under the same names.
    changed = text_of("sq18").replace("<sram_uncorrectable>0<", "<sram_uncorrectable>9<", 4)
    gpu = parse_gpu_inventory_xml(changed).gpus[0]
    assert gpu.ecc_volatile.sram_uncorrectable == 0


@pytest.mark.parametrize("sample", EXCERPTS, ids=lambda s: s.file)
def test_excerpt_is_refused(sample: Sample) -> None:
    with pytest.raises(ParseError, match="not the whole of nvidia-smi -q"):
        parse_gpu_inventory_text(sample.text)


def _xml_gpu(old: str, new: str) -> str:
    assert old in H100_XML
    return H100_XML.replace(old, new, 1)


def test_uncorrectable_is_the_sum_of_both_kinds() -> None:
    text = _xml_gpu("<sram_uncorrectable_parity>0<", "<sram_uncorrectable_parity>2<")
    text = text.replace("<sram_uncorrectable_secded>0<", "<sram_uncorrectable_secded>3<", 1)
    assert parse_gpu_inventory_xml(text).gpus[0].ecc_volatile.sram_uncorrectable == 5


@pytest.mark.parametrize(("known", "want"), [("0", None), ("4", 4)])
def test_half_a_sum_is_no_zero(known: str, want: int | None) -> None:
    text = _xml_gpu("<sram_uncorrectable_parity>0<", "<sram_uncorrectable_parity>N/A<")
    text = text.replace("secded>0<", f"secded>{known}<", 1)
    assert parse_gpu_inventory_xml(text).gpus[0].ecc_volatile.sram_uncorrectable == want


@pytest.mark.parametrize(
    "value",
    ["N/A", "[N/A]", "Unknown Error", "Requested functionality has been deprecated", ""],
)
def test_no_answer_is_no_number(value: str) -> None:
    text = _xml_gpu("<remapped_row_unc>0<", f"<remapped_row_unc>{value}<")
    assert parse_gpu_inventory_xml(text).gpus[0].remap_uncorrectable is None


def test_attached_count_is_not_judged_here() -> None:
    text = _xml_gpu("<attached_gpus>8<", "<attached_gpus>7<")
    assert parse_gpu_inventory_xml(text).attached_gpus == 7


def test_driver_610_names() -> None:
    text = _xml_gpu(
        "<driver_version>565.57.01<",
        '<kmd_version>610.57.04</kmd_version><driver_version>Deprecated, see "KMD version"<',
    )
    assert parse_gpu_inventory_xml(text).driver_version == "610.57.04"


ENTITY = '<!DOCTYPE nvidia_smi_log [<!ENTITY a "aa">]>'


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (H100_XML[:40000], "not whole XML"),
        (H100_XML.rstrip()[:-3], "not whole XML"),
        (ENTITY + "<nvidia_smi_log/>", "entity"),
        (ENTITY.replace("ENTITY", "entity") + "<nvidia_smi_log/>", "entity"),
        ("<a><nvidia_smi_log/></a>", "root is <a>"),
        ("<nvidia_smi_log><gpu></gpu></nvidia_smi_log>", "without an id"),
        ('<nvidia_smi_log><gpu id="x"></gpu></nvidia_smi_log>', "bus id"),
        ("No devices were found\n", "No devices were found"),
        ("Failed to initialize NVML: Driver/library version mismatch\n", "mismatch"),
        ("", "no <nvidia_smi_log>"),
        ("\ud800<nvidia_smi_log>", "not XML"),
        (_xml_gpu("<remapped_row_unc>0<", "<remapped_row_unc>-1<"), "remap_unc"),
        (_xml_gpu("<max_link_width>16x<", "<max_link_width>16<"), "width_max"),
        (_xml_gpu("<sram_threshold_exceeded>No<", "<sram_threshold_exceeded>1<"), "threshold"),
        (_xml_gpu("<uuid>", "<uuid>x</uuid><uuid>"), "2 times"),
        (_xml_gpu('id="00000000:2A:00.0"', 'id="00000000:18:00.0"'), "listed twice"),
        (_xml_gpu("<pci_device_id>233010DE<", "<pci_device_id>2330<"), "device_id"),
    ],
)
def test_refused_xml(text: str, word: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_gpu_inventory_xml(text)
    assert word in caught.value.why


def test_cut_xml_names_the_line() -> None:
    with pytest.raises(ParseError) as caught:
        parse_gpu_inventory_xml("\n\n" + H100_XML[:40000])
    assert caught.value.line == H100_XML[:40000].count("\n") + 3


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (H100_TEXT.replace("GPU 00000000:2A:00.0", "GPU 0000000:2A"), "heading"),
        (H100_TEXT.replace("GPU 00000000:2A:00.0", "GPU 00000000:18:00.0"), "listed twice"),
        (H100_TEXT.replace("GPU 00000000:2A:00.0\n", ""), "twice in one block"),
        (H100_TEXT.replace("====NVSMI LOG====", "====  LOG===="), "not the whole"),
        ("No devices were found\n", "No devices were found"),
        ("", "not the whole"),
    ],
)
def test_refused_text(text: str, word: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_gpu_inventory_text(text)
    assert word in caught.value.why


def test_cut_last_line_does_not_count() -> None:
    text = text_of("sq11")
    cut = text[: text.index("353") + 2]
    assert parse_gpu_inventory_text(cut).gpus[-1].ecc_volatile.correctable is None
