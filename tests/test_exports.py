"""One agent alone: out of a run into a file, and from there into another run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import rookery
from rookery.checkpoints import CheckpointError
from rookery.errors import ConfigError
from rookery.exports import export_agent, read_agent

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


def test_a_whole_agent_goes_on_with_its_counts_and_moments(
    run: rookery.Run, tmp_path: Path
) -> None:
    file = tmp_path / "agent.safetensors"
    export_agent(run, "1", file, weights_only=False)

    found = read_agent(file)

    assert found.is_whole
    assert found.arrays["counters"][0] > 0
    assert any(name.startswith("target.") for name in found.arrays)


def test_an_agent_of_another_shape_is_refused(run: rookery.Run, tmp_path: Path) -> None:
    file = tmp_path / "agent.safetensors"
    export_agent(run, "0", file, weights_only=True)

    with pytest.raises(ConfigError, match=r"cannot start from .*see or can do differs"):
        rookery.train(
            "gathering", run=tmp_path / "a", rounds=1, agents={"0": {"from": str(file)}}
        )
    with pytest.raises(ConfigError, match="another shape; use the same settings"):
        rookery.train(
            "treasurehunt",
            run=tmp_path / "b",
            **QUICK | {"network.width": 21},
            agents={"0": {"from": str(file)}},
        )


def test_a_file_that_holds_no_agent_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file.safetensors"
    save_file({"weights.a": np.zeros(2)}, file)
    with pytest.raises(
        CheckpointError, match="holds no agent: make it with rookery export"
    ):
        read_agent(file)

    file.write_bytes(b"nothing of the kind")
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_agent(file)


def test_no_such_agent_is_told_with_those_there_are(
    run: rookery.Run, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="no trained agent '7'"):
        export_agent(run, "7", tmp_path / "file", weights_only=True)
