"""JSON files with their own checksum."""

from __future__ import annotations

from pathlib import Path

import pytest

from rookery.errors import ConfigError
from rookery.storage.arrays import Damaged
from rookery.storage.summed_json import read_with_checksum, write_with_checksum


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "file.json"

    written = write_with_checksum(path, {"rounds": 4, "names": ["a", "ü"]})

    assert read_with_checksum(path) == written
    assert written["names"] == ["a", "ü"]
    assert read_with_checksum(tmp_path / "other.json") is None


def test_what_was_read_can_be_changed_and_written_again(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    written = write_with_checksum(path, {"rounds": 4})

    write_with_checksum(path, written | {"rounds": 5})

    content = read_with_checksum(path)
    assert content is not None
    assert content["rounds"] == 5


@pytest.mark.parametrize(("old", "new"), [("4", "5"), ("{", ""), ('"sum"', '"sun"')])
def test_an_edited_file_is_damaged(old: str, new: str, tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_with_checksum(path, {"rounds": 4})
    path.write_text(path.read_text().replace(old, new, 1))

    with pytest.raises(Damaged):
        read_with_checksum(path)


def test_a_file_that_cannot_be_written_is_an_error_of_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot write .*file\.json"):
        write_with_checksum(tmp_path / "no" / "file.json", {})
