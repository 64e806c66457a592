"""A run of somebody who is not root and lets nobody else read their files."""

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
from tests.paths import ROOT as HERE

pytestmark = pytest.mark.processes

NOBODY = 65534
SETTINGS = {
    "rounds": 200,
    "turns_per_round": 4,
    "updates_per_round": 2,
    "worlds": 2,
    "frames": 2,
    "network.width": 16,
    "network.quantiles": 2,
    "batch_size": 8,
    "replay.warmup": 8,
    "replay.capacity": 200,
    "epsilon.steps": 100,
    "game.turns": 10,
    "checkpoints.every_rounds": 20,
}


class Nobody:
    """Starts commands as a user without rights, with a umask of 077."""

    def __init__(self, home: Path) -> None:
        self.home = home
        path = os.pathsep.join([str(HERE), sysconfig.get_paths()["purelib"]])
        self._about: dict[str, Any] = {
            "cwd": home,
            "umask": 0o077,
            "env": {"HOME": str(home), "PATH": "/usr/bin:/bin", "PYTHONPATH": path},
            "text": True,
        }
        if os.getuid() == 0:
            self._about |= {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        self._python = self._find_python()

    def _find_python(self) -> str:
        """Return an interpreter of our version that this user may run."""
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        for python in (sys.executable, f"/usr/bin/python{version}"):
            try:
                subprocess.run([python, "-c", "import torch"], check=True, **self._about)
            except (OSError, subprocess.CalledProcessError):
                continue
            return python
        pytest.skip(f"there is no Python {version} here that other users may run")

    def start(self, *words: str) -> subprocess.Popen[str]:
        command = [self._python, "-m", "rookery", *words]
        piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, **piped, **self._about)

    def run(self, *words: str) -> tuple[int, str, str]:
        process = self.start(*words)
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
    words = [f"{key}={value}" for key, value in SETTINGS.items()]
    training = nobody.start("train", "treasurehunt", *words, "workers=1", "--run", "mine")
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


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make folders of somebody else")
def test_a_folder_one_may_not_write_is_one_line(nobody: Nobody, tmp_path: Path) -> None:
    theirs = nobody.home / "theirs"
    theirs.mkdir(mode=0o755)  # root's

    code, out, said = nobody.run("train", "treasurehunt", "--run", "theirs/run")

    assert (code, out) == (2, "")
    assert said == (
        "error: cannot make the run folder theirs/run (Permission denied): choose another "
        "with --run.\n"
    )
