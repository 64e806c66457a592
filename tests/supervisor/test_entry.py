"""A child's first code is quick to load, so that its life is tied to main's at once."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.processes
def test_a_child_loads_nothing_heavy_before_it_is_tied_to_its_parent() -> None:
    code = (
        "import sys, rookery.supervisor.child\n"
        "print([name for name in ('numpy', 'torch', 'pydantic') if name in sys.modules])"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout.strip() == "[]"
