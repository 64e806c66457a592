"""Loads scripts from their files, since experiments/ is not a package."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType

import pytest

from tests.paths import EXPERIMENTS


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Return a function that loads a script without running it."""
    monkeypatch.syspath_prepend(EXPERIMENTS)  # scripts import each other from their folder

    def load_script(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(
            f"script_{name}", EXPERIMENTS / f"{name}.py"
        )
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        spec.loader.exec_module(module)
        return module

    return load_script
