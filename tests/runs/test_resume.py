"""Resuming: a run that was interrupted ends with the bits of one that was not."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

import rookery
from rookery.errors import ArrayFileError, ConfigError, GameError
from rookery.protocol.arena import MATCHES
from rookery.runs.claim import Claim
from rookery.runs.configure import configure
from rookery.runs.log import read_lines
from rookery.runs.resume import resumed_config
from rookery.runs.run import Run
from rookery.runs.session import Session
from rookery.shm.block import MemoryRefused
from rookery.shm.versions import VersionedState
from rookery.stop import StopFlag, Stopped
from rookery.storage.checkpoints import (
    checkpoints_in,
    load_checkpoint,
    sum_of_manifest,
)
from rookery.training.training import Round
from tests import small

HUNT = {
    "rounds": 9,
    "turns_per_round": 10,
    "worlds": 3,
    "updates_per_round": 3,
    "batch_size": 8,
    "frames": 3,
    "replay.warmup": 16,
    "replay.capacity": 90,  # so that it wraps around
    "replay.kind": "prioritised",
    "reward.standardise": True,
    "network.width": 23,
    "game.turns": 14,
    "workers": 0,
    "evaluate.every_rounds": 2,
}
MIXED = {
    **HUNT,
    "replay.kind": "uniform",
    "agents": {"1": {"algorithm": "ppo"}, "2": {"player": "forager"}},
}
SPREAD = {
    key: value for key, value in MIXED.items() if key not in ("game.turns", "agents")
} | {"game.max_cycles": 7}
MATRIX = {
    key: value for key, value in MIXED.items() if key not in ("agents", "network.width")
} | {"algorithm": "tabular"}
CASES = {
    "a table": ("iterated_prisoners_dilemma", MATRIX),
    "prioritised": ("treasurehunt", HUNT),
    "mixed": ("treasurehunt", MIXED),
    "a foreign game": ("pettingzoo:mpe2.simple_spread_v3", SPREAD),
}


class StopAt:
    """Asks a run to stop after some rounds."""

    def __init__(self, rounds: int) -> None:
        self.flag, self._rounds = StopFlag(), rounds

    def show(self, result: Round) -> None:
        if result.number >= self._rounds:
            self.flag.signal = 2


def train(path: Path, game: str, settings: dict, until: int | None = None) -> Run:
    """Train a run, and stop it after some rounds if asked to."""
    entry, config = configure(game, settings=settings)
    path.mkdir()
    stop = StopAt(until or config.rounds + 1)
    session = Session(entry, config, path, stop.flag)
    if until is None:
        session.run(stop.show)
    else:
        with pytest.raises(Stopped):
            session.run(stop.show)
    return Run(path, game)


def resume(run: Run, until: int | None = None, overrides: tuple[str, ...] = ()) -> Session:
    """Resume a run, and stop it again after some rounds if asked to."""
    stop = StopAt(until or 10**9)
    session = Session(
        run.entry, resumed_config(run, overrides), run.path, stop.flag, resume=True
    )
    if until is None:
        session.run(stop.show)
    else:
        with pytest.raises(Stopped):
            session.run(stop.show)
    return session


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("unbroken")
    return {
        name: train(folder / name.replace(" ", "-"), game, settings)
        for name, (game, settings) in CASES.items()
    }


@pytest.fixture
def stopped(tmp_path: Path) -> Run:
    return train(tmp_path / "run", "treasurehunt", HUNT, until=4)


def rounds_in(run: Run, name: str) -> list[int]:
    lines = (run.path / name).read_text().splitlines()
    return [json.loads(line)["round"] for line in lines]


@pytest.mark.shows("F4")
@pytest.mark.parametrize("case", CASES)
def test_a_run_stopped_and_resumed_twice_ends_with_the_same_digest(
    case: str, unbroken: dict[str, Run], tmp_path: Path
) -> None:
    game, settings = CASES[case]
    run = train(tmp_path / "run", game, settings, until=3)

    resume(run, until=6)
    resume(run)

    assert run.digest() == unbroken[case].digest()
    assert rounds_in(run, "metrics.jsonl") == list(range(1, 10))
    assert rounds_in(run, "evaluations.jsonl") == [2, 2, 4, 4, 6, 6, 8, 8]


@pytest.mark.shows("F4")
def test_with_memory_on_disk_a_run_continues_from_its_last_complete_round(
    unbroken: dict[str, Run], tmp_path: Path
) -> None:
    settings = HUNT | {"storage": "disk"}
    run = train(tmp_path / "run", "treasurehunt", settings, until=5)
    shutil.rmtree(run.path / "checkpoints")  # as if main had been killed before saving

    session = resume(run)

    assert session.done == 9
    assert run.digest() == unbroken["prioritised"].digest()
    assert not (run.path / "memory").exists()


def test_memory_on_disk_that_does_not_fit_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry, config = configure("treasurehunt", settings=HUNT | {"storage": "disk"})
    (tmp_path / "run").mkdir()
    files, allocate = [], os.posix_fallocate

    def allocate_two(descriptor: int, offset: int, size: int) -> None:
        files.append(descriptor)
        if len(files) > 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        allocate(descriptor, offset, size)

    monkeypatch.setattr(os, "posix_fallocate", allocate_two)
    with pytest.raises(MemoryRefused, match="No space left on device"):
        Session(entry, config, tmp_path / "run")

    assert len(files) == 3
    assert not [*(tmp_path / "run").glob("*memory*")]


@pytest.mark.shows("F5")
def test_memory_left_by_a_process_killed_at_its_very_end_is_deleted(
    tmp_path: Path,
) -> None:
    settings = HUNT | {"storage": "disk"}
    run = train(tmp_path / "run", "treasurehunt", settings)
    (run.path / ".memory").mkdir()
    (run.path / ".memory" / "words").touch()

    resume(run)

    assert not [*run.path.glob("*memory")]


class Killed(BaseException):
    pass


@pytest.mark.parametrize(
    ("name", "line"),
    [("metrics.jsonl", 5), ("episodes.jsonl", 6), ("evaluations.jsonl", 2)],
)
def test_main_killed_while_it_writes_a_line_writes_every_line_once(
    name: str, line: int, unbroken: dict[str, Run], tmp_path: Path
) -> None:
    entry, config = configure("treasurehunt", settings=HUNT | {"storage": "disk"})
    (tmp_path / "run").mkdir()
    session = Session(entry, config, tmp_path / "run")
    write, written = session.log.line, []

    def write_until_killed(file: str, value: dict) -> None:
        written.append(file)
        if written.count(name) == line and file == name:
            raise Killed
        write(file, value)

    session.log.line = write_until_killed
    session._finish = lambda: session.training.close() or session._claim.close()
    with pytest.raises(Killed):
        session.run(lambda result: None)

    resume(run := Run(tmp_path / "run", "treasurehunt"))

    for file in ("episodes.jsonl", "evaluations.jsonl"):
        expected = unbroken["prioritised"].path / file
        assert (run.path / file).read_text() == expected.read_text()
    assert rounds_in(run, "metrics.jsonl") == list(range(1, 10))


def test_weights_that_were_due_when_main_was_killed_are_saved_when_resumed(
    unbroken: dict[str, Run], tmp_path: Path
) -> None:
    settings = HUNT | {"storage": "disk", "checkpoints.weights_every_rounds": 3}
    entry, config = configure("treasurehunt", settings=settings)
    (tmp_path / "run").mkdir()
    session = Session(entry, config, tmp_path / "run")
    save_due = session._checkpointer.save_due

    def save_until_killed(number: int) -> None:
        if number == 3:
            raise Killed
        save_due(number)

    session._checkpointer.save_due = save_until_killed
    session._finish = lambda: session.training.close() or session._claim.close()
    with pytest.raises(Killed):
        session.run(lambda result: None)

    resume(run := Run(tmp_path / "run"))

    assert run.rounds_with_weights == [3, 6, 9]
    assert run.digest() == unbroken["prioritised"].digest()


def test_without_replays_a_run_continues_and_learns_from_new_experience(
    tmp_path: Path,
) -> None:
    settings = HUNT | {"checkpoints.replay": False}
    run = train(tmp_path / "run", "treasurehunt", settings, until=5)

    assert run.digest()["exact"]

    resume(run)

    usable = run.metrics().query("agent == '0'").set_index("round")["usable_steps"]
    assert usable[6] < usable[5]
    assert usable[9] > 0
    assert not run.digest()["exact"]
    assert run.digest()["why"].startswith("it continues without replays")


FEW_ROWS = {
    **HUNT,
    "rounds": 7,
    "schedule": "sync",
    "ppo.passes": 1,
    "vtrace.passes": 1,
    "replay.kind": "uniform",
    "checkpoints.replay": False,
    "evaluate.every_rounds": 0,
    "recurrent.width": 16,
}
WITHOUT_REPLAY = {
    f"{algorithm}, {frames} frames": {"algorithm": algorithm, "frames": frames}
    for algorithm in ("ppo", "vtrace", "recurrent_ppo")
    for frames in (1, 3)
} | {
    "frozen, 5 frames": {"algorithm": "ppo", "frames": 5, "learning": False},
    "pipelined ppo": {"algorithm": "ppo", "schedule": "pipelined"},
}


@pytest.mark.shows("F4")
@pytest.mark.parametrize("case", WITHOUT_REPLAY)
def test_agents_that_have_no_replay_continue_with_the_same_bits_without_replays(
    case: str, tmp_path: Path
) -> None:
    changes = dict(WITHOUT_REPLAY[case])
    agents = {} if changes.pop("learning", True) else {"*": {"learning": False}}
    settings = {**FEW_ROWS, **changes, "agents": agents}
    unbroken = train(tmp_path / "unbroken", "treasurehunt", settings)
    # In the middle of episodes, so that transitions are open and frames are stacked.
    run = train(tmp_path / "run", "treasurehunt", settings, until=4)

    resume(run)

    assert run.digest() == unbroken.digest()
    assert run.digest()["exact"]


def test_a_run_that_is_in_use_is_not_resumed(stopped: Run) -> None:
    lock = Claim(stopped.path)
    with pytest.raises(ConfigError, match=r"is in use by process \d+ on .*: wait until"):
        resume(stopped)
    lock.close()


def test_instead_of_a_damaged_checkpoint_the_one_before_is_used_with_a_warning(
    unbroken: dict[str, Run], tmp_path: Path
) -> None:
    settings = HUNT | {"checkpoints.every_rounds": 2}
    run = train(tmp_path / "run", "treasurehunt", settings, until=5)
    newest = checkpoints_in(run.path / "checkpoints")[0]
    file = newest / "actor.safetensors"
    file.write_bytes(file.read_bytes()[:-1])

    session = resume(run)

    (line,) = session.training.warnings[-1:]
    assert "ckpt-5/actor.safetensors is damaged" in line
    assert line.endswith("ckpt-4 is used instead.")
    assert run.digest() == unbroken["prioritised"].digest()


def test_a_run_without_a_whole_checkpoint_is_refused(stopped: Run) -> None:
    for path in checkpoints_in(stopped.path / "checkpoints"):
        (path / "manifest.json").write_text("{}")

    with pytest.raises(ArrayFileError, match=r"no checkpoint can be used: .*is damaged"):
        resume(stopped)

    shutil.rmtree(stopped.path / "checkpoints")
    with pytest.raises(ArrayFileError, match="no longer has a checkpoint: put one back"):
        resume(stopped)


def test_a_checkpoint_of_other_settings_is_refused(stopped: Run) -> None:
    config = stopped.path / "config.toml"
    config.write_text(config.read_text().replace("width = 23", "width = 24"))
    (stopped.path / "seal.json").unlink()  # which would refuse it before

    with pytest.raises(ArrayFileError, match="does not fit this run: its settings have"):
        resume(Run(stopped.path))


def test_a_checkpoint_with_the_layout_of_another_version_is_refused_as_such(
    stopped: Run,
) -> None:
    for path in checkpoints_in(stopped.path / "checkpoints"):
        manifest = json.loads((path / "manifest.json").read_text()) | {"arithmetic": 1}
        whole = manifest | {"sum": sum_of_manifest(manifest)}
        (path / "manifest.json").write_text(json.dumps(whole))
    config = stopped.path / "config.toml"
    config.write_text(config.read_text().replace("width = 23", "width = 24"))
    (stopped.path / "seal.json").unlink()  # older versions wrote none

    with pytest.raises(ArrayFileError) as raised:
        resume(Run(stopped.path))

    assert str(raised.value).endswith(
        "does not fit this run: another version of Rookery wrote it; resume it with "
        "that version. If that is not possible, delete the run and train it again."
    )


def test_memory_on_disk_of_another_size_is_refused(tmp_path: Path) -> None:
    settings = HUNT | {"storage": "disk"}
    run = train(tmp_path / "run", "treasurehunt", settings, until=3)
    counters = run.path / "memory" / "words"
    counters.write_bytes(counters.read_bytes() + b"more")

    with pytest.raises(MemoryRefused, match=r"words has .* bytes, expected .*delete its"):
        resume(run)


def test_another_version_of_torch_is_reported(stopped: Run) -> None:
    (path,) = checkpoints_in(stopped.path / "checkpoints")
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["torch"] = "1.0"
    manifest["sum"] = sum_of_manifest(manifest)
    (path / "manifest.json").write_text(json.dumps(manifest))

    session = resume(stopped)

    line = session.training.warnings[-1]
    assert line.startswith("it continues from results computed with torch 1.0 (now 2.")
    assert line.endswith("and the run is marked as not exact.")
    assert stopped.digest()["exact"] is False
    assert stopped.digest()["why"] == line


def test_a_finished_run_has_nothing_left_to_do(unbroken: dict[str, Run]) -> None:
    before = unbroken["mixed"].digest()

    session = resume(unbroken["mixed"])

    assert session.done == 9
    assert unbroken["mixed"].digest() == before


def test_a_run_killed_twice_after_memory_was_deleted_continues_both_times(
    unbroken: dict[str, Run], tmp_path: Path
) -> None:
    settings = HUNT | {"storage": "disk"}
    run = train(tmp_path / "run", "treasurehunt", settings, until=5)
    shutil.rmtree(run.path / "memory")
    session = Session(run.entry, run.config, run.path, resume=True)
    session.training.close()  # as if it had been killed
    session._claim.close()

    resume(run)

    assert run.digest() == unbroken["prioritised"].digest()
    assert rounds_in(run, "evaluations.jsonl") == [2, 2, 4, 4, 6, 6, 8, 8]


def played_ahead(path: Path, rounds: int, recorded: int) -> Session:
    """Return a session whose main process has logged some of the rounds played."""
    settings = HUNT | {"rounds": rounds, "evaluate.every_rounds": 1, "storage": "disk"}
    entry, config = configure("treasurehunt", settings=settings)
    path.mkdir()
    session = Session(entry, config, path)
    session.training.executor.start(0)
    for number in range(1, rounds + 1):
        session.training.schedule.open(min(recorded, number - 1))
        session.training.executor.advance(number)
    return session


def test_evaluations_that_main_had_not_logged_are_logged_once(tmp_path: Path) -> None:
    session = played_ahead(tmp_path / "run", rounds=3, recorded=1)
    session.training.executor.finish()
    session.training.close()
    session._claim.close()

    resume(run := Run(tmp_path / "run"))

    assert rounds_in(run, "evaluations.jsonl") == [1, 1, 2, 2, 3, 3]


def test_a_half_written_report_of_an_evaluation_does_not_affect_others(
    tmp_path: Path,
) -> None:
    session = played_ahead(tmp_path / "run", rounds=4, recorded=2)
    arena = session.training.arena
    reports, written = arena.match_reports(), arena.counters.load(MATCHES)
    reports._slots[written % reports.count] = 255
    session.training.close()
    session._claim.close()

    resume(run := Run(tmp_path / "run"))

    assert rounds_in(run, "evaluations.jsonl") == [1, 1, 2, 2, 3, 3, 4, 4]


def test_in_async_agents_that_were_ahead_of_others_continue(tmp_path: Path) -> None:
    settings = HUNT | {"schedule": "async", "storage": "disk", "rounds": 6}
    run = train(tmp_path / "run", "treasurehunt", settings, until=3)
    session = Session(run.entry, run.config, run.path, resume=True)
    states = session.training.arena.states("0")
    for _ in range(2):  # as if its learner had been faster when all were killed
        states.publish(states.version + 1, dict(states.read(states.version)))
    session.training.close()
    session._claim.close()

    assert resume(run).done == 6


def test_in_async_a_checkpoint_is_of_one_boundary_even_if_the_actor_overtakes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = HUNT | {"schedule": "async", "rounds": 4, "checkpoints.every_rounds": 2}
    entry, config = configure("treasurehunt", settings=settings)
    (tmp_path / "run").mkdir()
    stop = StopAt(2)
    session = Session(entry, config, tmp_path / "run", stop.flag)
    training, newest = session.training, VersionedState.newest

    def overtaken(states: VersionedState, names: Sequence[str]) -> tuple[int, dict]:
        if "life/turn" in names and training.schedule.last_opened == 1:
            # while the snapshot is copied
            actor_process = training.executor.now.actor_processes[0]
            actor_process.play_round(3)
            actor_process.complete(3)
        return newest(states, names)

    monkeypatch.setattr(VersionedState, "newest", overtaken)
    with pytest.raises(Stopped):
        session.run(stop.show)

    files, manifest = load_checkpoint(tmp_path / "run" / "checkpoints" / "ckpt-3")
    assert files["actor"]["life/turn"][0] == manifest["round"] * config.turns_per_round


def test_a_line_that_was_cut_off_does_not_hide_later_events(stopped: Run) -> None:
    path = stopped.path / "events.jsonl"
    text = path.read_bytes()
    path.write_bytes(text + b'{"time": 1, "event": "no')

    resume(stopped)

    assert path.read_bytes().startswith(text)
    assert read_lines(path)[-1]["event"] == "end"


def test_a_finished_run_starts_no_process_when_it_is_resumed(tmp_path: Path) -> None:
    run = train(tmp_path / "run", "treasurehunt", HUNT | {"rounds": 2})

    session = resume(run, overrides=("workers=2",))

    assert session.done == 2
    events = (run.path / "events.jsonl").read_text()
    assert '"role": "worker' not in events
    assert rounds_in(run, "evaluations.jsonl") == [2, 2]


def test_a_run_can_be_resumed_from_python(stopped: Run, unbroken: dict[str, Run]) -> None:
    run = rookery.resume(stopped.path)

    assert run.digest() == unbroken["prioritised"].digest()


@pytest.mark.shows("F4")
@pytest.mark.parametrize("stops", [False, True], ids=["at the end", "when stopped"])
def test_a_game_that_cannot_be_closed_costs_no_round(tmp_path: Path, stops: bool) -> None:
    session = small.session_of(tmp_path / "run", **{"checkpoints.every_rounds": 1000})
    closed = []

    def close() -> None:
        closed.append("closed")
        raise ValueError("the window is stuck")

    def show(result: Round) -> None:
        session.training.executor.now.actor_processes[0].game.game.close = close
        if stops and result.number == 3:
            session.training.parts.stop.signal = 2

    with pytest.raises(Stopped if stops else GameError) as raised:
        session.run(show)

    assert stops or "raised in close(): ValueError: the window is stuck" in str(
        raised.value
    )
    assert closed == ["closed"]
    saved = [path.name for path in checkpoints_in(tmp_path / "run" / "checkpoints")]
    assert saved == ["ckpt-3" if stops else "ckpt-4"]


def test_resuming_deletes_what_a_killed_process_had_half_written(tmp_path: Path) -> None:
    folder = small.train(tmp_path / "run", rounds=2).path
    # The id of a process that exists: of another program, or not yet reaped.
    half = f".round-1.safetensors.{os.getppid()}.partial"
    for name in ("recordings", "weights"):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / half).write_bytes(b"half")

    rookery.resume(folder, rounds=3)

    assert [*folder.rglob("*.partial")] == []
