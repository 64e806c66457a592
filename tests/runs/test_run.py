"""A run on disk: its tables, its files and its trained agents."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import rookery
from rookery.api.lineups import seats_of
from rookery.config.run import Config
from tests.paths import GAME_FILES

QUICK = {
    "rounds": 4,
    "turns_per_round": 20,
    "worlds": 4,
    "updates_per_round": 4,
    "batch_size": 16,
    "replay.warmup": 32,
    "replay.capacity": 400,
    "network.width": 16,
    "epsilon.steps": 100,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> rookery.Run:
    folder = tmp_path_factory.mktemp("runs") / "run"
    extra = {"evaluate.every_rounds": 2, "record.every_rounds": 2}
    return rookery.train("gathering", run=folder, **{"game.turns": 15}, **QUICK, **extra)


@pytest.mark.shows("D9")
def test_every_metric_is_logged_per_agent_and_round(run: rookery.Run) -> None:
    table = run.metrics()

    last = table[table["round"] == 4]
    names = [
        "reward",
        "q_value",
        "td_error",
        "entropy",
        "epsilon",
        "loss",
        "gradient_norm",
        "lag",
    ]
    assert len(table) == 4 * 3
    assert last[names].notna().all(axis=None)


def test_episodes_have_returns_and_the_games_own_counts(run: rookery.Run) -> None:
    table = run.episodes()

    assert len(table) == 5 * 4 * 3  # five of 15 turns, and one to close, in each world
    assert {
        "round",
        "world",
        "episode",
        "turns",
        "agent",
        "return",
        "apples",
        "zaps",
    } <= set(table.columns)
    assert (table["turns"] == 15).all()


def test_evaluations_are_played_greedily_and_as_trained(run: rookery.Run) -> None:
    table = run.evaluations()

    assert set(table["round"]) == {2, 4}
    assert set(table["players"]) == {"trained", "as_trained"}


def test_noisy_agents_are_evaluated_with_and_without_noise(tmp_path: Path) -> None:
    extra = {"iqn.noisy": True, "evaluate.every_rounds": 4}
    run = rookery.train("treasurehunt", run=tmp_path / "run", **QUICK, **extra)

    means = run.evaluations().set_index("players")["mean"]
    assert means["trained"].tolist() != means["as_trained"].tolist()
    seats = [seats_of(run, greedy) for greedy in (True, False)]
    matches = [rookery.play("treasurehunt", seat, episodes=8) for seat in seats]
    assert (matches[0].returns != matches[1].returns).any()


def test_a_run_leaves_everything_in_its_folder(run: rookery.Run) -> None:
    names = {path.name for path in run.path.iterdir()}

    assert names == {
        "config.toml",
        "claim-1-ended",
        "seal.json",
        "agents.json",
        "metrics.jsonl",
        "episodes.jsonl",
        "evaluations.jsonl",
        "events.jsonl",
        "tensorboard",
        "checkpoints",
        "weights",
        "recordings",
    }
    assert [p.name for p in (run.path / "checkpoints").iterdir()] == ["ckpt-4"]
    recorded = rookery.Recording.load(run.path / "recordings" / "round-4.safetensors")
    assert recorded.turns == 15


def test_tensorboard_shows_the_metrics(run: rookery.Run) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = EventAccumulator(str(run.path / "tensorboard"))
    board.Reload()

    assert {"loss/0", "reward/1", "return/2", "evaluation/trained/0"} <= set(
        board.Tags()["scalars"]
    )


def test_a_trained_agent_acts_outside_a_game(run: rookery.Run) -> None:
    agent = run.players()[1]
    observation = {
        name: np.zeros(part.shape, part.dtype) for name, part in agent.spec.parts.items()
    }

    action = agent.act(observation)

    assert 0 <= action < agent.spec.num_actions
    agent.reset()
    assert agent.act(observation) == action


def test_trained_agents_play_in_any_seat_that_fits(run: rookery.Run) -> None:
    trained = run.players()

    match = rookery.play(
        "gathering", {0: trained[2], 1: "greedy"}, episodes=2, game={"turns": 10}
    )

    assert match.returns.shape == (2, 3)


def test_a_seat_that_does_not_fit_is_refused(run: rookery.Run) -> None:
    with pytest.raises(rookery.PlayerError, match=r"cannot play agent '0': it was trained"):
        rookery.play("treasurehunt", run.players()[0])


def test_an_unknown_round_or_agent_is_refused(run: rookery.Run) -> None:
    with pytest.raises(
        rookery.ConfigError, match="has no weights of round 3; it has those of 4"
    ):
        run.players(3)
    with pytest.raises(rookery.ConfigError, match=r"/run has no trained agent '7': "):
        run.players()[7]


def test_crossplay_gives_a_matrix(run: rookery.Run) -> None:
    result = rookery.crossplay([run, run.path], episodes=3)

    assert result.means.shape == (2, 2)
    assert result.means[0, 0] == result.means[1, 1]


def test_warmup_larger_than_the_replay_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        rookery.ConfigError, match=r"would never learn: replay\.capacity is 50"
    ):
        rookery.train(
            "treasurehunt",
            run=tmp_path / "run",
            **{"replay.capacity": 50, "replay.warmup": 60},
        )


@pytest.mark.shows("A8")
def test_every_kind_of_parallelism_can_be_turned_off(tmp_path: Path) -> None:
    switches = {"workers": 0, "schedule": "sync", "worlds": 1, "turns_per_round": 40}
    settings = {**QUICK, **switches, "replay.warmup": 16}

    run = rookery.train("treasurehunt", run=tmp_path / "run", **settings)

    assert run.config.workers == 0


def test_a_game_that_is_not_built_in_must_be_named_again(tmp_path: Path) -> None:
    rooms = f"{GAME_FILES / 'rooms.py'}:Rooms"
    rookery.train(rooms, run=tmp_path / "run", game={"agents": 2}, **QUICK)

    with pytest.raises(rookery.ConfigError, match="If you trust this code, add: --game"):
        rookery.Run(tmp_path / "run").config  # noqa: B018
    assert rookery.Run(tmp_path / "run", game=rooms).config.worlds == QUICK["worlds"]


def test_the_game_of_a_run_can_be_named_by_another_path_or_as_a_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("rooms_a.py", "rooms_b.py"):
        Path(name).write_text((GAME_FILES / "rooms.py").read_text())
    rookery.train("./rooms_a.py:Rooms", run="run", game={"agents": 2}, **QUICK)
    rooms = import_module("rooms_a").Rooms

    for game in ("rooms_a.py:Rooms", f"{tmp_path}/rooms_a.py:Rooms", rooms):
        evaluation = rookery.evaluate("run", "trained", episodes=1, game=game)
        assert evaluation.game == "./rooms_a.py:Rooms"
    remedy = (
        "If you trust this code, {}: --game ./rooms_a.py:Rooms "
        '(in Python: game="./rooms_a.py:Rooms")'
    )
    with pytest.raises(rookery.ConfigError) as missing:
        rookery.evaluate("run")
    assert str(missing.value) == (
        "run was trained in './rooms_a.py:Rooms', which is not a built-in game. "
        + remedy.format("add")
    )
    with pytest.raises(rookery.ConfigError) as different:
        rookery.evaluate("run", game="rooms_b.py:Rooms")
    assert str(different.value) == (
        "run was trained in './rooms_a.py:Rooms', and 'rooms_b.py:Rooms' was given. "
        + remedy.format("give instead")
    )
    del sys.modules["rooms_a"]


def test_agents_need_no_game_except_in_runs_of_earlier_versions(tmp_path: Path) -> None:
    rooms = f"{GAME_FILES / 'rooms.py'}:Rooms"
    rookery.train(rooms, run=tmp_path / "run", game={"agents": 2}, **QUICK)
    assert set(rookery.Run(tmp_path / "run").players()) == {"0", "1"}

    (tmp_path / "run" / "agents.json").unlink()

    with pytest.raises(rookery.ConfigError, match="If you trust this code, add: --game"):
        rookery.Run(tmp_path / "run").players()
    assert set(rookery.Run(tmp_path / "run", game=rooms).players()) == {"0", "1"}


def test_a_network_of_another_shape_cannot_be_started_from(tmp_path: Path) -> None:
    rookery.train("treasurehunt", run=tmp_path / "a", **QUICK)
    wider = {**QUICK, "network.width": 17}

    with pytest.raises(
        rookery.ConfigError,
        match=r"network\.width is 17 here and 16 there; use the same settings",
    ):
        rookery.train(
            "treasurehunt",
            run=tmp_path / "b",
            agents={0: {"from": f"{tmp_path / 'a'}:0"}},
            **wider,
        )


def test_config_is_the_configuration_of_the_run(run: rookery.Run) -> None:
    assert isinstance(run.config, Config)
    assert run.config.rounds == 4
    assert run.config.game.name == "gathering"


@pytest.mark.shows("A4")
def test_another_process_rebuilds_the_agents_from_plain_files(
    run: rookery.Run, tmp_path: Path
) -> None:
    code = (
        "import json, sys, rookery\n"
        "run = rookery.Run(sys.argv[1])\n"
        "match = rookery.play('gathering', run.players(), episodes=3, game={'turns': 10})\n"
        "print(json.dumps(match.returns.tolist()))\n"
    )
    command = [sys.executable, "-c", code, str(run.path)]
    elsewhere = subprocess.run(
        command, capture_output=True, text=True, timeout=100, check=True
    )

    here = rookery.play("gathering", run.players(), episodes=3, game={"turns": 10})

    assert json.loads(elsewhere.stdout) == here.returns.tolist()
