"""Atomic writes: the old file or the complete new one, and no other file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rookery.storage.files import atomic_write, replace_whole


def test_a_file_is_created_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "file"

    for data in (b"first", b"second"):
        replace_whole(path, data)

        assert path.read_bytes() == data
        assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_an_interrupted_write_leaves_the_old_file_and_no_other(
    error: type[BaseException], tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def interrupted_write() -> None:
        with atomic_write(path) as file:
            file.write(b"new")
            file.flush()
            raise error

    with pytest.raises(error):
        interrupted_write()

    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_file_and_folder_are_synced_around_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    fsync, rename = os.fsync, os.rename

    def note_fsync(descriptor: int) -> None:
        calls.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    def note_rename(source: Path, target: Path) -> None:
        calls.append("rename")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "rename", note_rename)
    replace_whole(tmp_path / "file", b"data")

    assert calls == [f".file.{os.getpid()}.partial", "rename", tmp_path.name]


def test_a_link_at_the_temporary_name_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    (tmp_path / f".file.{os.getpid()}.partial").symlink_to(victim)

    replace_whole(tmp_path / "file", b"data")

    assert victim.read_bytes() == b"mine"
    assert (tmp_path / "file").read_bytes() == b"data"
    assert not (tmp_path / "file").is_symlink()


def test_what_a_killed_process_had_written_is_deleted_with_the_next_writing(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    leftover = tmp_path / f".file.{ended.pid}.partial"
    running = tmp_path / f".file.{os.getppid()}.partial"
    leftover.write_bytes(b"half")
    running.write_bytes(b"half")

    replace_whole(tmp_path / "file", b"whole")

    assert not leftover.exists()
    assert running.exists()
