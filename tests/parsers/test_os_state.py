"""What the operating system's tools say, read to the word; what they do not say is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric_tools.parsers.apt_update import parse_apt_update, parse_dnf_makecache
from fabric_tools.parsers.base import ParseError
from fabric_tools.parsers.clock import parse_chrony_tracking, parse_timedatectl
from fabric_tools.parsers.ip_link import parse_ip_link
from fabric_tools.parsers.mounts import (
    addresses_of_links,
    parse_device_links,
    parse_findmnt,
    parse_fstab,
)
from fabric_tools.parsers.settings import (
    parse_apt_config,
    parse_environment,
    parse_limits,
    parse_sysctl,
    parse_trust_store,
)

ROOT = Path(__file__).resolve().parents[2]
HEALTHY = ROOT / "examples" / "healthy"
APT = ROOT / "tests" / "fixtures" / "more" / "apt"
PROGRESS = "==> apt-get update --print-uris <==\n'http://a/x/InRelease' a_x_InRelease 0 \n"


def healthy(name: str) -> str:
    return (HEALTHY / name).read_text()


TROUBLES = {
    "good": None, "old": None, "flat": None, "flatdot": None, "flatsub": None, "sub": None,
    "refused": "unreachable", "unresolved": "unreachable", "no_public_key": "no public key",
    "trusted": "no public key", "bad_signature": "bad signature", "not_signed": "not signed",
    "expired": "expired", "not_yet_valid": "not yet valid", "not_found": "not found",
}  # fmt: skip


@pytest.mark.parametrize("name", TROUBLES)
def test_apt_names_the_trouble_of_each_source(name: str) -> None:
    (source,) = parse_apt_update((APT / f"{name}.txt").read_text()).sources
    assert source.trouble == TROUBLES[name]
    assert bool(source.said) == (source.trouble is not None)


def test_apt_keeps_sources_apart() -> None:
    found = parse_apt_update((APT / "two.txt").read_text())
    assert [source.trouble for source in found.sources] == [None, "not found", "expired"]
    assert found.rc == 100


def update(answer: str, rc: int = 0) -> str:
    return f"{PROGRESS}==> apt-get update <==\n{answer}==> exit {rc} <==\n"


@pytest.mark.parametrize(
    ("answer", "trouble"),
    [
        ("Hit:1 http://a/x  InRelease\n", None),
        ("Hit:1 http://a/x  InRelease\nW: http://a/x/InRelease: Key is stored in legacy "
         "trusted.gpg keyring (/etc/apt/trusted.gpg), see the DEPRECATION section\n", None),
        ("Ign:1 http://a/x  InRelease\nGet:2 http://a/x  Release [1 B]\n"
         "Ign:3 http://a/x  Release.gpg\n", "not signed"),
        ("Get:1 http://a/x  Release [1 B]\n", "other"),
        ("", "other"),
        ("Err:1 https://a/x  InRelease\n", ParseError),
        ("Err:1 http://a/x  InRelease\n  Certificate verification failed: The certificate is NOT "
         "trusted.  Could not handshake\n", "certificate"),
        ("Err:1 http://a/x  InRelease\n  407  Proxy Authentication Required\n", "refused"),
        ("Err:1 http://a/x  InRelease\n  Something new\n", "other"),
    ],
)  # fmt: skip
def test_apt_is_not_taken_at_its_silence(answer: str, trouble: object) -> None:
    if trouble is ParseError:
        with pytest.raises(ParseError, match="not configured"):
            parse_apt_update(update(answer))
    else:
        assert parse_apt_update(update(answer)).sources[0].trouble == trouble


def test_apt_shows_no_credentials() -> None:
    text = update(
        "Err:1 http://u:hunter2@a/x  InRelease\n  Could not connect to http://u:hunter2@a\n"
    )
    text = text.replace("'http://a", "'http://u:hunter2@a")
    found = parse_apt_update(text)
    assert found.sources[0].trouble == "unreachable"
    assert "hunter2" not in found.model_dump_json()


def test_apt_that_failed_for_no_known_reason_is_not_understood() -> None:
    with pytest.raises(ParseError, match="exit status 100"):
        parse_apt_update(update("Hit:1 http://a/x  InRelease\n", rc=100))


def test_dnf() -> None:
    assert parse_dnf_makecache("==> dnf makecache <==\n==> exit 0 <==\n").trouble is None
    text = "==> dnf makecache <==\nLine\nError: no repo at http://u:p@m/x\n==> exit 1 <==\n"
    assert parse_dnf_makecache(text).trouble == "Error: no repo at http://m/x"
    with pytest.raises(ParseError):
        parse_dnf_makecache("==> dnf makecache <==\n")


def test_chrony_bounds_the_error() -> None:
    found = parse_chrony_tracking(healthy("chrony_tracking.txt"))
    assert (found.reference, found.stratum, found.own) == ("192.0.2.53", 3, False)
    assert found.offset_s == 0.000012345
    assert found.bound_s == pytest.approx(0.000012345 + 0.000318211 + 0.000412310 / 2)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "506 Cannot talk to daemon\n",
        "C0000235,a,3,1,2,3\n",
        healthy("chrony_tracking.txt").replace(",3,", ",16,", 1),
    ],
)
def test_chrony_that_does_not_answer(text: str) -> None:
    with pytest.raises(ParseError):
        parse_chrony_tracking(text)


def test_timedatectl() -> None:
    found = parse_timedatectl(healthy("timedatectl.txt"))
    assert (found.synchronized, found.ntp, found.line) == (True, True, 5)
    assert parse_timedatectl("NTPSynchronized=no\n").ntp is None
    for text in ("NTP=yes\n", "NTPSynchronized=maybe\n", "NTPSynchronized=yes\n" * 2):
        with pytest.raises(ParseError):
            parse_timedatectl(text)


def test_environment() -> None:
    found = parse_environment("# x\nA='b c'\nexport B=\"d\"\nA=e\nC=\n").values
    assert {name: setting.value for name, setting in found.items()} == {"A": "e", "B": "d", "C": ""}
    assert parse_environment("").values == {}
    with pytest.raises(ParseError) as caught:
        parse_environment("https://u:hunter2@x\n")
    assert caught.value.line == 1
    assert "hunter2" not in caught.value.why


def test_apt_config() -> None:
    found = parse_apt_config(healthy("apt_config.txt"))
    assert found.values["apt::periodic::unattended-upgrade"].value == "1"
    blacklist = found.lists["unattended-upgrade::package-blacklist::"]
    assert [entry.value for entry in blacklist][:2] == ["nvidia-", "libnvidia-"]


def test_sysctl() -> None:
    found = parse_sysctl(healthy("sysctl.txt"))
    assert found.values["fs.inotify.max_user_instances"].value == "8192"
    assert parse_sysctl("sysctl: permission denied on key 'x'\nkernel.ostype = Linux\n").values
    with pytest.raises(ParseError):
        parse_sysctl("fs.file-max = 1\n")


def test_two_values_of_one_setting_are_none() -> None:
    text = healthy("sysctl.txt")
    line = next(line for line in text.split("\n") if line.startswith("fs.inotify"))
    assert parse_sysctl(f"{text}{line}\n").values
    name = line.split()[0]
    assert name in parse_sysctl(text).values
    assert name not in parse_sysctl(f"{text}{line}9\n").values
    text = healthy("apt_config.txt")
    with pytest.raises(ParseError, match="twice"):
        parse_apt_config(text + 'APT::Periodic::Unattended-Upgrade "0";\n')


def test_limits_in_the_order_of_pam() -> None:
    text = (
        '{"/etc/security/limits.d/10-a.conf": {"text": "* - memlock 1\\n", "size": 1, "mode": ""},'
        ' "/etc/security/limits.conf": {"text": "* soft memlock 2 # x\\nbad\\n", "size": 1,'
        ' "mode": ""}}'
    )
    assert [line.value for line in parse_limits(text).lines] == ["2", "1"]
    with pytest.raises(ParseError):
        parse_limits("{}")


def test_mounts() -> None:
    found = parse_findmnt(healthy("findmnt.json"))
    assert [mount.target for mount in found.mounts] == [
        "/", "/proc", "/boot/efi", "/var/lib/fabric"
    ]  # fmt: skip
    assert found.mounts[3].source == "/dev/md127"
    assert parse_fstab(healthy("fstab.json")).mounts[2].options == ("defaults", "nofail")
    assert parse_fstab("").mounts == ()
    with pytest.raises(ParseError):
        parse_findmnt('{"filesystems": []}')


def test_names_of_disks() -> None:
    found = parse_device_links(healthy("device_links.txt")).names
    assert found["/dev/md/fabric"].value == "md127"
    assert found["/dev/disk/by-id/nvme-Example_SSD_0"].value == "nvme0n1"


def test_own_addresses() -> None:
    found = addresses_of_links(parse_ip_link(healthy("ip_addr.json")))
    assert found.addresses == ("127.0.0.1", "::1", "192.0.2.11")  # type: ignore[attr-defined]


def test_trust_store() -> None:
    found = parse_trust_store(healthy("trust_store.txt"))
    assert found.path == "/etc/ssl/certs/ca-certificates.crt"
    assert len(found.fingerprints) == 4
    with pytest.raises(ParseError):
        parse_trust_store("==> /a <==\nabc\n")


def test_what_is_not_understood_is_told_without_its_secrets() -> None:
    """The collector's text holds the proxy as it is; a report must not."""
    cut = healthy("apt_config.txt") + 'Acquire::http::Proxy "http://user:hunter2@proxy'
    with pytest.raises(ParseError, match="Acquire::http::Proxy") as told:
        parse_apt_config(cut)
    assert "hunter2" not in str(told.value)
    head = "==> apt-get update --print-uris <==\n"
    with pytest.raises(ParseError, match="not a source of apt") as told:
        parse_apt_update(f"{head}http://user:hunter2@mirror/x\n==> exit 0 <==\n")
    assert "hunter2" not in str(told.value)
    text = f"{head}E: Malformed URI http://user:hunter2@mirror/x\n==> exit 100 <==\n"
    assert parse_apt_update(text).config == "Malformed URI http://mirror/x"
