"""Runs of a user who is not root and whose umask keeps files private."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rookery
from tests.paths import ROOT
from tests.small import HUNT, overrides

pytestmark = pytest.mark.processes

NOBODY = 65534
"""The user id without rights, and its group's."""
SETTINGS = {**HUNT, "rounds": 200, "turns_per_round": 4, "checkpoints.every_rounds": 20}


class Nobody:
    """Runs commands as a user without rights, with umask 077."""

    def __init__(self, home: Path) -> None:
        self.home = home
        path = os.pathsep.join([str(ROOT), sysconfig.get_paths()["purelib"]])
        self._options: dict[str, Any] = {
            "cwd": home,
            "umask": 0o077,
            "env": {"HOME": str(home), "PATH": "/usr/bin:/bin", "PYTHONPATH": path},
            "text": True,
        }
        if os.getuid() == 0:
            self._options |= {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        self._python = self._find_python()

    def _find_python(self) -> str:
        """Return an interpreter of this Python version that the user can run."""
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        for python in (sys.executable, f"/usr/bin/python{version}"):
            try:
                subprocess.run([python, "-c", "import torch"], check=True, **self._options)
            except (OSError, subprocess.CalledProcessError):
                continue
            return python
        pytest.skip(f"no Python {version} here that other users can run")

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [self._python, "-m", "rookery", *arguments]
        piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, **piped, **self._options)

    def run(self, *arguments: str) -> tuple[int, str, str]:
        process = self.start(*arguments)
        out, err = process.communicate()
        return process.returncode, out, err


@pytest.fixture
def nobody() -> Iterator[Nobody]:
    home = Path(tempfile.mkdtemp(prefix="rookery-nobody-"))
    if os.getuid() == 0:
        os.chown(home, NOBODY, NOBODY)
    yield Nobody(home)
    shutil.rmtree(home)


def test_a_user_with_a_strict_umask_trains_is_killed_and_resumes_to_the_same_digest(
    nobody: Nobody, tmp_path: Path
) -> None:
    settings = overrides(SETTINGS)
    training = nobody.start("train", "treasurehunt", *settings, "workers=1", "--run=mine")
    checkpoints, until = nobody.home / "mine" / "checkpoints", time.monotonic() + 100
    while not list(checkpoints.glob("ckpt-*")) and time.monotonic() < until:
        assert training.poll() is None, training.communicate()
        time.sleep(0.01)
    training.send_signal(signal.SIGKILL)
    training.communicate()

    code, _, said = nobody.run("resume", "mine", "workers=0", "--json")

    assert (code, [x for x in said.splitlines() if "exact" in x]) == (0, [])
    code, out, _ = nobody.run("digest", "mine", "--json")
    run = rookery.train("treasurehunt", run=tmp_path / "run", workers=0, **SETTINGS)
    assert json.loads(out)["exact"]
    assert json.loads(out)["run"] == run.digest()["run"]
    for path in (nobody.home / "mine").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make folders for another user")
def test_a_folder_without_write_permission_is_an_error_of_one_line(
    nobody: Nobody, tmp_path: Path
) -> None:
    theirs = nobody.home / "theirs"
    theirs.mkdir(mode=0o755)  # root's

    code, out, said = nobody.run("train", "treasurehunt", "--run", "theirs/run")

    assert (code, out) == (2, "")
    assert said == (
        "error: cannot create the run folder theirs/run (Permission denied): choose "
        "another with --run.\n"
    )
