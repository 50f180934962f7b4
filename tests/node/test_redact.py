"""What must not leave the site does not; what the verdicts need stays."""

from __future__ import annotations

import json
import pwd
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from fabric_tools.models.snapshot import HostIdentity, Snapshot
from fabric_tools.models.verdict import Status
from fabric_tools.node.redact import Redactor, redact_snapshot
from fabric_tools.phases import Phase
from fabric_tools.transport.files import read_snapshot
from tests.cases_runner import HEALTHY, report_on, site_of, snapshot_of

SECRETS = {
    "uuid": "GPU-3f2c9a51-77de-4b1c-9d2e-0123456789ab",
    "serial xml": "<serial>1654923001234</serial>",
    "serial text": "    Serial Number                     : 1654923001234",
    "kernel serial": "NVRM: GPU Board Serial Number: 1654923001234",
    "kernel serial 2": "NVRM: GPU 0000:91:00.0: GPU serial number is 1654923001234.",
    "vpd": "\t\t\t[SN] Serial number: MT2334X01234",
    "ipv4": "addr 10.20.30.41 up",
    "ipv6": "inet6 fd12:3456:789a:1::42/64",
    "link local": "fe80::9a03:9bff:fe12:3456",
    "mac": "link/ether 9a:03:9b:12:34:56",
    "guid": "node_guid: 9a03:9b03:0012:3456",
    "port guid": "-g 0x9a039b0300123456",
    "host": "Aug 27 07:13:16 gpu-node-17 kernel: x",
    "fqdn": "gpu-node-17.dc1.example.org",
    "password": "BOOT_IMAGE=/vmlinuz password=hunter2 ro",
    "url": "proxy http://user:s3cr3tpass@proxy/",
    "bearer": "Authorization: Bearer abcdef0123456789abcdef",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVP",
    "k3s": "K10" + "a1" * 32 + "::server:f00dfeed",
    "hf": "hf_AbCdEfGhIjKlMnOpQrSt",
    "aws": "AKIAIOSFODNN7EXAMPLE",
    "token": "--token=deadbeefcafe",
    "machine id": "machine-id 3d1219c7c4c5404aaa1f6d2a48adfda4",
    "MACHINE ID": "machine-id 3D1219C7C4C5404AAA1F6D2A48ADFDA4",
    "lspci serial": "\tCapabilities: [100 v1] Device Serial Number b8-59-9f-ff-ff-12-34-56",
    "pdi xml": "<pdi>0x737bb8d09327f7d9</pdi> <gpu_pdi>0x737bb8d09327f7d9</gpu_pdi>",
    "pdi text": "    GPU PDI                  : 0x737bb8d09327f7d9",
    "process xml": "<process_name>/opt/secretproject/train.py</process_name>",
    "process text": "            Type                  : C\n            Name      : secretproject",
    "process table": "|    0   N/A  N/A   10291      C   /x/secretproject           2566MiB |",
    "process xid": "NVRM: Xid (PCI:0000:9b:00): 119, pid=12, name=secretproject, Timeout",
    "domain": "gpu-node-17.dc2.corp.example.net:/export",
    "HOST": "GPU-NODE-17 and GPU-Node-17.DC1.example.org",
    "host within": "ping bmc-gpu-node-17 and gpu-node-17-bmc",
    "dashed mac": "9a-03-9b-12-34-56",
    "enx": "enx9a039b123456: renamed from eth0",
    "partuuid": "root=PARTUUID=1a2b3c4d-02 ro",
    "vfat": "UUID=1A2B-3C4D /boot/efi",
    "nqn": "nqn.2014-08.org.nvmexpress:uuid:1a2b3c4d",
    "naa": "naa.5000c500a1b2c3d4",
    "wwn": "/dev/disk/by-id/wwn-0x5000c500a1b2c3d4",
    "eui": "nvme-eui.5000c500a1b2c3d4",
    "url token": "https://hunter2@git.example.org/x",
    "quoted": "password = 'correct hunter2 horse'",
    "quoted json": '{"api_key": "correct \\"hunter2 horse"}',
    "option": "run --token hunter2 --x",
    "mail": "Contact: jane.doe@corp.example.net",
    "private key": "-----BEGIN EC PRIVATE KEY-----\nhunter2\n-----END EC PRIVATE KEY-----",
    "private key cut": "-----BEGIN RSA PRIVATE KEY-----\nhunter2\n",
}
CANARIES = (
    "3f2c9a51", "1654923001234", "MT2334X01234", "10.20.30.41", "fd12:3456", "9bff:fe12",
    "9a:03:9b", "9a03:9b03", "9a039b03", "gpu-node-17", "hunter2", "s3cr3tpass", "abcdef0123456789",
    "dBjftJeZ4CVP", "f00dfeed", "AbCdEfGh", "AKIAIOSF", "deadbeefcafe", "3d1219c7",
    "b8-59-9f", "737bb8d0", "secretproject", "corp.example", "dc1", "dc2", "9a-03", "9a039b12",
    "1a2b3c4d", "1a2b-3c4d", "5000c500", "jane.doe",
)  # fmt: skip


@pytest.mark.parametrize("name", SECRETS)
def test_secrets_go(name: str) -> None:
    text = Redactor(["gpu-node-17.dc1.example.org", "gpu-node-17"]).text(SECRETS[name])
    for canary in CANARIES:
        assert canary.lower() not in text.lower()


KEPT = (
    "00000000:18:00.0 0000:9a:00.0 PCI:0000:9b:00",
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build",
    "VBIOS Version : 96.00.74.00.01",
    "[6781741.548779] NVRM: Xid (PCI:0000:91:00): 79, pid='<unknown>', name=<unknown>",
    "\t Link 0: 26.562 GB/s",
    "GPU0\t X \tNV18\tNV18\t0-55,112-167\t0\t\tN/A",
    "Aug 27 07:13:16",
    "127.0.0.1 ::1 0.0.0.0",
    "clusterUuid 00000000-0000-0000-0000-000000000000",
    "Serial Number : N/A",
    "[10de:2330] (rev a1)",
    "Fabric Manager version is : 565.57.01",
    "user@1000.service: Deactivated successfully.",
    "root=/dev/nvme0n1p2 UUID=00000000-0000-0000-0000-000000000000",
    "NVIDIA version (dvs-builder@U22-I3) ",
)


@pytest.mark.parametrize("text", KEPT)
def test_the_rest_stays(text: str) -> None:
    assert Redactor([]).text(text) == text


def test_equal_stays_equal_and_different_stays_different() -> None:
    redactor = Redactor([])
    first, second = SECRETS["uuid"], SECRETS["uuid"].replace("ab", "ac")
    assert redactor.text(first)[4:] == redactor.text(first.lower())[4:]
    assert redactor.text(first) != redactor.text(second)


def test_a_name_that_is_a_word_of_the_tools_goes_only_where_it_is_a_name() -> None:
    redactor = Redactor(["gpu", "NVIDIA", "h100", "ab"])
    kept = '<gpu id="00000000:18:00.0"> NVIDIA H100 80GB HBM3, nvidia-smi -q, GPU 0: ab'
    assert redactor.text(kept) == kept
    assert redactor.name("nvidia") == "name-1"
    assert redactor.text("[  9.1] gpu kernel: GPU 0 in /home/nvidia/x by nvidia@h100") == (
        "[  9.1] name-3 kernel: GPU 0 in /home/name-1/x by name-1@h100"
    )


def test_a_redacted_snapshot_gets_the_same_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    people = ["gpu", "nvidia", "persistence", "ecc", "journalctl", "completed", "node1", "sh"]
    entries = [SimpleNamespace(pw_name=name, pw_uid=1000) for name in people]
    monkeypatch.setattr(pwd, "getpwall", lambda: entries)
    for name in ("healthy", "sick-gpu-off-the-bus", "sick-fabric-manager-dead"):
        snapshot = read_snapshot(HEALTHY.parent / name)
        host = HostIdentity(hostname="node1", machine_id="3d1219c7c4c5404aaa1f6d2a48adfda4")
        snapshot = snapshot.model_copy(update={"host": host})
        redacted = Snapshot.model_validate(redact_snapshot(snapshot.model_dump(mode="json")))
        assert redacted.redacted and redacted.host.machine_id != host.machine_id
        assert "node1" not in redacted.model_dump_json()
        assert redacted.host.hostname.startswith("name-")
        phases = (Phase.PREFLIGHT, Phase.DRIVER, Phase.NVLINK)
        before, after = report_on(snapshot, *phases), report_on(redacted, *phases)
        flat = [
            [(v.check, v.subject, v.status) for d in r.decisions for v in d.verdicts]
            for r in (before, after)
        ]
        assert flat[0] == flat[1]


@pytest.mark.parametrize(
    "part",
    ["x", "a.", "a@", "password", "--token-", "-----BEGIN PRIVATE KEY-----", "[SN] ", "<serial>a ",
     "gpu-node-17.", "\n   ", "K10", "1.1.1.", "://a:"],
)  # fmt: skip
def test_no_text_takes_long(part: str) -> None:
    """A node may print megabytes of what almost matches."""
    began = time.monotonic()
    Redactor(["gpu-node-17"]).text(part * (100_000 // len(part)))
    assert time.monotonic() - began < 5


def test_what_ip_and_lldpcli_say_of_the_site() -> None:
    link = (
        '[{"ifname":"eth2","phys_switch_id":"b83fd2aa01000100","phys_port_id":"b83fd2aa0101",'
        '"ifalias":"rack7 to leaf12"},{"ifname":"ib0","address":'
        '"00:00:10:29:fe:80:00:00:00:00:00:00:b8:3f:d2:03:00:bb:ab:56"}]'
    )
    json0 = (
        '{"lldp":[{"interface":[{"name":"eth2","chassis":[{"name":[{"value":"leaf1.dc1.corp"}],'
        '"descr":[{"value":"Cumulus, serial MT21"}]}],"port":[{"descr":[{"value":"to rack7"}]}],'
        '"lldp-med":[{"inventory":[{"serial":[{"value":"MT22"}],"asset":[{"value":"A47"}]}]}]}]}]}'
    )
    plain = (
        '{"lldp":{"interface":[{"eth2":{"chassis":{"leaf1.dc1.corp":{"descr":"Cumulus MT21"}},'
        '"port":{"descr":"to rack7"}}},{"eth3":{"chassis":{"id":{"type":"mac"}}}}]}}'
    )
    for text in (link, json0, plain):
        told = Redactor(()).text(text)
        for secret in ("b83fd2", "bb:ab", "rack7", "leaf1", "corp", "MT2", "A47"):
            assert secret not in told, (secret, told)
        assert "eth2" in told
        json.loads(told)
    assert '"chassis":{"id"' in Redactor(()).text(plain)


def test_a_host_that_is_numbered_like_no_product() -> None:
    assert "gpu042" not in Redactor(["gpu042"]).text("gpu042 GPU0 said gpu042")
    assert "GPU0" in Redactor(["gpu0"]).text("GPU0 said")


def test_two_thousand_addresses_stay_apart() -> None:
    text = "\n".join(f"10.1.{n // 250}.{n % 250}" for n in range(2000))
    assert len(set(Redactor(()).text(text).split("\n"))) == 2000


def test_replaced_addresses_are_not_compared_with_the_plan(tmp_path: Path) -> None:
    """A redacted node is no node with wrong addresses."""
    case = {"with": "roce", "site": "roce-rails8.yaml"}
    snapshot = snapshot_of(case, tmp_path / "node")
    redacted = Snapshot.model_validate(redact_snapshot(snapshot.model_dump(mode="json")))
    for judged, status in ((snapshot, Status.PASS), (redacted, Status.UNKNOWN)):
        (decision,) = report_on(judged, Phase.ROCE, site=site_of(case)).decisions
        assert {v.status for v in decision.verdicts if v.check == "roce.gid"} == {status}


def test_an_address_behind_a_line_end_of_json_is_redacted() -> None:
    """Files are read into JSON, where a line ends in the letter n."""
    found = Redactor(("node1",)).text('{"text": "a\\nfd12:3456:789a::1 b\\tfd12:3456:789a::2"}')
    assert "fd12" not in found and found.startswith('{"text": "a\\n2001:db8::')
    assert Redactor(("node1",)).text('Acquire::http::Proxy "DIRECT";') == (
        'Acquire::http::Proxy "DIRECT";'
    )
