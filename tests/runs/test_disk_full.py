"""A full disk: training continues with one warning, and old checkpoints stay intact."""

from __future__ import annotations

import errno
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rookery.runs.log
import rookery.storage.checkpoints
import rookery.storage.files
from rookery.evaluation.recordings import Recording
from rookery.runs.resume import resumed_config
from rookery.runs.run import Run
from rookery.runs.session import NotSaved, Session
from rookery.stop import Stopped
from rookery.storage.checkpoints import (
    checkpoints_in,
    load_checkpoint,
    newest_whole,
    save_checkpoint,
)
from rookery.storage.files import Attempts, append_whole
from rookery.training.training import Round
from tests.small import GAME, SETTINGS, session_of, train

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
SMALL = {"a": {"x": np.arange(3.0)}, "b": {"y": np.arange(4), "z": np.zeros(2, bool)}}
LIMITS = (0, 60, 400, 1000, 2000)
"""Sizes that files are limited to: from nothing to all but the largest."""


class FullDisk:
    """Makes the k-th disk operation fail, half done where possible."""

    def __init__(self, patch: pytest.MonkeyPatch, fails_at: int) -> None:
        self.asked, self._fails_at = 0, fails_at
        real = rookery.storage.files.write_whole

        def write(path: Path, data: bytes) -> None:
            if self._is_full():
                path.write_bytes(data[: len(data) // 2])
                raise FULL
            real(path, data)

        patch.setattr(rookery.storage.checkpoints, "write_whole", write)
        patch.setattr(os, "fsync", self._failing(os.fsync))
        for name in ("rename", "mkdir"):
            patch.setattr(os, name, self._failing(getattr(os, name)))

    def _is_full(self) -> bool:
        self.asked += 1
        return self.asked == self._fails_at

    def _failing(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if self._is_full():
                raise FULL
            return real(*arguments, **options)

        return call


def save_with_a_failure(folder: Path, fails_at: int) -> bool:
    """Save checkpoint 2 with one failing operation; return whether one failed."""
    with pytest.MonkeyPatch.context() as patch:
        disk = FullDisk(patch, fails_at)
        with suppress(OSError):
            save_checkpoint(folder, 2, SMALL, {"say": "new"})
            assert disk.asked < fails_at, "a failure was passed over"
        return disk.asked >= fails_at


@pytest.mark.shows("F4")
def test_whatever_fails_while_saving_the_old_checkpoint_is_intact_and_no_part_is_left(
    tmp_path: Path,
) -> None:
    save_checkpoint(tmp_path, 1, SMALL, {"say": "old"})
    fails_at = 1

    while save_with_a_failure(tmp_path, fails_at):
        files, manifest = load_checkpoint(tmp_path / "ckpt-1")
        assert manifest["say"] == "old"
        assert np.array_equal(files["a"]["x"], SMALL["a"]["x"])
        assert not list(tmp_path.glob("partial*"))
        assert not newest_whole(tmp_path).warnings
        fails_at += 1

    assert fails_at > 9  # three files, four folders and files put on disk, two names
    assert newest_whole(tmp_path).manifest["say"] == "new"


def test_a_checkpoint_that_does_not_read_back_is_an_error_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lie(path: Path, data: bytes) -> None:
        path.write_bytes(data[:-1] + b"?")

    save_checkpoint(tmp_path, 1, SMALL, {})
    monkeypatch.setattr(rookery.storage.checkpoints, "write_whole", lie)

    with pytest.raises(OSError, match=r"does not read back: .*is damaged"):
        save_checkpoint(tmp_path, 2, SMALL, {})

    assert [path.name for path in tmp_path.iterdir()] == ["ckpt-1"]


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Make every write beyond a size fail, possibly half-way, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def run_on_a_full_disk(session: Session, size: int, until: int) -> list[str]:
    """Run to the end, with a disk that is full from round 2 on; return the messages."""
    messages: list[str] = []
    session.say = messages.append
    with ExitStack() as full:

        def show(result: Round) -> None:
            if result.number == 1:
                full.enter_context(files_of_at_most(size))
            if result.number == until:
                full.close()

        session.run(show)
    return messages


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train(tmp_path_factory.mktemp("unbroken") / "run")


@pytest.mark.shows("F4")
@pytest.mark.parametrize("size", LIMITS)
def test_training_continues_while_the_disk_is_full_with_one_warning(
    size: int, unbroken: Run, tmp_path: Path
) -> None:
    session = session_of(tmp_path / "run")

    messages = run_on_a_full_disk(session, size, until=3)

    (line,) = messages
    assert line.startswith("warning: cannot write ")
    assert "File too large): training continues without saving what cannot be" in line
    assert Run(session.folder).digest() == unbroken.digest()
    assert not [path for path in session.folder.rglob("*partial*")]
    for name in ("metrics.jsonl", "events.jsonl"):
        lines = (session.folder / name).read_text().splitlines()
        assert [json.loads(line) for line in lines]  # none is cut off


@pytest.mark.parametrize("storage", ["memory", "disk"])
def test_a_run_that_cannot_save_its_end_reports_it_and_can_be_finished_later(
    storage: str, unbroken: Run, tmp_path: Path
) -> None:
    session = session_of(tmp_path / "run", storage=storage)

    with pytest.raises(NotSaved) as error:
        run_on_a_full_disk(session, 60, until=10)

    left = "nothing is lost yet" if storage == "disk" else "newest checkpoint is of round 1"
    assert "round 4 could not be saved" in str(error.value)
    assert left in str(error.value)
    assert "\n" not in str(error.value)
    assert [p.name for p in checkpoints_in(session.folder / "checkpoints")] == ["ckpt-1"]
    assert (session.folder / "memory").exists() == (storage == "disk")
    run = Run(session.folder)
    again = Session(run.entry, resumed_config(run), run.path, resume=True)
    assert again.done >= 3 if storage == "disk" else again.done == 1
    again.run(lambda result: None)
    assert run.digest() == unbroken.digest()
    assert run.rounds_with_weights == [4]
    assert not (run.path / "memory").exists()


def test_log_lines_lost_on_a_full_disk_do_not_cost_rounds(
    unbroken: Run, tmp_path: Path
) -> None:
    settings = {"storage": "disk", "checkpoints.every_rounds": 0}
    session = session_of(tmp_path / "run", **settings)

    def stop_at_three(result: Round) -> None:
        if result.number == 3:
            session.training.parts.stop.signal = 2

    with files_of_at_most(0), pytest.raises(Stopped):
        session.run(stop_at_three)
    run = Run(session.folder)
    assert not (run.path / "metrics.jsonl").read_text()
    again = Session(run.entry, resumed_config(run), run.path, resume=True)
    again.run(lambda result: None)

    assert again.done == 4
    assert run.digest() == unbroken.digest()


def test_a_recording_that_cannot_be_written_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Recording, path: Path) -> None:
        raise FULL

    monkeypatch.setattr(Recording, "save", fail)
    session = session_of(tmp_path / "run", **{"record.every_rounds": 1})
    messages: list[str] = []
    session.say = messages.append

    session.run(lambda result: None)

    (line,) = messages
    assert line.startswith("warning: cannot write recordings (No space left on device)")


def test_a_failure_is_reported_again_only_after_everything_has_worked() -> None:
    messages: list[str] = []
    attempt = Attempts(messages.append)

    def fail() -> None:
        raise FULL

    for write in (fail, fail, lambda: None, fail):
        attempt("a", write)
        attempt("b", fail)
    attempt("b", lambda: None)
    assert attempt("a", lambda: None)
    assert len(messages) == 1
    assert not attempt("b", fail)

    assert len(messages) == 2
    assert attempt.reason("b") == "No space left on device"
    assert not attempt.reason("a")


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EACCES, "make the folder writable"),
        (errno.EROFS, "make the folder writable"),
    ],
)
def test_a_failed_write_is_reported_with_a_remedy(code: int, remedy: str) -> None:
    messages: list[str] = []

    def fail() -> None:
        raise OSError(code, os.strerror(code))

    Attempts(messages.append)("lines", fail)

    assert messages[0].startswith(
        f"cannot write lines ({os.strerror(code)}): training continues"
    )
    assert messages[0].endswith(f"{remedy}.")


@pytest.mark.parametrize("room", range(1, 12))
def test_a_line_is_appended_completely_or_not_at_all(room: int, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\n")

    with files_of_at_most(4 + room), suppress(OSError):
        append_whole(path, b"two and\n")

    assert path.read_bytes() == b"one\n" + (b"two and\n" if room >= 8 else b"")


CANNOT_SAVE = """
import errno, os, sys
import rookery.storage.checkpoints, rookery.cli.app
def full(path, data):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
rookery.storage.checkpoints.write_whole = full
rookery.cli.app.main(sys.argv[1:])
"""


def test_the_command_line_ends_with_one_error_when_the_end_cannot_be_saved(
    tmp_path: Path,
) -> None:
    flat = {**SETTINGS, "agents.1.player": "random"}
    overrides = [f"{key}={value}" for key, value in flat.items() if key != "agents"]
    command = [sys.executable, "-c", CANNOT_SAVE, "train", GAME, *overrides, "--run", "run"]
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=100, cwd=tmp_path
    )

    assert ended.returncode == 2
    lines = ended.stderr.splitlines()
    assert len([x for x in lines if x.startswith("warning: cannot write check")]) == 1
    assert [x for x in lines if x.startswith("error: ")] == lines[-1:]
    assert "round 4 could not be saved in run (No space left on device)" in lines[-1]
    assert "Traceback" not in ended.stderr


def test_a_run_that_cannot_be_written_at_all_is_refused(tmp_path: Path) -> None:
    run = train(tmp_path / "run")

    with pytest.raises(rookery.ConfigError, match=r"cannot write .*: free some space"):
        _resume_without_room(run)

    Session(run.entry, resumed_config(run), run.path, resume=True).run(lambda result: None)


def _resume_without_room(run: Run) -> None:
    with pytest.MonkeyPatch.context() as patch:

        def fail(path: Path, data: bytes) -> None:
            raise FULL

        patch.setattr(rookery.runs.log, "replace_whole", fail)
        Session(run.entry, resumed_config(run), run.path, resume=True)
