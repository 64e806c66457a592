"""Real control groups: what does not fit is refused in one line, and nobody is killed."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rookery.shm.limits import PROCESS, memory_groups
from tests.scenarios.conftest import wait_for

pytestmark = pytest.mark.processes

LIMIT = 600 << 20
SMALL = ("rounds=2", "turns_per_round=8", "worlds=2", "network.width=16", "workers=0")
INSIDE = 'echo $$ > "$0/cgroup.procs" && exec "$@"'


@pytest.fixture
def inner() -> Iterator[Path]:
    """Make a group without a limit of its own, within one that has a small limit."""
    texts = ((PROCESS / name).read_text() for name in ("cgroup", "mountinfo"))
    limited = [(Path(folder), files[0]) for folder, files in memory_groups(*texts)]
    own = next(
        ((folder, name) for folder, name in limited if (folder / name).exists()), None
    )
    if own is None:
        pytest.skip("no control group of this machine counts memory")
    outer = own[0] / f"rookery-test-{os.getpid()}"
    try:
        (outer / "inner").mkdir(parents=True)
        (outer / own[1]).write_text(str(LIMIT))
    except OSError as error:
        remove(outer)
        pytest.skip(f"no control group can be made in {own[0]} ({error.strerror})")
    yield outer / "inner"
    remove(outer)


def remove(outer: Path) -> None:
    """Remove groups; the system may need a moment after the last process has ended."""

    def is_gone() -> bool:
        try:
            for group in (outer / "inner", outer):
                group.rmdir()
        except OSError as error:
            return error.errno != errno.EBUSY
        return True

    wait_for(is_gone)


def train_in(group: Path, *words: str) -> subprocess.CompletedProcess[str]:
    rookery = [sys.executable, "-m", "rookery", "train", "treasurehunt", *words]
    command = ["sh", "-c", INSIDE, str(group), *rookery]
    return subprocess.run(command, capture_output=True, text=True, timeout=100)


@pytest.mark.shows("C7")
def test_what_a_group_above_does_not_allow_is_refused_in_one_line(
    inner: Path, tmp_path: Path
) -> None:
    path = tmp_path / "run"

    done = train_in(inner, *SMALL, "replay.capacity=2000000", f"--run={path}")

    (line,) = done.stderr.splitlines()
    assert done.returncode == 2, done
    assert line.startswith("error: the run needs about ")
    assert " MiB is free: lower replay.capacity or worlds, or leave replays out" in line
    assert not path.exists()


def test_what_fits_into_a_small_group_runs_there(inner: Path, tmp_path: Path) -> None:
    path = tmp_path / "run"

    done = train_in(inner, *SMALL, "replay.capacity=2000", f"--run={path}")

    assert done.returncode == 0, done
    assert (path / "checkpoints" / "ckpt-2").is_dir()
