"""Only one process writes to a folder, whatever file system it is on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from rookery.errors import ConfigError
from rookery.runs import claim as claims
from rookery.runs.claim import LEASE_SECONDS, Claim, ClaimLost, FolderGone, Holder
from rookery.runs.log import METRICS, RunLog
from rookery.storage.checkpoints import Ownership, checkpoints_in, save_checkpoint
from rookery.storage.files import Attempts

FILES = {"agent": {"x": np.arange(3)}}
HOLD = """
import sys, time
from pathlib import Path
from rookery.runs.claim import Claim
claim = Claim(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""
RACE = """
import sys, time
from pathlib import Path
from rookery.errors import ConfigError
from rookery.runs.claim import Claim
folder, start = Path(sys.argv[1]), float(sys.argv[2])
while time.time() < start:
    pass
try:
    claim = Claim(folder)
except ConfigError:
    print("refused")
else:
    print("held", flush=True)
    sys.stdin.read()
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def claim_of_another_machine(folder: Path, age: float) -> Path:
    """Put a claim into a folder that was renewed so many seconds ago on another machine."""
    holder = replace(Holder.this_process(), boot="another", host="far-away")
    path = folder / "claim-7"
    path.write_text(json.dumps(asdict(holder)))
    then = time.time() - age
    os.utime(path, (then, then))
    return path


def test_a_folder_in_use_is_refused_with_the_name_of_its_holder(tmp_path: Path) -> None:
    claim = Claim(tmp_path)

    with pytest.raises(ConfigError) as refused:
        Claim(tmp_path)

    claim.close()
    who = f"process {os.getpid()} on {os.uname().nodename}"
    assert str(refused.value) == f"{tmp_path} is in use by {who}: wait until it ends."


def test_a_folder_that_was_given_up_can_be_taken_again_with_a_higher_number(
    tmp_path: Path,
) -> None:
    Claim(tmp_path).close()
    claim = Claim(tmp_path)
    assert claim.predecessor is None
    claim.close()
    claim.close()  # once more does no harm

    assert names(tmp_path) == ["claim-2-ended"]


@pytest.mark.processes
def test_the_claim_of_a_killed_process_is_taken_over_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(ConfigError, match=f"in use by process {holder.pid} on "):
            Claim(tmp_path)
        holder.send_signal(signal.SIGSTOP)  # it may go on, so the folder stays its own
        with pytest.raises(ConfigError, match=f"in use by process {holder.pid} on "):
            Claim(tmp_path)
        holder.kill()
        holder.wait()

    claim = Claim(tmp_path)

    assert claim.predecessor is not None
    assert claim.predecessor.pid == holder.pid
    assert not claim.is_from_elsewhere
    claim.close()


@pytest.mark.processes
def test_of_many_processes_that_claim_a_folder_at_once_one_gets_it(tmp_path: Path) -> None:
    claim_of_another_machine(tmp_path, age=LEASE_SECONDS + 1)
    command = [sys.executable, "-c", RACE, str(tmp_path), str(time.time() + 2)]
    pipe = subprocess.PIPE
    processes = [subprocess.Popen(command, stdout=pipe, stdin=pipe) for _ in range(6)]
    said = [process.stdout.readline() for process in processes if process.stdout]
    for process in processes:
        process.communicate()

    assert sorted(said) == [b"held\n", *[b"refused\n"] * 5]


def test_a_claim_of_another_machine_holds_until_its_lease_is_over(tmp_path: Path) -> None:
    path = claim_of_another_machine(tmp_path, age=20)
    with pytest.raises(ConfigError) as refused:
        Claim(tmp_path)
    assert str(refused.value) == (
        f"{tmp_path} is in use by process {os.getpid()} on far-away: wait until it ends, "
        "or 40 seconds if it no longer runs."
    )
    assert names(tmp_path) == ["claim-7"]

    then = time.time() - LEASE_SECONDS - 1
    os.utime(path, (then, then))
    claim = Claim(tmp_path)

    assert claim.is_from_elsewhere
    claim.close()
    assert names(tmp_path) == ["claim-8-ended"]


def test_a_claim_that_was_never_written_holds_for_seconds_only(tmp_path: Path) -> None:
    path = tmp_path / "claim-1"
    path.touch()  # its process was killed before it wrote
    with pytest.raises(ConfigError, match="is in use by another process"):
        Claim(tmp_path)

    then = time.time() - claims.UNWRITTEN_SECONDS - 1
    os.utime(path, (then, then))

    Claim(tmp_path).close()


def test_a_claim_is_renewed_while_its_holder_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = Claim(tmp_path)
    path = tmp_path / "claim-1"
    os.utime(path, (1, 1))

    claim.renew()
    assert path.stat().st_mtime == 1  # that was a moment ago

    monkeypatch.setattr(claims, "RENEWAL_SECONDS", 0.0)
    claim.renew()

    assert path.stat().st_mtime > 1
    claim.close()


def taken_over(folder: Path) -> tuple[Claim, Claim]:
    """Return a claim that was lost, and that of its successor on another machine."""
    stale = Claim(folder)
    path = folder / "claim-1"
    holder = json.loads(path.read_text())
    path.write_text(json.dumps({**holder, "boot": "another"}))
    os.utime(path, (1, 1))
    successor = Claim(folder)
    return stale, successor


def test_a_holder_that_was_taken_over_finds_out_and_leaves_the_new_claim(
    tmp_path: Path,
) -> None:
    stale, successor = taken_over(tmp_path)

    with pytest.raises(ClaimLost, match=r"was taken over by process .* writes nothing"):
        stale.check()

    stale.close()
    successor.check()
    successor.close()
    assert names(tmp_path) == ["claim-2-ended"]


def test_a_holder_that_was_taken_over_saves_no_checkpoint(tmp_path: Path) -> None:
    stale, successor = taken_over(tmp_path)
    folder = tmp_path / "checkpoints"
    save_checkpoint(folder, 4, FILES, {"by": "successor"}, successor)

    with pytest.raises(ClaimLost):
        save_checkpoint(folder, 5, FILES, {"by": "stale"}, stale)

    assert [path.name for path in checkpoints_in(folder)] == ["ckpt-4"]
    assert names(folder) == ["ckpt-4"]


def test_a_holder_taken_over_between_look_and_rename_saves_no_checkpoint(
    tmp_path: Path,
) -> None:
    """The successor has deleted what it would have renamed."""

    class Unlucky(Ownership):
        token = "unlucky"
        looks = 0

        def check(self) -> None:
            self.looks += 1
            if self.looks == 2:  # the last look, before the rename
                save_checkpoint(tmp_path, 5, FILES, {"by": "successor"})

    with pytest.raises(FileNotFoundError):
        save_checkpoint(tmp_path, 6, FILES, {"by": "stale"}, Unlucky())

    assert names(tmp_path) == ["ckpt-5"]


class Suspended(Ownership):
    """An owner who does not look before it is given a claim."""

    claim: Claim | None = None

    def check(self) -> None:
        if self.claim:
            self.claim.check()


def test_a_holder_that_was_taken_over_appends_nothing_to_the_log(tmp_path: Path) -> None:
    stale, successor = taken_over(tmp_path)
    attempts = Attempts(pytest.fail)
    suspended = Suspended()
    old = RunLog(tmp_path, attempts, owner=suspended)
    old.line(METRICS, {"round": 1})
    old.line(METRICS, {"round": 2})
    new = RunLog(tmp_path, attempts, owner=successor)
    new.cut(1)
    new.line(METRICS, {"round": 2, "by": "successor"})

    suspended.claim = stale
    with pytest.raises(ClaimLost):
        old.line(METRICS, {"round": 3, "by": "stale"})
    with pytest.raises(ClaimLost):
        old.cut(0)

    lines = [json.loads(line) for line in (tmp_path / METRICS).read_text().splitlines()]
    assert lines == [{"round": 1}, {"round": 2, "by": "successor"}]
    for opened in (stale, successor, old, new):
        opened.close()


def test_a_deleted_folder_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    claim = Claim(folder)
    folder.rename(tmp_path / "renamed")

    with pytest.raises(FolderGone, match=r"continue there: rookery resume .*renamed"):
        claim.check()

    claim.close()
