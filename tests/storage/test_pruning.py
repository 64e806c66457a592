"""Which checkpoints are kept, and what happens to the leftovers of a killed process."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from rookery.storage.checkpoints import checkpoints_in, newest_whole, prune, save_checkpoint

FILES = {"actor": {"turn": np.array([1])}}


def save(folder: Path, *numbers: int) -> Path:
    return [save_checkpoint(folder, number, FILES, {}) for number in numbers][-1]


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_the_newest_checkpoints_are_kept(tmp_path: Path) -> None:
    newest = save(tmp_path, 9, 10, 11)

    prune(tmp_path, newest, 2)

    assert names(tmp_path) == ["ckpt-10", "ckpt-11"]


def test_checkpoints_after_the_one_resumed_from_are_deleted(tmp_path: Path) -> None:
    save(tmp_path, 3, 4, 8, 9)
    for number in (8, 9):
        (tmp_path / f"ckpt-{number}" / "manifest.json").unlink()

    prune(tmp_path, save(tmp_path, 5), 2)

    assert names(tmp_path) == ["ckpt-4", "ckpt-5"]
    assert newest_whole(tmp_path).warnings == []


@pytest.mark.shows("F5")
def test_saving_deletes_what_a_killed_process_has_left(tmp_path: Path) -> None:
    save(tmp_path, 4)
    (tmp_path / "partial-5").mkdir()
    (tmp_path / "partial-5" / "actor.safetensors").write_bytes(b"half")

    save(tmp_path, 6)

    assert names(tmp_path) == ["ckpt-4", "ckpt-6"]


def test_a_checkpoint_being_replaced_is_used_until_its_replacement_is_saved(
    tmp_path: Path,
) -> None:
    save(tmp_path, 4, 5).rename(tmp_path / "ckpt-5-old")  # and then came the kill

    assert newest_whole(tmp_path).path.name == "ckpt-5-old"

    save(tmp_path, 5)
    assert [path.name for path in checkpoints_in(tmp_path)] == ["ckpt-5", "ckpt-4"]
