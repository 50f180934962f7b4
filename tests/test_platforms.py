"""Every shipped platform is whole, known by what its node shows, and none is taken for another."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from fabric_tools import platforms
from fabric_tools.checks import BY_ID
from fabric_tools.detect import choose_platform
from fabric_tools.judge import Question, judge
from fabric_tools.models.claims import ClaimList
from fabric_tools.models.facts import LoadedModule
from fabric_tools.models.inventory import HostVars
from fabric_tools.models.platform import NvlinkSpec, PlatformSpec, Target
from fabric_tools.models.snapshot import CollectorInfo, ProbeResult, ProbeStatus, Snapshot
from fabric_tools.models.verdict import Status
from fabric_tools.parsers.dispatch import parse_nvlink
from fabric_tools.parsers.reader import Facts, Missing
from fabric_tools.parsers.topo import parse_topology
from fabric_tools.phases import Phase
from fabric_tools.report import claims
from fabric_tools.yaml_file import load_model
from tests.cases_runner import AS_OF, CORPUS, PLATFORMS

ALL = pytest.mark.parametrize("name", PLATFORMS)


def node(**texts: str) -> Snapshot:
    """A snapshot of these outputs."""
    return Snapshot(
        schema_version=1,
        kind="fabric-tools/snapshot",
        collector=CollectorInfo(version="test"),
        probes={
            name: ProbeResult(status=ProbeStatus.OK, stdout=text) for name, text in texts.items()
        },
    )


def listed(product: str, count: int) -> str:
    return "".join(f"GPU {n}: {product} (UUID: GPU-{n:08d}-0000)\n" for n in range(count))


def bus(pci: str, count: int, *more: str) -> str:
    lines = [
        f"0000:{16 + n:02x}:00.0 3D controller [0302]: NVIDIA Corporation Device [{pci}] (rev a1)"
        for n in range(count)
    ]
    return "\n".join([*lines, *more, ""])


def chosen(snapshot: Snapshot, site: HostVars | None = None) -> tuple[Target | None, str]:
    target, choice = choose_platform(Facts(snapshot), PLATFORMS, site or HostVars())
    return target, choice.why


@ALL
def test_known_by_what_the_node_shows(name: str) -> None:
    spec = PLATFORMS[name]
    for pci, product in spec.gpu.models.value.items():
        count = spec.gpu.count.value or 4
        dmi = (spec.match.dmi_products or ("PowerEdge XE9680",))[-1]
        shown = node(
            nvidia_smi_list=listed(product, count), lspci=bus(pci, count), dmi_product=f"{dmi}\n"
        )
        site = HostVars(gpu_count=None if spec.gpu.count.value else count)
        target, why = chosen(shown, site)
        assert target is not None, why
        assert target.id == name and target.gpu.number == count
        assert product in why and pci in why and dmi in why


@ALL
def test_each_gpu_is_also_known_without_a_driver_and_without_lspci(name: str) -> None:
    spec = PLATFORMS[name]
    site = HostVars(gpu_count=None if spec.gpu.count.value else 2)
    count = spec.gpu.count.value or 2
    dmi = (spec.match.dmi_products or ("PowerEdge XE9680",))[0]
    pci, product = next(iter(spec.gpu.models.value.items()))
    for shown in (
        node(lspci=bus(pci, count), dmi_product=dmi),
        node(nvidia_smi_list=listed(product, count), dmi_product=dmi),
    ):
        target, why = chosen(shown, site)
        assert target is not None and target.id == name, why


def test_no_gpu_belongs_to_two_chassis() -> None:
    """Two files of one GPU differ in the chassis they accept, or none could be chosen."""
    names = list(PLATFORMS)
    for first in names:
        for second in names[names.index(first) + 1 :]:
            one, two = PLATFORMS[first], PLATFORMS[second]
            if set(one.gpu.models.value) & set(two.gpu.models.value):
                accepts = {bool(one.match.dmi_products), bool(two.match.dmi_products)}
                assert accepts == {True, False}, (first, second)
                dgx, hgx = (one, two) if one.match.dmi_products else (two, one)
                assert set(dgx.match.dmi_products) <= set(hgx.match.not_dmi_products)


@pytest.mark.parametrize(
    ("product", "pci"),
    [
        ("NVIDIA H800", "10de:2324"), ("NVIDIA H20", "10de:2329"), ("NVIDIA GB300", "10de:31c2"),
        ("Tesla P100-SXM2-16GB", "10de:15f9"), ("NVIDIA A800-SXM4-80GB", "10de:20f3"),
        ("NVIDIA H100 80GB HBM2e", "10de:2336"), ("NVIDIA H100 NVL", "10de:2330"),
    ],
)  # fmt: skip
def test_an_unknown_product_is_unknown_with_what_was_seen(product: str, pci: str) -> None:
    target, why = chosen(node(nvidia_smi_list=listed(product, 8), lspci=bus(pci, 8)))
    assert target is None
    assert product in why and pci in why and "8 GPUs" in why


def test_seven_of_eight_are_still_that_board() -> None:
    target, why = chosen(node(nvidia_smi_list=listed("NVIDIA B300 SXM6 AC", 7)))
    assert target is not None and target.id == "hgx-b300" and "7 GPUs" in why


def test_half_a_board_is_not_taken_for_a_sick_one() -> None:
    four = node(nvidia_smi_list=listed("NVIDIA H100 80GB HBM3", 4))
    target, why = chosen(four)
    assert target is None and "hgx-h100 has 8 GPUs" in why and "gpu_count" in why
    target, _ = chosen(four, HostVars(gpu_count=4))
    assert target is not None and target.gpu.number == 4
    assert target.fabric.nvswitch_count.value == 0 and not target.fabric.manager.value
    assert target.nvlink.mesh.value == "full"  # still switched, by switches that are elsewhere


def test_half_a_board_beside_its_switches_is_a_sick_one() -> None:
    switch = "0000:07:00.0 Bridge [0680]: NVIDIA Corporation GH100 [10de:22a3] (rev a1)"
    target, _ = chosen(node(lspci=bus("10de:2330", 3, switch)))
    assert target is not None and target.id == "hgx-h100"
    target, _ = chosen(node(lspci=bus("10de:2330", 1), dmi_product="DGXH100"))
    assert target is not None and target.id == "dgx-h100"


def test_one_gpu_in_a_virtual_machine() -> None:
    shown = node(
        nvidia_smi_list=listed("NVIDIA H100 80GB HBM3", 1), virt="kvm\n",
        dmi_product="Standard PC (Q35 + ICH9, 2009)",
    )  # fmt: skip
    assert chosen(shown)[0] is None
    site = HostVars(gpu_count=1)
    question = Question((Phase.DRIVER, Phase.NVLINK), PLATFORMS, "node", AS_OF, site=site)
    statuses = {
        v.check: v.status for d in judge(shown, question).decisions for v in d.verdicts
    }  # fmt: skip
    assert statuses["gpu.count"] is Status.PASS
    for check in ("nvlink.full_mesh", "nvlink.links", "fabric.manager", "kernel.sxid"):
        assert statuses[check] is Status.NOT_APPLICABLE, check


@pytest.mark.parametrize("name", ["l40s", "h100-pcie", "h100-nvl"])
def test_cards_need_their_number(name: str) -> None:
    product = next(iter(PLATFORMS[name].gpu.models.value.values()))
    target, why = chosen(node(nvidia_smi_list=listed(product, 4)))
    assert target is None and "gpu_count" in why and "4 seen" in why


TOPOLOGIES = {
    "dgx-h100": ("t09_h100_8_nv18_spaces.txt",), "dgx-a100": ("t60_dgxa100_8_nic10_oldheader.txt",),
    "hgx-a100": ("t07_a100_8_nv12_narrow.txt", "t20_a100_8_nv12_nic10_nospace_x.txt"),
    "hgx-b200": ("t12_b200_8_nic8_gke.txt",), "hgx-b300": ("t24_b300_8_nic9_bond_ansi.txt",),
    "gb200-nvl72-tray": ("t28_gb200_4_numa_lists.txt",),
    "dgx-v100": ("t14_dgx1_v100_indented_prompt.txt", "t17_v100_8_mlx1_oldheader.txt",
                 "t62_v100_8_modern_header.txt"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "file"), [(name, file) for name, files in TOPOLOGIES.items() for file in files]
)
def test_recorded_matrix_of_that_platform_passes(name: str, file: str) -> None:
    text = (CORPUS / "topo" / file).read_text()
    assert parse_topology(text)
    question = Question(
        (Phase.NVLINK,), PLATFORMS, "node", AS_OF, site=HostVars(platform=name)
    )  # fmt: skip
    (decision,) = judge(node(nvidia_smi_topo=text), question).decisions
    mine = [v for v in decision.verdicts if v.check == "nvlink.full_mesh"]
    assert mine and {v.status for v in mine} == {Status.PASS}, mine[0]


def test_bridged_pairs_are_no_fault_and_a_lost_bridge_is() -> None:
    text = (CORPUS / "topo" / "t30_a100_pcie_nvlink_pairs.txt").read_text()
    count = len(parse_topology(text).gpus)
    site = HostVars(platform="h100-nvl", gpu_count=count)
    question = Question((Phase.NVLINK,), PLATFORMS, "node", AS_OF, site=site)

    def mesh(shown: str) -> set[Status]:
        (decision,) = judge(node(nvidia_smi_topo=shown), question).decisions
        return {v.status for v in decision.verdicts if v.check == "nvlink.full_mesh"}

    assert mesh(text) == {Status.PASS}
    assert Status.FAIL in mesh(text.replace("NV12", "SYS", 2))  # both cells of GPU0-GPU1


def test_link_speeds_of_recorded_nodes_are_those_of_the_files() -> None:
    for name, file in (("hgx-h200", "nvl01_h200_18.txt"), ("hgx-a100", "nvl05_a100_8x12.txt")):
        spec = PLATFORMS[name].nvlink
        status = parse_nvlink((CORPUS / "other" / "nvlink" / file).read_text())
        for gpu in status.gpus:  # type: ignore[attr-defined]
            assert len(gpu.links) == spec.links_per_gpu.value
            assert all(link.gbytes_s >= spec.link_gbytes_s_min.value for link in gpu.links)


def test_a_mesh_without_its_values_is_refused() -> None:
    data = PLATFORMS["hgx-h100"].nvlink.model_dump(mode="json")
    data["pair_kind"]["value"] = None
    with pytest.raises(ValidationError, match="pair_kind"):
        NvlinkSpec.model_validate(data)
    data = PLATFORMS["dgx-v100"].nvlink.model_dump(mode="json")
    del data["pairs"]
    with pytest.raises(ValidationError, match="pairs belongs"):
        NvlinkSpec.model_validate(data)


def test_a_count_of_switches_needs_an_id() -> None:
    data = PLATFORMS["hgx-h100"].model_dump(mode="json")
    data["fabric"]["nvswitch_pci_id"]["value"] = None
    with pytest.raises(ValidationError, match="nvswitch_pci_id"):
        PlatformSpec.model_validate(data)


@ALL
def test_nccl_gates_are_ordered(name: str) -> None:
    for gate in PLATFORMS[name].nccl:
        assert 0 < gate.fail_below <= gate.warn_below and gate.min_bytes >= 2**30


def test_every_shipped_file_is_good_also_for_the_strict_reader() -> None:
    """Without aliases and double keys, which the quick reader of shipped files does not see."""
    folder = Path(platforms.__file__).parent
    for path in folder.glob("*.yaml"):
        assert load_model(path, PlatformSpec) == PLATFORMS[path.stem]
    assert load_model(Path(claims.__file__).with_name("claims.yaml"), ClaimList)


@pytest.mark.parametrize(
    ("version", "status"),
    [
        ("570.133.20", Status.PASS),
        ("570.124.06", Status.WARN),  # a real HGX B200 at work, older than the vendor's list
        ("565.57.01", Status.FAIL),
    ],
)
def test_an_early_release_of_a_branch_that_fits_only_warns(version: str, status: Status) -> None:
    module = LoadedModule(probe="nvidia_module", version=version, flavour="open", line=1)
    want = PLATFORMS["hgx-b200"].driver
    rosters = Missing("nvidia_smi", "not recorded", recorded=False)
    (finding,) = BY_ID["driver.supported"].run(module=module, rosters=rosters, want=want)
    assert finding.status is status


@pytest.mark.parametrize("number", [8, 4, 1])
def test_without_a_cuda_call_no_part_of_an_a100_board_passes(number: int) -> None:
    """A100 reports no fabric state: with its manager outside, nothing else would tell of 802."""
    site = HostVars(platform="hgx-a100", gpu_count=number)
    question = Question(
        phases=(Phase.NVLINK,), platforms=PLATFORMS, host="n", as_of=AS_OF, site=site
    )
    (decision,) = judge(node(), question).decisions
    (found,) = (v for v in decision.verdicts if v.check == "cuda.init")
    assert found.status is Status.UNKNOWN
    assert "cuda_init" in found.remedy
