"""`rookery.load_agent` and `rookery.export`: one trained agent by itself."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import rookery
from rookery.cli.app import main
from rookery.runs.agent_files import KIND, read_agent
from rookery.storage.arrays import read_arrays
from tests.paths import GAME_FILES, RUN_FIXTURES

QUICK = {
    "rounds": 4,
    "turns_per_round": 10,
    "worlds": 4,
    "updates_per_round": 2,
    "batch_size": 8,
    "replay.warmup": 16,
    "network.width": 16,
    "frames": 2,
    "workers": 0,
    "checkpoints.weights_every_rounds": 2,
}
ZOO = "pettingzoo:pettingzoo.classic.rps_v2"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> rookery.Run:
    folder = tmp_path_factory.mktemp("runs") / "run"
    return rookery.train("harvest", run=folder, **QUICK, game={"turns": 10})


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "foreign"
    rookery.train(ZOO, run=folder, **QUICK)
    return folder


@pytest.fixture
def file(run: rookery.Run, tmp_path: Path) -> Path:
    return rookery.export(run, 1, tmp_path / "agent.safetensors")


def view(agent: rookery.TrainedAgent, seed: int = 0) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    return {
        name: random.integers(0, 2, part.shape).astype(part.dtype)
        for name, part in agent.spec.parts.items()
    }


def test_an_agent_of_a_run_and_of_a_file_are_the_same(run: rookery.Run, file: Path) -> None:
    agents = [run.players()[1], rookery.load_agent(run.path, 1), rookery.load_agent(file)]
    seen = view(agents[0])

    assert len({agent.values(seen).tobytes() for agent in agents}) == 1
    assert {repr(agent) for agent in agents} == {
        "TrainedAgent(harvest, agent 1, iqn, round 4)"
    }
    assert all(agent.spec == agents[0].spec for agent in agents)


def test_an_earlier_round_can_be_loaded(run: rookery.Run) -> None:
    early, late = rookery.load_agent(run.path, 0, 2), rookery.load_agent(run.path, "0")

    assert (early.round, late.round) == (2, 4)
    assert (early.values(view(early)) != late.values(view(late))).any()


F1 = {
    "a number": lambda seen: {"view": 1},
    "a shape that could be broadcast": lambda seen: {"view": np.ones((1, 1, 1))},
    "floats": lambda seen: {"view": np.full(seen.shape, 0.7)},
    "NaN": lambda seen: {"view": np.full(seen.shape, np.nan)},
    "negative numbers": lambda seen: {"view": np.full(seen.shape, -1)},
    "no part": lambda seen: {},
    "a wrong name": lambda seen: {"sight": seen},
    "another shape": lambda seen: {"view": seen[:, :4]},
    "no name": lambda seen: seen,
}


@pytest.mark.shows("B8")
@pytest.mark.parametrize("method", ["act", "values", "probabilities"])
@pytest.mark.parametrize("wrong", F1.values(), ids=F1)
def test_every_wrong_observation_is_refused_in_one_line(
    run: rookery.Run, wrong: Any, method: str
) -> None:
    agent = run.players()[0]
    ask, seen = getattr(agent, method), view(agent)

    with pytest.raises(rookery.ObservationError, match=r"agent '0' of harvest: .*expected"):
        ask(wrong(seen["view"]))
    ask(seen)


def test_the_own_observation_of_a_foreign_game_is_encoded(foreign: Path) -> None:
    agent = rookery.load_agent(foreign, "player_0")
    one_hot = {"vector": np.array([0, 0, 0, 1], np.uint8)}

    for own in (3, np.array(3), np.array([3, 3])):
        expected = agent.values(one_hot)
        assert (agent.values(own) == expected).all()
    with pytest.raises(
        rookery.ObservationError,
        match=r"part 'vector' is \(\) int64, expected \(4,\) uint8",
    ):
        agent.act({"vector": np.array(3)})


def test_an_agent_plays_a_foreign_game_by_its_own_rules(foreign: Path) -> None:
    from pettingzoo.classic import rps_v2

    game = rps_v2.parallel_env(max_cycles=5)
    agents = {name: rookery.load_agent(foreign, name) for name in game.possible_agents}
    observations, _ = game.reset(seed=1)
    turns = 0
    while game.agents:
        actions = {name: agents[name].act(observations[name]) for name in game.agents}
        observations, *_ = game.step(actions)
        turns += 1

    assert turns == 5


def test_a_foreign_agent_is_loaded_without_its_game(foreign: Path, tmp_path: Path) -> None:
    """Neither the run nor the exported file imports PettingZoo or Gymnasium."""
    file = rookery.export(foreign, "player_1", tmp_path / "agent.safetensors")
    code = (
        "import json, sys, rookery\n"
        "sys.modules['pettingzoo'] = sys.modules['gymnasium'] = None\n"
        "run, file = sys.argv[1:]\n"
        "agents = [rookery.load_agent(run, 'player_1'), rookery.load_agent(file)]\n"
        "print(json.dumps([agent.values(2).tolist() for agent in agents]))\n"
    )
    command = [sys.executable, "-c", code, str(foreign), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)

    expected = rookery.Run(foreign, ZOO).players()["player_1"].values(2).tolist()
    assert json.loads(done.stdout) == [expected, expected]


def test_actions_are_numbered_as_in_the_foreign_game(tmp_path: Path) -> None:
    mortal = f"pettingzoo:{GAME_FILES / 'zoo.py'}:mortal"
    rookery.train(mortal, run=tmp_path / "run", **QUICK)
    agent = rookery.load_agent(tmp_path / "run", "ant_0")
    own = {"place": np.zeros(3), "clock": np.array([1], np.uint8)}
    agent.exploration = 1.0

    actions = {agent.act(own) for _ in range(40)}

    assert actions == {2, 3, 4}


def test_agents_in_a_game_that_was_not_built_in_need_no_code(tmp_path: Path) -> None:
    copy = tmp_path / "rooms.py"
    shutil.copy(GAME_FILES / "rooms.py", copy)
    rookery.train(f"{copy}:Rooms", run=tmp_path / "run", game={"agents": 2}, **QUICK)
    copy.unlink()

    agent = rookery.load_agent(tmp_path / "run", 1)

    assert 0 <= int(agent.act(view(agent))) < agent.spec.num_actions


def test_a_run_of_an_earlier_version_opens(tmp_path: Path) -> None:
    agent = rookery.load_agent(RUN_FIXTURES / "began", 1)

    assert 0 <= int(agent.act(view(agent))) < agent.spec.num_actions


def test_an_agent_must_be_named_where_there_are_several(run: rookery.Run) -> None:
    with pytest.raises(
        rookery.ConfigError,
        match=r"has the agents 0, 1, 2.*: name one, such as load_agent\(",
    ):
        rookery.load_agent(run.path)
    with pytest.raises(rookery.ConfigError, match="no trained agent '9'"):
        rookery.load_agent(run.path, 9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"id": 0}, "has agent 1, not 0: leave it out, or name the run"),
        ({"round": 2}, "has round 4, not 2: leave it out, or name the run"),
        ({"exploration": 1.5}, "exploration is 1.5, expected a number from 0 to 1"),
    ],
)
def test_what_a_file_does_not_have_is_refused(
    file: Path, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(rookery.ConfigError, match=message):
        rookery.load_agent(file, **arguments)


def test_neither_a_run_nor_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(rookery.ConfigError, match="is not a run: no such folder"):
        rookery.load_agent(tmp_path / "missing")


def test_a_file_of_an_earlier_version_says_what_to_do(file: Path) -> None:
    exported = read_agent(file)
    metadata = {"kind": KIND, "algorithm": exported.algorithm, "shape": exported.shape}
    save_file(exported.arrays, file, metadata)

    with pytest.raises(
        rookery.RookeryError, match=r"earlier version.*: export it again, or"
    ):
        rookery.load_agent(file)
    assert read_agent(file).has_state  # other runs can still start from it


# Export.


def test_export_replaces_a_file_only_if_told_to(
    run: rookery.Run, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = file.read_bytes()

    with pytest.raises(
        rookery.ConfigError, match="exists already: choose another name, or replace it with"
    ):
        rookery.export(run, 0, file)
    with pytest.raises(SystemExit) as refused:
        main(["export", str(run.path), "0", str(file)])
    assert refused.value.code == 2
    assert "exists already" in capsys.readouterr().err
    assert file.read_bytes() == before

    with pytest.raises(SystemExit) as done:
        main(["export", str(run.path), "0", str(file), "--force"])
    assert done.value.code == 0
    assert rookery.load_agent(file).id == "0"
    rookery.export(run, 2, file, force=True)
    assert rookery.load_agent(file).id == "2"


@pytest.mark.parametrize("options", [{"weights_only": True}, {"replay": True}])
def test_what_only_learning_needs_makes_no_difference(
    run: rookery.Run, file: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    other = rookery.export(run, 1, tmp_path / "other", **options)

    agents = [rookery.load_agent(path) for path in (file, other)]

    assert len({agent.values(view(agent)).tobytes() for agent in agents}) == 1


# Checksums.


def flip(path: Path) -> None:
    """Change one bit of the last array."""
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)


def test_a_changed_bit_in_a_file_is_found(file: Path) -> None:
    flip(file)

    with pytest.raises(
        rookery.RookeryError,
        match=r"cannot be read .its checksum does not match its content",
    ):
        rookery.load_agent(file)


def test_a_changed_bit_in_the_weights_of_a_run_is_found(
    run: rookery.Run, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(run.path, tmp_path / "copy"))
    weights = copy / "weights" / "round-4.safetensors"
    flip(weights)

    with pytest.raises(rookery.RookeryError, match=r"round-4\.safetensors .*its checksum"):
        rookery.load_agent(copy, 0)
    rookery.load_agent(copy, 0, round=2)
    arrays, _ = read_arrays(run.path / "weights" / "round-4.safetensors", 2**30)
    save_file(arrays, weights)  # as earlier versions wrote them
    rookery.load_agent(copy, 0)


def test_changed_agents_in_a_run_are_found(foreign: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(foreign, tmp_path / "copy"))
    path = copy / "agents.json"
    path.write_text(path.read_text().replace('"one_hot"', '"array"'))

    with pytest.raises(
        rookery.RookeryError, match=r"agents\.json cannot be read .its checksum does not"
    ):
        rookery.load_agent(copy, "player_0")


# Weights that do not fit.


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"frames": 5}, "frames is 5 here and 2 there; use the same settings"),
        (
            {"network.width": 24, "network.depth": 2},
            r"network\.width is 24 here and 16 there and network\.depth is 2 here and 1 ",
        ),
        ({"iqn.dueling": False}, r"iqn\.dueling is false here and true there"),
        ({"algorithm": "dqn"}, "algorithm is 'dqn' here and 'iqn' there"),
        (
            {"algorithm": "recurrent_ppo"},
            "algorithm is 'recurrent_ppo' here and 'iqn' there; use the same settings",
        ),
    ],
)
@pytest.mark.parametrize("source", ["file", "run"])
def test_the_setting_that_differs_is_named_with_both_values(
    run: rookery.Run,
    file: Path,
    tmp_path: Path,
    source: str,
    change: dict[str, Any],
    message: str,
) -> None:
    origin = str(file) if source == "file" else f"{run.path}:1"

    with pytest.raises(
        rookery.ConfigError, match=f"agent '0' cannot load the weights of .*: {message}"
    ):
        rookery.train(
            "harvest",
            run=tmp_path / "new",
            **QUICK | change,
            agents={"0": {"from": origin}},
        )
    assert not (tmp_path / "new").exists()


def test_without_recorded_settings_the_shapes_are_named(file: Path, tmp_path: Path) -> None:
    exported = read_agent(file)
    metadata = {"kind": KIND, "algorithm": exported.algorithm, "shape": exported.shape}
    save_file(exported.arrays, file, metadata)

    with pytest.raises(
        rookery.ConfigError, match=r"'read\.0\.weight' is \(\d+, 16\) here and \(\d+, 16\) "
    ):
        rookery.train(
            "harvest",
            run=tmp_path / "new",
            **QUICK | {"frames": 3},
            agents={"0": {"from": str(file)}},
        )
