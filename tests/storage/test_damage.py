"""Damaged checkpoints: refused in one line, and the one before is used."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import rookery
from rookery.errors import ArrayFileError
from rookery.runs.resume import resumed_config
from rookery.runs.run import Run
from rookery.runs.session import Session
from rookery.stop import Stopped
from rookery.storage.checkpoints import (
    Checkpoint,
    checkpoints_in,
    is_whole,
    load_checkpoint,
    newest_whole,
    sum_of_manifest,
)
from rookery.training.training import Round
from tests.small import session_of, train

FILES = ("actor", "agent-0", "replay-0", "replay-1")
NAMES = ("manifest.json", *(f"{name}.safetensors" for name in FILES))
TORN = "[{"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny run of five rounds with two checkpoints, of rounds 3 and 4."""
    folder = tmp_path_factory.mktemp("made") / "run"
    session = session_of(folder, rounds=5)
    stop = session.training.parts.stop

    def stop_after_four(round_: Round) -> None:
        if round_.number == 4:
            stop.signal = 2

    with pytest.raises(Stopped):
        session.run(stop_after_four)
    return folder


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    """A copy to be damaged, which still has a round to go."""
    folder = tmp_path / "run"
    shutil.copytree(made, folder)
    return folder


def newest(run: Path) -> Path:
    return checkpoints_in(run / "checkpoints")[0]


def same(checkpoint: Checkpoint, files: dict, manifest: dict) -> bool:
    """Whether a checkpoint has exactly these arrays and this manifest."""
    pairs = [(checkpoint.files[f][k], files[f][k]) for f in files for k in files[f]]
    arrays = all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in pairs)
    return arrays and checkpoint.manifest == manifest


def refusals(path: Path, damaged: Iterator[bytes]) -> Iterator[str]:
    """Yield the error for each damaged version of a checkpoint's file."""
    whole = load_checkpoint(path.parent)
    for data in damaged:
        path.write_bytes(data)
        try:
            files, manifest = load_checkpoint(path.parent)
        except ArrayFileError as error:
            yield str(error)
        else:  # only white space, which JSON ignores
            assert path.name == "manifest.json"
            assert same(Checkpoint(path, files, manifest, []), *whole)


def flipped(data: bytes) -> Iterator[bytes]:
    for i in range(len(data)):
        yield data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :]


@pytest.mark.shows("F4")
@pytest.mark.parametrize("name", NAMES)
def test_a_file_truncated_at_any_length_is_refused_in_one_line(
    name: str, run: Path
) -> None:
    path = newest(run) / name
    data = path.read_bytes()

    messages = list(refusals(path, (data[:length] for length in range(len(data)))))

    assert len(messages) == len(data)
    assert all(line.startswith(str(path)) and "\n" not in line for line in messages)


@pytest.mark.shows("F4")
@pytest.mark.parametrize("name", NAMES)
def test_a_file_with_any_byte_damaged_is_refused_in_one_line(name: str, run: Path) -> None:
    path = newest(run) / name
    data = path.read_bytes()

    messages = list(refusals(path, flipped(data)))

    spaces = data.count(b" ") + data.count(b"\n") if name == "manifest.json" else 0
    assert len(messages) >= len(data) - spaces
    assert all(str(path.parent) in line and "\n" not in line for line in messages)


@pytest.mark.parametrize("name", NAMES)
def test_the_checkpoint_before_a_damaged_one_is_used_and_both_are_named(
    name: str, run: Path
) -> None:
    path = newest(run) / name
    path.write_bytes(path.read_bytes()[:-1] + b"!")

    checkpoint = newest_whole(run / "checkpoints")

    assert checkpoint.path.name == "ckpt-3"
    (line,) = checkpoint.warnings
    assert str(path) in line
    assert line.endswith("ckpt-3 is used instead.")


def rewrite(path: Path, change: Callable[[dict], object]) -> None:
    """Change a manifest, and update its sum."""
    manifest = json.loads((path / "manifest.json").read_text())
    change(manifest)
    manifest["sum"] = sum_of_manifest(manifest)
    (path / "manifest.json").write_text(json.dumps(manifest))


WRONG = {
    "no rows": lambda m: m.pop("rows"),
    "rows are a list": lambda m: m.update(rows=["a"]),
    "rows of others": lambda m: m.update(rows={"7": "a"}),
    "the round is true": lambda m: m.update(round=True),
    "another round": lambda m: m.update(round=3),
    "no files": lambda m: m.update(files={}),
    "files are a list": lambda m: m.update(files=[]),
    "first is negative": lambda m: m.update(first=-1),
    "a file too many": lambda m: m["files"].update(
        {"agent-7.safetensors": m["files"]["agent-0.safetensors"]}
    ),
    "a huge size": lambda m: m["files"]["actor.safetensors"].__setitem__(0, 2**60),
    "a negative size": lambda m: m["files"]["actor.safetensors"].__setitem__(0, -1),
    "a size that is no number": lambda m: m["files"].update(
        {"actor.safetensors": [None, "0" * 64]}
    ),
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_a_forged_manifest_is_refused_in_one_line(
    change: Callable[[dict], object], run: Path
) -> None:
    rewrite(newest(run), change)
    (run / "checkpoints" / "ckpt-3").rename(run / "aside")
    opened = Run(run)

    with pytest.raises(ArrayFileError, match="no checkpoint can be used: ") as error:
        Session(opened.entry, resumed_config(opened), run, resume=True)

    assert "\n" not in str(error.value)
    assert "ckpt-4" in str(error.value) or "does not fit this run" in str(error.value)


def resume(run: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rookery", "resume", str(run)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100)


def test_the_command_line_prints_one_line_and_ends_with_code_2(run: Path) -> None:
    for path in checkpoints_in(run / "checkpoints"):
        (path / "manifest.json").write_text(TORN)

    ended = resume(run)

    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith("error: no checkpoint can be used: ")
    assert "ckpt-4/manifest.json is damaged" in line


def test_the_command_line_resumes_from_the_checkpoint_before_and_warns(run: Path) -> None:
    (newest(run) / "actor.safetensors").write_bytes(b"")

    ended = resume(run)

    assert ended.returncode == 0
    (line,) = [x for x in ended.stderr.splitlines() if "used instead" in x]
    assert line.startswith("warning: ")
    assert "ckpt-4/actor.safetensors is damaged" in line
    assert line.endswith("ckpt-3 is used instead.")
    assert "Traceback" not in ended.stderr
    assert newest(run).name == "ckpt-5"


def test_a_damaged_last_checkpoint_is_written_again_before_memory_on_disk_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as killed:  # after saving, with the memory still on disk
        killed.setattr(Session, "_delete_memory", lambda session: None)
        train(tmp_path / "run", storage="disk")
    last = newest(tmp_path / "run")
    (last / "actor.safetensors").write_bytes(b"nothing")

    rookery.resume(tmp_path / "run")

    assert is_whole(last)
    assert not (tmp_path / "run" / "memory").exists()
