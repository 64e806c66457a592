"""A copy of a run's folder can be continued from at any moment; nothing leads out of it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from rookery.runs.log import EVENTS, METRICS, SAVED, read_lines
from rookery.runs.run import Run
from rookery.runs.session import Session
from rookery.storage.checkpoints import Ownership, checkpoints_in, number_of
from rookery.storage.files import replace_whole
from rookery.sweeps import transfer
from rookery.sweeps.transfer import Changes, Follower, Piece, Refused, apply
from rookery.training import training
from tests.small import GAME, session_of

OWNER = Ownership()
EVALUATED = {"evaluate.every_rounds": 2, "evaluate.episodes": 2}


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith("claim-")
    }


@pytest.fixture(scope="module")
def updates(tmp_path_factory: pytest.TempPathFactory) -> list[Changes]:
    """What a run has changed from each of its rounds to the next, and at its end."""
    folder = tmp_path_factory.mktemp("run") / "run"
    follower = Follower(folder)
    session = session_of(folder, **EVALUATED)
    found = []
    session.run(lambda _: found.append(follower.changes()))
    return [*found, follower.changes()]


def test_a_copy_has_everything_but_claims_and_only_what_is_new_is_sent(
    tmp_path: Path,
) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    follower = Follower(tmp_path / "run")
    session = session_of(tmp_path / "run")

    session.run(lambda _: apply(copy, follower.changes(), OWNER))
    last = follower.changes()
    apply(copy, last, OWNER)

    assert files_of(copy) == files_of(tmp_path / "run")
    assert not list(copy.glob("claim-*"))
    assert {piece.path for piece in last.pieces if piece.start == 0} <= {
        piece.path for piece in last.pieces if piece.path.startswith(("weights", "check"))
    }
    assert follower.changes() == Changes([], [])


def test_wherever_a_copy_is_interrupted_the_run_is_continued_from_it_exactly(
    updates: list[Changes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = session_of(tmp_path / "reference", **EVALUATED)
    reference.run(lambda _: None)
    expected = Run(tmp_path / "reference").digest()["run"]
    resumed = set()
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # no power fails here
    for interrupted_at in range(200):
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        if not apply_until(interrupted_at, updates, copy, monkeypatch):
            break
        saved = [number_of(path) for path in checkpoints_in(copy / "checkpoints")]
        state = (max(saved, default=0), len(read_lines(copy / METRICS)))
        has_told = any(x["event"] == SAVED for x in read_lines(copy / EVENTS))
        assert saved or not has_told
        assert state[1] >= state[0]  # no round is missing in the log
        if state not in resumed and (copy / "config.toml").exists():
            resumed.add(state)
            session = Session(reference_entry(), reference.config, copy, resume=None)
            session.run(lambda _: None)
            assert Run(copy).digest()["run"] == expected
            assert [x["round"] for x in read_lines(copy / METRICS)] == [1, 2, 3, 4]
    else:
        pytest.fail("it was never complete")
    assert len(resumed) > 4


def reference_entry() -> object:
    from rookery.games.registry import find

    return find(GAME)


def apply_until(
    writes: int, updates: list[Changes], copy: Path, monkeypatch: pytest.MonkeyPatch
) -> bool:
    """Apply updates until so many writes are done; return whether they were not all."""
    left = iter(range(writes))

    def counted(function: object) -> object:
        def call(*arguments: object) -> object:
            if next(left, None) is None:
                raise KeyboardInterrupt
            return function(*arguments)

        return call

    with monkeypatch.context() as patch:
        for name in ("append_whole", "replace_whole", "write_whole", "rename_durably"):
            patch.setattr(transfer, name, counted(getattr(transfer, name)))
        try:
            for update in updates:
                apply(copy, update, OWNER)
        except KeyboardInterrupt:
            return True
    return False


@pytest.mark.parametrize(
    "path",
    [
        "../outside",
        "/tmp/outside",
        "a/../../outside",
        "a//b",
        "./a",
        "",
        "a\0b",
        "claim-7",
        "memory/states",
        ".hidden",
        "checkpoints/ckpt-1",
        "checkpoints/other/manifest.json",
        "checkpoints/ckpt-1/code.py",
        "checkpoints/ckpt-1/../../../outside",
        "link/inside",
        "linked.json",
    ],
)
@pytest.mark.parametrize("is_gone", [False, True])
def test_what_does_not_belong_into_a_run_is_refused_and_nothing_is_written(
    path: str, is_gone: bool, tmp_path: Path
) -> None:
    folder, outside = tmp_path / "run", tmp_path / "elsewhere"
    outside.mkdir()
    (outside / "inside").write_text("kept")
    folder.mkdir()
    (folder / "link").symlink_to(outside)
    (folder / "linked.json").symlink_to(outside / "inside")
    before = files_of(tmp_path)
    good = Piece("good.json", 0, b"{}")
    changes = Changes([good], [path]) if is_gone else Changes([good, Piece(path, 0, b"x")])

    with pytest.raises(Refused, match=r"has arrived, which is no file of|is a link"):
        apply(folder, changes, OWNER)

    assert files_of(tmp_path) == before


def test_bytes_that_do_not_continue_a_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / METRICS).write_text("abc")

    with pytest.raises(Refused, match="do not continue it"):
        apply(tmp_path, Changes([Piece(METRICS, 2, b"d")]), OWNER)

    assert (tmp_path / METRICS).read_text() == "abc"


def test_half_a_line_is_sent_when_it_is_whole(tmp_path: Path) -> None:
    follower, file = Follower(tmp_path), tmp_path / METRICS
    file.write_bytes(b"one\ntw")
    assert follower.changes().pieces == [Piece(METRICS, 0, b"one\n")]

    with file.open("ab") as log:
        log.write(b"o\n")

    assert follower.changes().pieces == [Piece(METRICS, 4, b"two\n")]


def test_a_log_that_was_cut_is_sent_again(tmp_path: Path) -> None:
    follower, file = Follower(tmp_path), tmp_path / METRICS
    file.write_bytes(b"one\ntwo\n")
    follower.changes()

    replace_whole(file, b"one\n")

    assert follower.changes().pieces == [Piece(METRICS, 0, b"one\n")]


def test_memory_files_stay_where_they_are() -> None:
    assert transfer.MEMORY == training.MEMORY
