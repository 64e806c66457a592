"""One agent in a file: exported from a run, and used in another run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import rookery
from rookery.errors import ArrayFileError, ConfigError
from rookery.replay.buffer import ReplayReader, ReplayWriter
from rookery.replay.rows import Rows
from rookery.runs.agent_files import export_agent, read_agent
from rookery.shm.block import Block
from rookery.specs import AgentSpec, Part
from rookery.training.training import Round
from tests.scenarios.conftest import session_of

QUICK = {
    "rounds": 3,
    "turns_per_round": 10,
    "worlds": 2,
    "updates_per_round": 2,
    "batch_size": 8,
    "replay.warmup": 8,
    "network.width": 20,
    "game.turns": 10,
    "workers": 0,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> rookery.Run:
    folder = tmp_path_factory.mktemp("runs") / "run"
    return rookery.train("treasurehunt", run=folder, **QUICK)


def weights(run: rookery.Run, agent: int) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in run.players()[agent].named.items()}


@pytest.mark.parametrize("weights_only", [False, True])
def test_an_agent_from_a_file_starts_with_the_weights_it_had(
    run: rookery.Run, tmp_path: Path, weights_only: bool
) -> None:
    file = tmp_path / "agent.safetensors"
    export_agent(run, "1", file, weights_only)

    other = rookery.train(
        "treasurehunt",
        run=tmp_path / "other",
        **QUICK | {"rounds": 1, "updates_per_round": 0},
        agents={"0": {"from": str(file)}},
    )

    assert weights(other, 0) == weights(run, 1)
    assert weights(other, 2) != weights(run, 1)


def test_an_agent_with_its_state_keeps_its_counters_and_moments(
    run: rookery.Run, tmp_path: Path
) -> None:
    file = tmp_path / "agent.safetensors"
    export_agent(run, "1", file, weights_only=False)

    exported = read_agent(file)

    assert exported.has_state
    assert exported.arrays["counters"][0] > 0
    assert any(name.startswith("target.") for name in exported.arrays)


def test_an_agent_of_another_shape_is_refused(run: rookery.Run, tmp_path: Path) -> None:
    file = tmp_path / "agent.safetensors"
    export_agent(run, "0", file, weights_only=True)

    with pytest.raises(
        ConfigError, match=r"cannot start from .*observations or actions differ"
    ):
        rookery.train(
            "gathering", run=tmp_path / "a", rounds=1, agents={"0": {"from": str(file)}}
        )
    with pytest.raises(
        ConfigError, match=r"network\.width is 21 here and 20 there; use the same settings"
    ):
        rookery.train(
            "treasurehunt",
            run=tmp_path / "b",
            **QUICK | {"network.width": 21},
            agents={"0": {"from": str(file)}},
        )


def test_a_file_without_an_agent_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file.safetensors"
    save_file({"weights.a": np.zeros(2)}, file)
    with pytest.raises(ArrayFileError, match="does not contain an agent: create it with"):
        read_agent(file)

    file.write_bytes(b"nothing of the kind")
    with pytest.raises(ArrayFileError, match="cannot be read"):
        read_agent(file)


def test_an_unknown_agent_is_refused(run: rookery.Run, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no trained agent '7'"):
        export_agent(run, "7", tmp_path / "file", weights_only=True)


@pytest.mark.parametrize("kind", ["uniform", "prioritised"])
def test_an_agent_exported_with_its_replay_learns_from_it_at_once(
    run: rookery.Run, tmp_path: Path, kind: str
) -> None:
    file = tmp_path / "agent.safetensors"
    export_agent(run, "1", file, weights_only=True, with_replay=True)
    settings = {**QUICK, "rounds": 1, "replay.kind": kind, "replay.warmup": 30}

    other = rookery.train(
        "treasurehunt",
        run=tmp_path / "other",
        **settings,
        agents={"0": {"from": str(file)}},
    )

    # The warm-up of 30 transitions is longer than round 1 of the new run.
    updates = other.metrics().set_index("agent")["updates"]
    assert updates["0"] == QUICK["updates_per_round"]
    assert updates["1"] == 0


@pytest.mark.parametrize("stops", [1, 2])
def test_a_run_with_an_exported_replay_ends_with_the_same_bits_when_resumed(
    run: rookery.Run, tmp_path: Path, stops: int
) -> None:
    file = tmp_path / "agent.safetensors"
    export_agent(run, "1", file, weights_only=False, with_replay=True)
    settings = {**QUICK, "replay.kind": "prioritised", "agents": {"0": {"from": str(file)}}}
    whole = rookery.train("treasurehunt", run=tmp_path / "whole", **settings)
    session = session_of("treasurehunt", tmp_path / "broken", **settings)

    def stop(result: Round) -> None:
        if result.number == stops:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        session.run(stop)

    broken = rookery.resume(tmp_path / "broken")
    assert broken.digest() == whole.digest()
    without = rookery.train(
        "treasurehunt", run=tmp_path / "without", **{**settings, "agents": {}}
    )
    assert without.digest()["agents"]["0"] != whole.digest()["agents"]["0"]


def test_a_run_killed_before_its_first_round_still_starts_from_its_origins(
    run: rookery.Run, tmp_path: Path
) -> None:
    file = tmp_path / "agent.safetensors"
    export_agent(run, "1", file, weights_only=False, with_replay=True)
    agents = {"0": {"from": str(file)}, "2": {"from": str(file), "learning": False}}
    settings = {**QUICK, "agents": agents}
    whole = rookery.train("treasurehunt", run=tmp_path / "whole", **settings)
    session = session_of("treasurehunt", tmp_path / "broken", **settings, storage="disk")
    session.training.close()  # as if it had been killed
    session._claim.close()

    broken = rookery.resume(tmp_path / "broken")

    assert broken.digest() == whole.digest()


def test_a_replay_of_another_number_of_worlds_is_refused(
    run: rookery.Run, tmp_path: Path
) -> None:
    file = tmp_path / "agent.safetensors"
    export_agent(run, "1", file, weights_only=True, with_replay=True)

    with pytest.raises(ConfigError, match=r"do not fit this game with worlds=3; use the"):
        rookery.train(
            "treasurehunt",
            run=tmp_path / "other",
            **{**QUICK, "worlds": 3},
            agents={"0": {"from": str(file)}},
        )


def test_no_transition_spans_the_old_run_and_the_new_one() -> None:
    spec = AgentSpec("a", "a", {"spot": Part((1,), np.dtype(np.float32))}, ("x", "y"))
    old, new = (Rows(Block.create(Rows.layout(spec, 2, 12))) for _ in range(2))
    for rows in (old, new):
        writer = ReplayWriter(rows)
        for turn in range(5):
            # World 1 starts an episode in turn 4; world 0 has one that stays open.
            age = np.array([turn, turn % 4], np.int32)
            observation = {"spot": np.full((2, 1), turn, np.float32)}
            writer.write_observation(
                turn, observation, np.array([True, turn % 4 < 3]), None, age
            )
            writer.write_action(turn, np.zeros(2, np.int32), 1.0, 0)
            ended = np.array([False, turn % 4 == 2])
            writer.write_outcome(turn, np.ones(2, np.float32), ended, np.zeros(2, bool))

    first = new.prepend(old.raw(range(5)))
    reader = ReplayReader(
        "a", new, capacity=20, frames=1, n_step=2, discount=0.5, first=first
    )
    reader.advance(0)
    before = reader.usable.copy()
    reader.advance(5)

    assert first == -5
    turns, worlds = reader.opening(before)
    assert sorted(zip(worlds.tolist(), turns.tolist(), strict=True)) == [
        *((0, turn) for turn in (-5, -4, -3, -2)),
        *((1, turn) for turn in (-5, -4, -3)),
    ]
    closes = reader.closes(before[worlds == 0]) - turns[worlds == 0]
    assert closes.tolist() == [2, 2, 2, 1]
    assert set(before) <= set(reader.usable)
    assert len(set(reader.usable)) == len(reader.usable)
