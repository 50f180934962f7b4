"""Every declared dependency can be imported, and every import is declared."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

REPO = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))

#: What to import for a distribution, where it is not the name itself. ``None``: type stubs.
MODULES: dict[str, tuple[str, ...] | None] = {
    "ansible-core": ("ansible.plugins.action", "ansible.release"),
    "ansible-runner": ("ansible_runner",),
    "import-linter": ("importlinter",),
    # The parts that we use; the package itself is empty and would import on any ruin.
    "model-signing": ("model_signing.signing", "model_signing.verifying"),
    "nvidia-ml-py": ("pynvml",),
    "pyopenssl": ("OpenSSL.crypto", "OpenSSL.SSL"),
    "pytest-testinfra": ("testinfra",),
    "pytest-xdist": ("xdist",),
    "pyyaml": ("yaml",),
    "sigstore": ("sigstore.verify", "sigstore.sign"),
    "types-paramiko": None,
    "types-pyyaml": None,
}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(*extras: str) -> dict[str, Requirement]:
    """Requirements that apply to this Python, by canonical name."""
    found = {}
    for text in metadata.requires("fabric-tools") or []:
        requirement = Requirement(text)
        if requirement.marker is None or any(
            requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras)
        ):
            found[canonical(requirement.name)] = requirement
    found.pop("fabric-tools", None)
    return found


def modules(name: str) -> tuple[str, ...] | None:
    return MODULES.get(name, (name.replace("-", "_"),))


ALL = declared("verify", "dev")


@pytest.mark.parametrize("name", sorted(ALL))
def test_declared_dependency_is_installed_and_imports(name: str) -> None:
    assert ALL[name].specifier.contains(metadata.version(name), prereleases=True)
    for module in modules(name) or ():
        importlib.import_module(module)


def test_one_ansible_core_for_each_python() -> None:
    series = "2.19" if sys.version_info < (3, 12) else "2.21"
    assert metadata.version("ansible-core").startswith(series + ".")


def test_map_names_only_declared_distributions() -> None:
    assert set(MODULES) <= set(ALL)


def test_every_import_of_the_product_is_declared() -> None:
    known = {path.split(".")[0] for name in declared() for path in modules(name) or ()}
    known |= set(sys.stdlib_module_names) | {"fabric_tools"}
    stray = [
        f"{path.relative_to(REPO)}:{line} {module}"
        for path in sorted((REPO / "fabric_tools").rglob("*.py"))
        for module, line in imports(path)
        if module.split(".")[0] not in known
    ]
    assert stray == []


def test_the_collector_needs_nothing_but_the_standard_library_and_pynvml() -> None:
    ours = ("fabric_tools.node", "fabric_tools.probes")
    stray = []
    for path in sorted((REPO / "fabric_tools/node").rglob("*.py")):
        for module, line in imports(path):
            root = module.split(".")[0]
            if root == "fabric_tools":
                # "from fabric_tools import __version__" is the package root itself.
                allowed = module == "fabric_tools" or module.startswith(ours)
            else:
                allowed = root in sys.stdlib_module_names or root == "pynvml"
            if not allowed:
                stray.append(f"{path.relative_to(REPO)}:{line} {module}")
    assert stray == []


def imports(path: Path) -> list[tuple[str, int]]:
    """Module and line of every import in a file, wherever in it."""
    found: list[tuple[str, int]] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            # "from fabric_tools import models" names a package, not only the root.
            for alias in node.names:
                below = f"{node.module}.{alias.name}"
                package = node.module == "fabric_tools" and is_module(below)
                found.append((below if package else node.module, node.lineno))
    return found


def is_module(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


@pytest.mark.parametrize(
    "lock", ["requirements.lock", "requirements-dev.lock", "requirements-build.lock"]
)
def test_lock_has_hashes_and_no_address(lock: str) -> None:
    text = (REPO / lock).read_text(encoding="utf-8")
    assert "://" not in text
    assert "--index" not in text
    assert "--find-links" not in text
    for entry in re.split(r"\n(?=\S)", text):
        if not entry.startswith("#"):
            assert "--hash=sha256:" in entry, entry


def pins(lock: str) -> dict[str, set[str]]:
    """Versions by canonical name; two where the Pythons differ."""
    found: dict[str, set[str]] = {}
    text = (REPO / lock).read_text(encoding="utf-8")
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", text, re.MULTILINE):
        found.setdefault(canonical(name), set()).add(version)
    return found


def test_locks_agree_with_each_other_and_with_the_build_pins() -> None:
    runtime, dev = pins("requirements.lock"), pins("requirements-dev.lock")
    assert {name: dev.get(name) for name in runtime} == runtime
    build = pins("requirements-build.lock")
    assert {name: dev.get(name) for name in build} == build
    for text in PROJECT["build-system"]["requires"]:
        requirement = Requirement(text)
        assert build[canonical(requirement.name)] == {str(requirement.specifier).lstrip("=")}


def test_locks_hold_every_declared_dependency() -> None:
    assert set(declared()) <= set(pins("requirements.lock"))
    assert set(ALL) <= set(pins("requirements-dev.lock"))
