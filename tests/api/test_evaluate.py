"""`rookery.evaluate`: line-ups of games and runs, rounds, counts, and seeds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rookery
from rookery.api.lineups import run_setups
from rookery.cli.app import main
from rookery.errors import ConfigError
from rookery.games.registry import find
from rookery.studies.statistics import bootstrap, interquartile_mean
from tests.small import SMALL

GAME = "gathering"
SETTINGS: dict[str, Any] = {
    **SMALL,
    "rounds": 4,
    "workers": 0,
    "game.turns": 12,
    "game.agents": 3,
    "evaluate.every_rounds": 2,
    "checkpoints.weights_every_rounds": 2,
    "agents": {"2": {"player": "peaceful"}},
}
LINEUPS = ["trained", "as_trained", "random", "greedy", "peaceful"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> rookery.Run:
    """A run of two trained agents and a scripted one, with weights of rounds 2 and 4."""
    return rookery.train(GAME, run=tmp_path_factory.mktemp("runs") / "run", **SETTINGS)


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of three seeds."""
    folder = tmp_path_factory.mktemp("seeds")
    for seed in range(3):
        settings = {**SETTINGS, "rounds": 2, "seed": seed}
        rookery.train(GAME, run=folder / f"seed-{seed}", **settings)
    return folder


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", *arguments, "--json"])
    assert ended.value.code == 0
    return json.loads(capsys.readouterr().out)


# Games.


def test_a_game_is_played_by_each_of_its_scripted_players() -> None:
    evaluation = rookery.evaluate(GAME, episodes=3, game={"turns": 12})

    assert list(evaluation.matches) == ["random", "greedy", "peaceful"]
    assert all(len(match.episodes) == 3 for match in evaluation.matches.values())
    assert repr(evaluation) == "<Evaluation of gathering: random, greedy, peaceful>"


def test_a_game_can_be_a_class() -> None:
    game = find(GAME).rules
    assert game is not None

    evaluation = rookery.evaluate(game, episodes=1, game={"turns": 12})

    by_name = rookery.evaluate(GAME, episodes=1, game={"turns": 12})
    assert evaluation.to_json() == by_name.to_json()


def test_a_folder_of_folders_of_seeds_names_what_is_in_it(seeds: Path) -> None:
    with pytest.raises(ConfigError, match=f"but a folder that contains .*{seeds.name}"):
        rookery.evaluate(str(seeds.parent))


def test_players_of_a_game_can_be_named_for_each_agent() -> None:
    players = {0: "greedy", 1: "peaceful"}

    evaluation = rookery.evaluate(GAME, players, episodes=2, game={"turns": 12})

    (match,) = evaluation.matches.values()
    assert match.players == ("greedy", "peaceful", "random")


def test_the_seed_decides_the_games() -> None:
    def returns(seed: int) -> list[Any]:
        settings = {"episodes": 4, "game": {"turns": 40}, "seed": seed}
        return rookery.evaluate(GAME, "random", **settings).matches["random"].counts["zaps"]

    assert np.array_equal(returns(1), returns(1))
    assert not np.array_equal(returns(1), returns(2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"round": 3}, "round=3 is for runs, and 'gathering' is a game: leave it out."),
        (
            {"game": "gathering"},
            "game='gathering' is for runs, and 'gathering' is a game: leave it out.",
        ),
        ({"episodes": 0}, "evaluate.episodes must be"),
        ({"players": "gredy"}, "did you mean 'greedy'?"),
    ],
)
def test_arguments_that_do_not_fit_a_game_are_refused(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        rookery.evaluate(GAME, **arguments)

    assert message in str(raised.value)


# Runs.


def test_trained_agents_are_compared_with_scripted_players(run: rookery.Run) -> None:
    evaluation = rookery.evaluate(run, episodes=3)

    assert list(evaluation.matches) == LINEUPS
    assert evaluation.matches["trained"].players == ("trained", "trained", "peaceful")
    assert (evaluation.round, evaluation.run) == (4, str(run.path))


def test_the_command_prints_what_the_function_returns(
    run: rookery.Run, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = run_json(capsys, str(run.path), "evaluate.episodes=3", "seed=5")

    assert printed == rookery.evaluate(run.path, episodes=3, seed=5).to_json()


def test_counts_of_the_game_are_in_the_summary_and_the_tables(run: rookery.Run) -> None:
    evaluation = rookery.evaluate(run, episodes=3)

    match = evaluation.matches["random"]
    zaps = np.array([episode.counts["zaps"] for episode in match.episodes])
    assert np.array_equal(match.counts["zaps"], zaps)
    counts = evaluation.to_json()["players"]["random"]["counts"]["zaps"]
    assert counts["mean"] == pytest.approx(zaps.mean())
    assert counts["agents"]["1"] == pytest.approx(zaps[:, 1].mean())
    table = evaluation.table().set_index(["players", "agent"])
    assert len(table) == len(LINEUPS) * 3
    assert table["zaps"]["random", "1"] == pytest.approx(zaps[:, 1].mean())
    assert len(evaluation.episodes()) == len(LINEUPS) * 3 * 3
    assert "zaps" in str(evaluation)


def test_earlier_weights_can_be_evaluated(run: rookery.Run) -> None:
    by_round = rookery.evaluate(run, "trained", round=2, episodes=2)
    by_name = rookery.evaluate(f"{run.path}@2", "trained", episodes=2)

    assert by_round.round == by_name.round == 2
    assert by_round.to_json() == by_name.to_json()
    seats = rookery.evaluate(run, ["trained@2", "trained", "random"], episodes=1)
    (match,) = seats.matches.values()
    assert match.players == ("trained@2", "trained", "random")


def test_the_weights_are_those_of_the_round(run: rookery.Run) -> None:
    early, late = (
        next(run_setups(run, (), None, (), "trained,trained,random", number)).lineups
        for number in (2, 4)
    )

    for lineup, number in ((early, 2), (late, 4)):
        (seats,) = lineup.values()
        saved = run.players(number)["0"].named
        assert all(np.array_equal(seats[0].named[name], saved[name]) for name in saved)


def test_agents_that_a_mapping_leaves_out_play_as_trained(run: rookery.Run) -> None:
    evaluation = rookery.evaluate(run, {0: "random"}, episodes=1)

    (match,) = evaluation.matches.values()
    assert match.players == ("random", "trained", "peaceful")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"players": "traind"}, "did you mean 'trained'?"),
        ({"players": "trained,random"}, "got 2 players for the 3 agents of"),
        (
            {"players": ["trained"] * 3},
            "was not trained: 'peaceful' played it. Name a scripted player for it.",
        ),
        ({"round": 3}, "has no weights of round 3; it has those of 2, 4."),
        ({"players": "trained@3"}, "has no weights of round 3"),
        ({"game": {"turns": 9}}, "'game.turns=9' cannot be changed after training"),
        ({"rounds": 9}, "'rounds=9' cannot be changed after training"),
    ],
)
def test_line_ups_that_do_not_fit_a_run_are_refused(
    run: rookery.Run, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        rookery.evaluate(run, **arguments)

    assert message in str(raised.value)


def test_a_round_is_given_once(
    run: rookery.Run, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["evaluate", f"{run.path}@2", "--round", "4"])

    assert capsys.readouterr().err == (
        f"error: {run.path}@2 and round 4 name two rounds: leave one of them out.\n"
    )


def test_evaluations_during_training_have_counts_and_steps(run: rookery.Run) -> None:
    table = run.evaluations()

    assert set(table["players"]) == {"trained", "as_trained"}
    assert {"zaps", "apples", "steps"} <= set(table.columns)
    steps = run.metrics().set_index(["round", "agent"])["steps"]
    for rows in (table, run.episodes()):
        keys = zip(rows["round"], rows["agent"], strict=True)
        assert rows["steps"].tolist() == [steps[key] for key in keys]


# Seeds.


def test_seeds_are_aggregated_with_the_seed_as_the_unit(
    seeds: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluation = rookery.evaluate(seeds, episodes=3)

    assert list(evaluation.results) == ["seed-0", "seed-1", "seed-2"]
    means = [x["random"].summary()["mean"] for x in evaluation.results.values()]
    zaps = [x["random"].counts["zaps"].mean() for x in evaluation.results.values()]
    aggregate = evaluation.aggregate()["random"]
    assert aggregate.mean == (interquartile_mean(means), *bootstrap(means))
    assert aggregate.counts["zaps"] == (interquartile_mean(zaps), *bootstrap(zaps))
    assert list(aggregate.agents) == ["0", "1", "2"]
    printed = run_json(capsys, str(seeds), "evaluate.episodes=3")
    assert printed == json.loads(json.dumps(evaluation.to_json()))
    assert printed["aggregate"]["players"]["random"]["mean"]["mean"] == pytest.approx(
        float(interquartile_mean(means))
    )


def test_a_list_of_runs_is_aggregated_too(seeds: Path) -> None:
    runs = rookery.Run.seeds(seeds)[:2]

    evaluation = rookery.evaluate(runs, "trained", episodes=1)

    assert list(evaluation.results) == ["seed-0", "seed-1"]
    with pytest.raises(ConfigError, match="has 2 seeds, each with its own matches"):
        _ = evaluation.matches
    assert "2 seeds are few" in str(evaluation)


def test_one_seed_has_no_interval(seeds: Path, tmp_path: Path) -> None:
    (tmp_path / "seed-0").symlink_to(seeds / "seed-0")

    evaluation = rookery.evaluate(tmp_path, "random", episodes=1)

    assert evaluation.aggregate()["random"].mean[1:] == (None, None)
    assert "one seed says nothing about others" in str(evaluation)
