"""A package and a home that cannot be written to: loops are compiled in every process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rookery
from rookery.runs.run import Run
from tests.small import HUNT, overrides

PACKAGE = Path(rookery.__file__).parent
AS_ROOT = ["unshare", "--mount"] + ([] if os.geteuid() == 0 else ["--map-root-user"])
READ_ONLY = f"mount --bind {PACKAGE} {PACKAGE} && mount -o remount,bind,ro {PACKAGE}"

SETTINGS = HUNT | {"rounds": 2, "algorithm": "dqn"}


def can_mount() -> bool:
    """Whether this user can have mounts of its own."""
    if shutil.which("unshare") is None:
        return False
    command = [*AS_ROOT, "sh", "-c", READ_ONLY]
    return subprocess.run(command, capture_output=True).returncode == 0


@pytest.mark.timeout(300)  # three processes compile everything that they use
@pytest.mark.skipif(not can_mount(), reason="needs mounts of its own (unshare)")
def test_training_works_with_a_read_only_home_and_a_read_only_package(tmp_path):
    train = [sys.executable, "-m", "rookery", "train", "treasurehunt"]
    train += [*overrides(SETTINGS), "workers=1", "--run", str(tmp_path / "run")]
    attempt = f'{READ_ONLY} && ! touch {PACKAGE}/written && exec "$@"'
    command = [*AS_ROOT, "sh", "-c", attempt, "sh", *train]

    environment = os.environ | {"HOME": "/proc/self", "PYTHONDONTWRITEBYTECODE": "1"}
    result = subprocess.run(command, capture_output=True, text=True, env=environment)

    assert result.returncode == 0, result.stderr
    elsewhere = rookery.train("treasurehunt", run=tmp_path / "other", **SETTINGS)
    assert Run(tmp_path / "run").digest() == elsewhere.digest()
