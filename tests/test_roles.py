"""Roles: their contract equals their defaults, systems differ in values only, templates render."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml

from fabric_tools.checks.origin import CUDA_OF_MIRROR
from tests.cases_runner import ROOT

ROLES = sorted(path.parent.parent for path in ROOT.glob("roles/*/tasks/main.yml"))
#: Files of one system each; main.yml holds what all share.
SYSTEMS = {
    role: sorted(p for p in role.glob("vars/*.yml") if p.stem != "main")
    for role in ROLES
    if (role / "vars").is_dir()
}
TASK_FILES = [path for role in ROLES for path in sorted(role.glob("*/*.yml"))
              if path.parent.name in ("tasks", "handlers")]  # fmt: skip

EACH_ROLE = pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
EACH_FILE = pytest.mark.parametrize(
    "path", TASK_FILES, ids=lambda path: f"{path.parts[-3]}/{path.name}"
)


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def tasks_of(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All tasks, those inside blocks too."""
    found = []
    for item in items:
        found.append(item)
        for part in ("block", "rescue", "always"):
            found += tasks_of(item.get(part, []))
    return found


def test_there_are_roles() -> None:
    assert {"nvidia_driver", "node_reboot"} <= {role.name for role in ROLES}


@EACH_ROLE
def test_the_contract_equals_the_defaults(role: Path) -> None:
    options = read(role / "meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    told = {name: spec["default"] for name, spec in options.items() if "default" in spec}
    assert told == read(role / "defaults/main.yml")
    assert all(spec["description"] and spec["type"] for spec in options.values())
    assert len(options) <= 40
    silent = [name for name, spec in options.items() if "default" not in spec]
    assert all(options[name].get("required") for name in silent)


@pytest.mark.parametrize("role", SYSTEMS, ids=lambda role: role.name)
def test_systems_differ_in_values_and_not_in_what_they_name(role: Path) -> None:
    keys = {path.name: set(read(path)) for path in SYSTEMS[role]}
    assert len(set(map(frozenset, keys.values()))) <= 1, keys
    shared = set(read(role / "vars/main.yml") or {}) if (role / "vars/main.yml").exists() else set()
    assert not shared & set().union(*keys.values())


@EACH_FILE
def test_tasks_are_short_and_say_what_they_do(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 60
    for task in tasks_of(read(path)):
        assert task.get("name"), task
        assert "ignore_errors" not in task
        assert not {"shell", "ansible.builtin.shell", "raw", "ansible.builtin.raw"} & set(task)
        command = task.get("ansible.builtin.command")
        if command is not None:
            assert "argv" in command, task["name"]
            assert "changed_when" in task or "creates" in command or "removes" in command, task


@EACH_FILE
def test_what_runs_in_a_dry_run_changes_nothing(path: Path) -> None:
    """check_mode: false is for what only reads."""
    for task in tasks_of(read(path)):
        if task.get("check_mode") is False and "ansible.builtin.tempfile" not in task:
            allowed = {"ansible.builtin.uri", "ansible.builtin.slurp", "ansible.builtin.stat"}
            reads = set(task) & allowed
            told = task.get("changed_when")
            assert reads or told is False or told == "__nvidia_driver_unread.stdout == 'yes'", task


@EACH_ROLE
def test_every_file_of_tasks_is_used(role: Path) -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in role.glob("*/*.yml"))
    for path in (role / "tasks").glob("*.yml"):
        stem = re.sub(r"_(apt|dnf)$", "_", path.stem)
        assert path.stem == "main" or f"{path.stem}.yml" in text or f"{stem}{{{{" in text, path


@EACH_ROLE
def test_apt_and_dnf_have_the_same_topics(role: Path) -> None:
    """A topic that is picked by the package manager must be there for both."""
    chosen = re.findall(
        r"(\w+_)\{\{ __\w+_manager \}\}\.yml", (role / "tasks/main.yml").read_text(encoding="utf-8")
    )
    for topic in chosen:
        for manager in ("apt", "dnf"):
            assert (role / f"tasks/{topic}{manager}.yml").is_file(), (topic, manager)


def rendered(template: str, **values: Any) -> str:
    """A template of nvidia_driver, where a name that is not defined is an error."""
    folder = ROOT / "roles/nvidia_driver/templates"
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder), undefined=jinja2.StrictUndefined,
        trim_blocks=True, keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - settings of programs, no HTML
    )  # fmt: skip
    return environment.get_template(template).render(ansible_managed="Ansible managed", **values)


SET = {
    "pin": {
        "method": "preferences",
        "version": "570.86.15",
        "globs": ["*nvidia*", "libcuda*"],
        "apart": [],
    },
    "load_modules": ["ib_umad"],
}


def test_preferences_name_exact_revisions_before_the_globs() -> None:
    text = rendered(
        "nvidia.pref.j2",
        __nvidia_driver_set=SET,
        __nvidia_driver_apart=[],
        __nvidia_driver_versions={"nvidia-open-570": "570.86.15-1"},
    )
    stanzas = [part for part in text.split("\n\n")[1:] if part.strip()]
    assert stanzas[0].splitlines() == [
        "Package: nvidia-open-570", "Pin: version 570.86.15-1", "Pin-Priority: 1001"
    ]  # fmt: skip
    assert stanzas[1].splitlines() == [
        "Package: *nvidia* libcuda*", "Pin: version 570.86.15-*", "Pin-Priority: 1001"
    ]  # fmt: skip


def test_beside_a_pinning_package_only_what_is_versioned_apart_is_pinned() -> None:
    pin = {**SET["pin"], "method": "package"}  # type: ignore[dict-item]
    text = rendered(
        "nvidia.pref.j2",
        __nvidia_driver_set={**SET, "pin": pin},
        __nvidia_driver_apart=["nvlsm"],
        __nvidia_driver_versions={"nvlsm": "2025.10.14-1", "nvidia-open-580": "580.173.02-1"},
    )
    assert text.count("Package: ") == 1
    assert "Package: nvlsm\nPin: version 2025.10.14-1\n" in text


def test_the_source_trusts_our_key_only() -> None:
    values = {
        "__nvidia_driver_url": "http://mirror/apt/nvidia/",
        "__nvidia_driver_key_file": "/etc/apt/keyrings/k.asc",
        "nvidia_driver_apt_suite": "./",
    }
    text = rendered("source.sources.j2", nvidia_driver_apt_components="", **values)
    assert text.splitlines()[1:] == [
        "Types: deb", "URIs: http://mirror/apt/nvidia/", "Suites: ./",
        "Signed-By: /etc/apt/keyrings/k.asc",
    ]  # fmt: skip
    text = rendered("source.sources.j2", nvidia_driver_apt_components="main", **values)
    assert "Components: main\n" in text


def test_the_other_templates_render() -> None:
    assert "blacklist nouveau\noptions nouveau modeset=0\n" in rendered("nouveau.conf.j2")
    assert "\nib_umad\n" in rendered("modules-load.conf.j2", __nvidia_driver_set=SET)
    # Empty first: systemd adds to a list of commands.
    assert "ExecStart=\nExecStart=/usr/bin/nvidia-persistenced --user root" in rendered(
        "persistenced.conf.j2"
    )


def names(role: str, file: str) -> list[str]:
    tasks = tasks_of(read(ROOT / "roles" / role / "tasks" / file))
    return [
        str(task.get("ansible.builtin.include_tasks") or task.get("ansible.builtin.command", task))
        for task in tasks
    ]


def test_nothing_is_exchanged_or_ended_before_the_node_was_found_drained() -> None:
    """On DGX OS too; and again after K3s was stopped, before its script ends every pod."""
    dgx = names("nvidia_driver", "dgx.yml")
    assert dgx.index("drained.yml") < dgx.index("dgx_upgrade.yml")
    reload = names("nvidia_driver", "reload_do.yml")
    script = next(
        i for i, text in enumerate(reload) if text.startswith("{'argv': ['/usr/local/bin/k3s")
    )
    assert reload.index("reload_still.yml") < script


def test_a_source_that_comes_back_is_moved_aside_again() -> None:
    """With --no-clobber it would stay where an earlier copy is, and every run would say changed."""
    for file in ("sources_apt.yml", "sources_dnf.yml"):
        text = (ROOT / "roles/node_base/tasks" / file).read_text(encoding="utf-8")
        assert "mv, --backup=numbered" in text and "no-clobber" not in text


def test_what_holds_the_proxy_is_not_shown_where_it_has_credentials() -> None:
    for file in ("proxy.yml", "facts.yml"):
        for task in tasks_of(read(ROOT / "roles/node_base/tasks" / file)):
            if re.search(
                r"want\.proxy }}|environment\.j2|proxy\.conf|fabric_node_settings", str(task)
            ):
                assert task.get("no_log") == "{{ __node_base_secret }}", task["name"]


def test_the_gate_knows_where_the_role_finds_the_vendors_repository() -> None:
    name = read(ROOT / "roles/nvidia_driver/defaults/main.yml")["nvidia_driver_mirror_name"]
    assert f"/apt/{name}" == CUDA_OF_MIRROR
