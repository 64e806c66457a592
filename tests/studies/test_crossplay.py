"""Crossplay: which seeds are paired, what is measured, and the intervals."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from PIL import Image

import rookery
from rookery.cli import app as cli
from rookery.runs.run import Run
from rookery.studies.crossplay import Crossplay, Pairing

SMALL = {
    "rounds": 1,
    "workers": 0,
    "worlds": 4,
    "turns_per_round": 4,
    "frames": 1,
    "network": {"width": 16, "quantiles": 2},
    "replay": {"capacity": 200, "warmup": 64},
    "game": {"agents": 2, "turns": 6, "height": 6, "width": 6, "spawn": 0.2},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two folders of two seeds each, and one run whose second agent is scripted."""
    folder_of_runs = tmp_path_factory.mktemp("runs")
    for number, name in enumerate(["a/seed-0", "a/seed-1", "b/seed-0", "b/seed-1"]):
        rookery.train("treasurehunt", run=folder_of_runs / name, seed=number, **SMALL)
    agents = {"1": {"player": "forager"}}
    rookery.train("treasurehunt", run=folder_of_runs / "mixed", agents=agents, **SMALL)
    return folder_of_runs


def test_every_seed_is_paired_with_every_seed(folder):
    result = rookery.crossplay([folder / "a", folder / "b"], episodes=4)

    assert result.means.shape == (2, 2)
    assert len(result.pairings) == 16
    assert {len(pairing.returns) for pairing in result.pairings} == {4}
    assert result.unit == "seeds"
    assert (result.low <= result.means).all()
    assert (result.means <= result.high).all()


def test_a_focal_agent_takes_every_seat_it_was_trained_for(folder):
    result = rookery.crossplay([folder / "a" / "seed-0", folder / "mixed"], episodes=6)

    seats = [pairing.seats.tolist() for pairing in result.pairings]
    assert seats[0] == [0, 0, 0, 1, 1, 1]
    assert seats[2] == [0] * 6  # its other agent is scripted


def test_a_pairing_is_the_match_of_its_seats(folder):
    a, b = Run(folder / "a" / "seed-0"), Run(folder / "b" / "seed-1")

    result = rookery.crossplay([a, b], episodes=4, seed=7)

    game = {key: value for key, value in SMALL["game"].items() if key != "agents"}
    seats = {0: a.players()[0], 1: b.players()[1]}
    match = rookery.play(
        "treasurehunt", seats, episodes=2, worlds=4, seed=7, game={"agents": 2, **game}
    )
    np.testing.assert_array_equal(result.pairings[1].returns[:2], match.returns)


def test_a_scripted_player_can_be_a_population(folder):
    result = rookery.crossplay([folder / "a", "forager", "random"], episodes=4)

    assert result.populations[1:] == ["forager", "random"]
    assert len(result.pairings) == 4 * 4
    assert result.means[1, 1] > result.means[2, 2]


def test_a_scripted_player_takes_all_seats_of_the_other_population(folder, tmp_path):
    three = {**SMALL, "game": {**SMALL["game"], "agents": 3}}
    rookery.train("treasurehunt", run=tmp_path / "three", **three)

    result = rookery.crossplay(
        [folder / "mixed", tmp_path / "three", "forager"], episodes=6
    )

    among = {
        (pairing.focal_population, pairing.background_population): pairing
        for pairing in result.pairings
    }
    assert among[2, 1].seats.tolist() == [0, 0, 1, 1, 2, 2]
    game = {key: value for key, value in SMALL["game"].items() if key != "agents"}
    seats = {0: Run(tmp_path / "three").players()[0], 1: "forager", 2: "forager"}
    match = rookery.play(
        "treasurehunt", seats, episodes=2, worlds=4, game={"agents": 3, **game}
    )
    np.testing.assert_array_equal(among[1, 2].returns[:2], match.returns)


def test_within_a_population_a_seed_is_compared_with_other_seeds_only():
    """By hand: agents trained together get 10, others 1 and 3."""

    def pairing(focal, background, value):
        returns = np.full((3, 2), float(value))
        return Pairing(0, 0, focal, background, returns, np.zeros(3, int))

    result = Crossplay(
        ["a"],
        "game",
        3,
        [
            pairing("x", "x", 10),
            pairing("x", "y", 1),
            pairing("y", "x", 3),
            pairing("y", "y", 10),
        ],
    )

    assert result.means[0, 0] == 2.0
    assert (result.low[0, 0], result.high[0, 0]) == (1.0, 3.0)
    assert result.among_own(0) == (10.0, (10.0, 10.0))
    assert "trained with" in str(result)


def test_the_table_has_the_sum_and_the_inequality_of_returns():
    returns = np.array([[4.0, 0.0], [1.0, 3.0]])
    only = Pairing(0, 0, "x", "x", returns, np.array([0, 1]))

    line = Crossplay(["x"], "game", 2, [only]).table().iloc[0]

    assert line["return"] == 3.5
    assert line["others"] == 0.5
    assert line["sum"] == 4.0
    assert line["minimum"] == 0.5
    assert line["gini"] == pytest.approx((0.5 + 0.25) / 2)


def test_with_single_seeds_the_table_explains_its_intervals(folder):
    result = rookery.crossplay([folder / "a" / "seed-0", "random"], episodes=4)

    assert result.unit == "episodes"
    assert "one seed says nothing about others" in str(result)


def test_with_some_single_seeds_the_table_says_where_intervals_are_over_episodes(folder):
    result = rookery.crossplay([folder / "a", folder / "mixed"], episodes=4)

    assert result.unit == "seeds or episodes"
    assert "; with one seed on each side, mean [95 % interval over episodes" in str(result)


def test_another_folder_beside_the_seeds_is_not_one_of_them(folder, tmp_path):
    shutil.copytree(folder / "a", tmp_path / "a")
    shutil.copytree(tmp_path / "a" / "seed-0", tmp_path / "a" / "seed-0-backup")

    assert [run.path.name for run in Run.seeds(tmp_path / "a")] == ["seed-0", "seed-1"]


def test_the_matrix_can_be_written_as_an_image(folder, tmp_path):
    result = rookery.crossplay([folder / "a", "random"], episodes=4)

    result.heat_map(tmp_path / "x.png")

    with Image.open(tmp_path / "x.png") as picture:
        assert picture.size[0] > 300


def test_runs_of_two_games_are_refused(folder, tmp_path):
    other = rookery.train("iterated_chicken", run=tmp_path / "run", rounds=1, workers=0)

    with pytest.raises(rookery.ConfigError, match="crossplay needs one game"):
        rookery.crossplay([folder / "mixed", other])


@pytest.mark.parametrize(
    ("populations", "message"),
    [
        ([], "there is no run in nothing: name at least one"),
        (["random"], "there is no run in 'random': name at least one"),
        (["mixed", "forrager"], "neither a run nor a player of 'treasurehunt'.*forager"),
    ],
)
def test_unusable_populations_are_refused(folder, monkeypatch, populations, message):
    monkeypatch.chdir(folder)

    with pytest.raises(rookery.ConfigError, match=message):
        rookery.crossplay(populations)


def test_the_command_prints_the_matrix(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)

    with pytest.raises(SystemExit) as ended:
        cli.main(["crossplay", "a", "random", "evaluate.episodes=4", "--json"])

    printed = json.loads(capsys.readouterr().out)
    assert ended.value.code == 0
    assert printed["camps"] == ["a", "random"]
    assert np.shape(printed["mean"]) == (2, 2)
    assert len(printed["meetings"]) == 9


def test_the_command_refuses_other_settings(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)

    with pytest.raises(SystemExit) as ended:
        cli.main(["crossplay", "a", "rounds=4"])

    assert ended.value.code == 2
    assert "evaluate.episodes=50 and seed=0 can" in capsys.readouterr().err
