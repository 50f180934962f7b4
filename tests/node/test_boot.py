"""What the collector says of the next boot: the boot loader's choice, tools that do not answer."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from fabric_tools.node import boot, processes
from fabric_tools.node.grub import next_kernel, sorted_releases
from fabric_tools.node.run import never
from fabric_tools.parsers.next_boot import parse_next_boot
from fabric_tools.probes import BY_ID

OLD, NEW = "6.8.0-90-generic", "6.8.0-101-generic"

#: In the form that grub-mkconfig writes; UUIDs and search commands left out.
GRUB_CFG = f"""
if [ -s $prefix/grubenv ]; then
  load_env
fi
if [ "${{next_entry}}" ] ; then
   set default="${{next_entry}}"
   set next_entry=
   save_env next_entry
else
   set default="DEFAULT"
fi
function load_video {{
  if [ x$feature_all_video_module = xy ]; then
    insmod all_video
  fi
}}
menuentry 'Ubuntu' --class ubuntu $menuentry_id_option 'gnulinux-simple-1' {{
	load_video
	if [ x$grub_platform = xxen ]; then insmod xzio; fi
	linux	/boot/vmlinuz-{NEW} root=/dev/sda1 ro quiet
	initrd	/boot/initrd.img-{NEW}
}}
submenu 'Advanced options for Ubuntu' $menuentry_id_option 'gnulinux-advanced-1' {{
	menuentry 'Ubuntu, with Linux {NEW}' $menuentry_id_option 'gnulinux-{NEW}-advanced-1' {{
		linux	/vmlinuz-{NEW} root=/dev/sda1 ro
	}}
	menuentry 'Ubuntu, with Linux {OLD}' $menuentry_id_option 'gnulinux-{OLD}-advanced-1' {{
		linux	/vmlinuz-{OLD} root=/dev/sda1 ro
	}}
}}
menuentry 'UEFI Firmware Settings' $menuentry_id_option 'uefi-firmware' {{
	fwsetup
}}
"""


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def chosen(root: Path, files: dict[str, str]) -> tuple[str | None, str]:
    return tuple(next_kernel([NEW, OLD], str(write(root, files))))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("default", "env", "kernel"),
    [
        ("0", "", NEW),
        ("1>1", "", OLD),
        ("1", "", NEW),  # a submenu boots its first entry
        (f"gnulinux-advanced-1>gnulinux-{OLD}-advanced-1", "", OLD),
        (f"Advanced options for Ubuntu>Ubuntu, with Linux {OLD}", "", OLD),
        ("${saved_entry}", "saved_entry=1>1\n", OLD),
        ("${saved_entry}", "# GRUB Environment Block\n", NEW),
        ("0", "next_entry=1>1\n####\n", OLD),
        ("7", "", None),
        ("uefi-firmware", "", None),
        ("${something}", "", None),
        ("${saved_entry}", "saved_entry=gone\n", None),
    ],
)
def test_the_menu_decides(tmp_path: Path, default: str, env: str, kernel: str | None) -> None:
    files = {"boot/grub/grub.cfg": GRUB_CFG.replace("DEFAULT", default), "boot/grub/grubenv": env}
    found, how = chosen(tmp_path, files)
    assert found == kernel, how
    assert ("cannot tell" in how) == (kernel is None)


@pytest.mark.parametrize(
    ("env", "kernel"),
    [
        (f"saved_entry=abc-{OLD}\n", OLD),
        (f"saved_entry=abc-{OLD}\nnext_entry=abc-{NEW}\n", NEW),
        ("", None),
        ("saved_entry=0\n", None),
    ],
)
def test_boot_loader_entries(tmp_path: Path, env: str, kernel: str | None) -> None:
    entries = {
        f"boot/loader/entries/abc-{name}.conf": f"version {name}\nlinux /vmlinuz-{name}\n"
        for name in (OLD, NEW)
    }
    assert chosen(tmp_path, {**entries, "boot/grub2/grubenv": env})[0] == kernel


@pytest.mark.parametrize(
    ("config", "kernel"),
    [
        ("GRUB_DEFAULT=0\n", NEW),
        ('#GRUB_DEFAULT=1\nGRUB_DEFAULT="0" \n', NEW),
        (f"GRUB_DEFAULT='Advanced options for Debian>Debian, with Linux {OLD}'\n", OLD),
        ("GRUB_DEFAULT=saved\n", None),
        ("", None),
    ],
)
def test_without_a_menu(tmp_path: Path, config: str, kernel: str | None) -> None:
    assert chosen(tmp_path, {"etc/default/grub": config})[0] == kernel


def test_one_kernel_needs_no_menu(tmp_path: Path) -> None:
    assert next_kernel([OLD], str(tmp_path)).kernel == OLD
    assert next_kernel([], str(tmp_path)).kernel is None


@pytest.mark.parametrize("name", ["boot/grub/grub.cfg", "boot/grub/grubenv"])
def test_what_may_not_be_read_is_not_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    files = {
        "boot/grub/grub.cfg": GRUB_CFG.replace("DEFAULT", "0"),
        "boot/grub/grubenv": "",
        "etc/default/grub": "",
    }
    real = os.open

    def refuse(path: Any, *rest: Any) -> int:
        if str(path).endswith(name):
            raise PermissionError(13, "Permission denied")
        return real(path, *rest)

    assert next_kernel([NEW], str(write(tmp_path, files))).kernel == NEW
    monkeypatch.setattr("fabric_tools.node.grub.os.open", refuse)
    assert next_kernel([NEW], str(tmp_path)) == (None, f"cannot tell: /{name} may not be read")


def test_releases_are_compared_by_number() -> None:
    assert sorted_releases([OLD, NEW, "6.8.0-90-generic.old?", "rescue"])[0] == NEW


TOOLS = {
    "uname": f"echo {OLD}",
    "modinfo": 'case "$2 $4" in\n'
    f'"{OLD} filename") echo /lib/modules/{OLD}/updates/dkms/nvidia.ko;;\n'
    f'"{OLD} version") echo 580.173.02;;\n"{OLD} license") echo "Dual MIT/GPL";;\n'
    f'"{OLD} "*) ;;\n*) echo "libkmod: ERROR: x" >&2\n'
    'echo "modinfo: ERROR: Module nvidia not found." >&2; exit 1;;\nesac',
    "lsinitramfs": "printf 'etc/modprobe.d/nvidia.conf\\nusr/lib/modules/x/nouveau.ko.zst\\n'",
}


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two kernels, the old one runs; tools that answer as those of a node."""
    for name, script in TOOLS.items():
        tool(tmp_path, name, script)
    path = f"{tmp_path}/bin:{processes.CLEAN_ENV['PATH']}"
    monkeypatch.setitem(processes.CLEAN_ENV, "PATH", path)
    monkeypatch.setenv("PATH", path)
    return write(
        tmp_path / "root",
        {
            f"boot/vmlinuz-{OLD}": "", f"boot/vmlinuz-{NEW}": "", f"boot/initrd.img-{OLD}": "",
            f"boot/initrd.img-{NEW}": "", "boot/grub/grub.cfg": GRUB_CFG.replace("DEFAULT", "0"),
            f"lib/modules/{OLD}/build/Makefile": "", f"lib/modules/{NEW}/modules.dep": "",
            "etc/modprobe.d/nvidia.conf": "# no\nblacklist  nouveau # x\n"
            "options nouveau modeset=0\n",
            "etc/modprobe.d/other.conf": "#blacklist nouveau\nblacklist nouveau-x\n",
            "lib/modprobe.d/nvidia.conf": "blacklist nouveau\n",
            "run/reboot-required": "",
            "run/reboot-required.pkgs": f"linux-image-{NEW}\nlinux-base\n",
        },
    )  # fmt: skip


def tool(folder: Path, name: str, script: str) -> None:
    write(folder, {f"bin/{name}": f"#!/bin/sh\n{script}\n"})
    os.chmod(folder / "bin" / name, 0o700)


def read(root: Path, timeout_s: float = 20.0) -> Any:
    probe = BY_ID["next_boot"]._replace(timeout_s=timeout_s)
    outcome = boot.read_next_boot(probe, never, str(root))
    assert outcome.status == "ok", outcome
    return parse_next_boot(outcome.stdout.decode())


def test_what_the_next_boot_will_be(node: Path) -> None:
    facts = read(node)
    assert (facts.running, facts.next) == (OLD, NEW)
    new, old = facts.kernels
    assert old.headers and not new.headers
    assert old.module is not None and old.module.version == "580.173.02" and old.module.dkms
    assert new.module is None and new.module_note == "not found"
    assert facts.initramfs.nouveau and facts.initramfs.conf == ("nvidia.conf",)
    assert [(c.line, c.forbids) for c in facts.modprobe] == [
        ("blacklist nouveau", True), ("options nouveau modeset=0", False)
    ]  # fmt: skip
    assert facts.reboot_required == ("linux-base", f"linux-image-{NEW}")
    assert not facts.efi


def test_a_tool_that_hangs_or_fails_is_not_no(node: Path) -> None:
    tool(node.parent, "lsinitramfs", "sleep 60")
    tool(node.parent, "modinfo", "echo 'modinfo: ERROR: could not load' >&2; exit 1")
    facts = read(node, timeout_s=4.0)
    assert facts.initramfs.nouveau is None and "timeout" in facts.initramfs.note
    assert {k.module_note for k in facts.kernels} != {"not found"}
    assert all(k.module is None and "could not load" in k.module_note for k in facts.kernels)


def test_without_a_running_kernel_there_is_no_answer(node: Path) -> None:
    tool(node.parent, "uname", "true")
    assert boot.read_next_boot(BY_ID["next_boot"], never, str(node)).status == "error"


@pytest.mark.parametrize("how", ["list", "none", "broken", "many"])
def test_packages_are_asked_by_name(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {
        "list": "printf 'ii  nvidia-a:amd64\\nhi  nvidia-b\\nrc  nvidia-c\\nii  --x\\n'",
        "none": "exit 1",
        "broken": "exit 2",
        "many": "seq -f 'ii  nvidia-%g' 501",
    }
    tool(tmp_path, "dpkg-query", rows[how])
    tool(tmp_path, "apt-cache", 'echo "$@"')
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    path = f"{tmp_path}/bin:{processes.CLEAN_ENV['PATH']}"
    monkeypatch.setitem(processes.CLEAN_ENV, "PATH", path)
    found = boot.ask_packages(BY_ID["apt_policy"], never)
    wanted = {
        "list": ("ok", b"policy nvidia-a:amd64 nvidia-b\n"),
        "none": ("ok", b""),
        "many": ("cut", b""),
    }
    assert (found.status, found.stdout) == wanted.get(how, ("failed", b""))


def test_the_answer_is_json_that_says_whether_it_is_whole(node: Path) -> None:
    outcome = boot.read_next_boot(BY_ID["next_boot"], never, str(node))
    assert json.loads(outcome.stdout)["running"] == OLD
    small = BY_ID["next_boot"]._replace(max_bytes=100)
    assert boot.read_next_boot(small, never, str(node)).status == "cut"
