"""The quick tier is complete: it knows its slow tests, and reaches every module."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import rookery
from tests.paths import PACKAGE, ROOT
from tests.tiers import SLOW

TESTS = ROOT / "tests"
LONGEST_TIMEOUT = 300
REACHED_OTHERWISE = {
    "rookery.__main__": "cli/test_cli.py runs `python -m rookery`",
    "rookery.bench.jax_dqn": "bench/test_peers.py starts it; slow, since JAX compiles",
    "rookery.bench.tianshou_dqn": "bench/test_peers.py starts it where Tianshou is",
    "rookery.learner.process": "training/test_executors.py starts worker processes",
    "rookery.sweeps.changes": "sweeps/test_seeds.py changes settings on resume",
    "rookery.sweeps.older": "sweeps/test_seeds.py resumes seeds of earlier versions",
    "rookery.sweeps.resume": "sweeps/test_seeds.py resumes sweeps",
    "rookery.evaluation.probes": "evaluation/test_probes.py trains runs with probes",
}
"""Modules that quick tests use without importing their package, and where."""


def definitions(path: Path) -> set[str]:
    """Return the names of the functions and classes of a file."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    return {
        node.name for node in ast.parse(path.read_text()).body if isinstance(node, kinds)
    }


@pytest.mark.parametrize("entry", SLOW)
def test_every_slow_test_exists(entry: str) -> None:
    path, names = TESTS / entry, SLOW[entry]

    assert path.exists(), f"update tests/tiers.py: there is no {path}"
    missing = set(names) - (definitions(path) if names else set())
    assert not missing, f"update tests/tiers.py: {entry} has no {', '.join(missing)}"


def quick_files() -> Iterator[Path]:
    """Return the test files, and their helpers, that are not slow as a whole."""
    slow = [TESTS / path for path, names in SLOW.items() if not names]
    for path in TESTS.rglob("*.py"):
        if not any(path.is_relative_to(entry) for entry in slow):
            yield path


def imports(path: Path) -> set[str]:
    """Return the modules, and names in modules, that a file imports.

    Names of the public API count as the modules that define them.
    """
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{x.name}" for x in node.names)}
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "rookery":
            names.add(getattr(getattr(rookery, node.attr, None), "__module__", ""))
    return names


def test_quick_tests_reach_every_module() -> None:
    """A quick test file imports it, or a module of the same package that leads to it."""
    files = {
        path.relative_to(ROOT).with_suffix("").as_posix().replace("/", "."): path
        for path in PACKAGE.rglob("*.py")
    }
    modules = {name.removesuffix(".__init__"): path for name, path in files.items()}
    reached: set[str] = set()
    found = set.union(*map(imports, quick_files())) & modules.keys()
    while found := found - reached:
        reached |= found
        found = {
            target
            for source in found
            for target in imports(modules[source]) & modules.keys()
            if target.count(".") == 1 or target.split(".")[:2] == source.split(".")[:2]
        }

    packages = {name.removesuffix(".__init__") for name in files if "__init__" in name}
    assert modules.keys() - packages - reached == set(REACHED_OTHERWISE)


def test_no_test_has_a_long_timeout() -> None:
    timeouts = {
        path.name: int(seconds)
        for path in TESTS.rglob("test_*.py")
        for seconds in re.findall(r"mark\.timeout\((\d+)\)", path.read_text())
    }

    assert max(timeouts.values()) <= LONGEST_TIMEOUT, timeouts
