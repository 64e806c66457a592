"""Real control groups: a run that does not fit is refused, and none is killed."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rookery.shm.limits import PROCESS, V2, groups
from tests.scenarios.conftest import wait_for
from tests.small import SMALL, overrides

pytestmark = pytest.mark.processes

LIMIT = 600 << 20
ARGUMENTS = [*overrides(SMALL | {"rounds": 2}), "workers=0"]
INSIDE = 'echo $$ > "$0/cgroup.procs" && exec "$@"'


@pytest.fixture
def inner() -> Iterator[Path]:
    """A control group without a limit, inside one with a small limit."""
    texts = ((PROCESS / name).read_text() for name in ("cgroup", "mountinfo"))
    limited = [
        (Path(folder), "memory.max" if version == V2 else "memory.limit_in_bytes")
        for folder, version in groups("memory", *texts)
    ]
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
    """Remove the groups; the kernel can need a moment after the last process."""

    def is_gone() -> bool:
        try:
            for group in (outer / "inner", outer):
                group.rmdir()
        except OSError as error:
            return error.errno != errno.EBUSY
        return True

    wait_for(is_gone)


def train_in(group: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    rookery = [sys.executable, "-m", "rookery", "train", "treasurehunt", *arguments]
    command = ["sh", "-c", INSIDE, str(group), *rookery]
    return subprocess.run(command, capture_output=True, text=True, timeout=100)


@pytest.mark.shows("C7")
def test_a_run_beyond_the_limit_of_an_outer_group_is_refused_in_one_line(
    inner: Path, tmp_path: Path
) -> None:
    path = tmp_path / "run"

    done = train_in(inner, *ARGUMENTS, "replay.capacity=2000000", f"--run={path}")

    (line,) = done.stderr.splitlines()
    assert done.returncode == 2, done
    assert line.startswith("error: the run needs about ")
    assert " MiB is free: lower replay.capacity or worlds, or leave replays out" in line
    assert not path.exists()


def test_a_run_that_fits_into_a_small_group_runs_there(inner: Path, tmp_path: Path) -> None:
    path = tmp_path / "run"

    done = train_in(inner, *ARGUMENTS, "replay.capacity=2000", f"--run={path}")

    assert done.returncode == 0, done
    assert (path / "checkpoints" / "ckpt-2").is_dir()
