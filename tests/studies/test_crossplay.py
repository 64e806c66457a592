"""Crossplay: who meets whom, what is counted, and how sure one can be of it."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from PIL import Image

import rookery
from rookery.cli import app as cli
from rookery.runs.run import Run
from rookery.studies.crossplay_report import Crossplay, Pairing

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
    made = tmp_path_factory.mktemp("runs")
    for number, name in enumerate(["a/seed-0", "a/seed-1", "b/seed-0", "b/seed-1"]):
        rookery.train("treasurehunt", run=made / name, seed=number, **SMALL)
    agents = {"1": {"player": "forager"}}
    rookery.train("treasurehunt", run=made / "mixed", agents=agents, **SMALL)
    return made


def test_every_seed_meets_every_seed(folder):
    found = rookery.crossplay([folder / "a", folder / "b"], episodes=4)

    assert found.means.shape == (2, 2)
    assert len(found.meetings) == 16
    assert {len(one.returns) for one in found.meetings} == {4}
    assert found.unit == "seeds"
    assert (found.low <= found.means).all()
    assert (found.means <= found.high).all()


def test_a_guest_takes_every_seat_it_was_trained_for(folder):
    found = rookery.crossplay([folder / "a" / "seed-0", folder / "mixed"], episodes=6)

    seats = [one.seats.tolist() for one in found.meetings]
    assert seats[0] == [0, 0, 0, 1, 1, 1]
    assert seats[2] == [0] * 6  # its other agent is scripted


def test_a_meeting_is_the_match_that_it_says(folder):
    a, b = Run(folder / "a" / "seed-0"), Run(folder / "b" / "seed-1")

    found = rookery.crossplay([a, b], episodes=4, seed=7)

    game = {key: value for key, value in SMALL["game"].items() if key != "agents"}
    seats = {0: a.players()[0], 1: b.players()[1]}
    match = rookery.play(
        "treasurehunt", seats, episodes=2, worlds=4, seed=7, agents=2, **game
    )
    np.testing.assert_array_equal(found.meetings[1].returns[:2], match.returns)


def test_scripted_players_can_be_met(folder):
    found = rookery.crossplay([folder / "a", "forager", "random"], episodes=4)

    assert found.populations[1:] == ["forager", "random"]
    assert len(found.meetings) == 4 * 4
    assert found.means[1, 1] > found.means[2, 2]


def test_a_scripted_player_takes_all_seats_of_whoever_it_meets(folder, tmp_path):
    three = {**SMALL, "game": {**SMALL["game"], "agents": 3}}
    rookery.train("treasurehunt", run=tmp_path / "three", **three)

    found = rookery.crossplay([folder / "mixed", tmp_path / "three", "forager"], episodes=6)

    among = {(one.guest_camp, one.host_camp): one for one in found.meetings}
    assert among[2, 1].seats.tolist() == [0, 0, 1, 1, 2, 2]
    game = {key: value for key, value in SMALL["game"].items() if key != "agents"}
    seats = {0: Run(tmp_path / "three").players()[0], 1: "forager", 2: "forager"}
    match = rookery.play("treasurehunt", seats, episodes=2, worlds=4, agents=3, **game)
    np.testing.assert_array_equal(among[1, 2].returns[:2], match.returns)


def test_within_a_camp_guests_meet_other_seeds_and_their_own_apart():
    """By hand: seeds that know each other get 10, strangers 1, 2, 3, …"""

    def meet(focal, background, got):
        returns = np.full((3, 2), float(got))
        return Pairing(0, 0, focal, background, returns, np.zeros(3, int))

    found = Crossplay(
        ["a"],
        "game",
        3,
        [meet("x", "x", 10), meet("x", "y", 1), meet("y", "x", 3), meet("y", "y", 10)],
    )

    assert found.means[0, 0] == 2.0
    assert (found.low[0, 0], found.high[0, 0]) == (1.0, 3.0)
    assert found.own_company(0) == (10.0, (10.0, 10.0))
    assert "own company" in str(found)


def test_how_much_and_how_evenly_is_in_the_table():
    returns = np.array([[4.0, 0.0], [1.0, 3.0]])
    one = Pairing(0, 0, "x", "x", returns, np.array([0, 1]))

    line = Crossplay(["x"], "game", 2, [one]).table().iloc[0]

    assert line["return"] == 3.5
    assert line["others"] == 0.5
    assert line["sum"] == 4.0
    assert line["minimum"] == 0.5
    assert line["gini"] == pytest.approx((0.5 + 0.25) / 2)


def test_of_single_seeds_the_table_says_what_its_intervals_are_worth(folder):
    found = rookery.crossplay([folder / "a" / "seed-0", "random"], episodes=4)

    assert found.unit == "episodes"
    assert "one seed says nothing of others" in str(found)


def test_beside_seeds_a_table_says_where_one_meets_one(folder):
    found = rookery.crossplay([folder / "a", folder / "mixed"], episodes=4)

    assert found.unit == "seeds or episodes"
    assert "; where one meets one, mean [95 % interval over episodes" in str(found)


def test_a_folder_beside_the_seeds_is_none_of_them(folder, tmp_path):
    shutil.copytree(folder / "a", tmp_path / "a")
    shutil.copytree(tmp_path / "a" / "seed-0", tmp_path / "a" / "seed-0-backup")

    assert [one.path.name for one in Run.seeds(tmp_path / "a")] == ["seed-0", "seed-1"]


def test_the_matrix_can_be_a_picture(folder, tmp_path):
    found = rookery.crossplay([folder / "a", "random"], episodes=4)

    found.heat_map(tmp_path / "x.png")

    with Image.open(tmp_path / "x.png") as picture:
        assert picture.size[0] > 300


def test_runs_of_two_games_do_not_meet(folder, tmp_path):
    other = rookery.train("iterated_chicken", run=tmp_path / "run", rounds=1, workers=0)

    with pytest.raises(rookery.ConfigError, match="crossplay needs one game"):
        rookery.crossplay([folder / "mixed", other])


@pytest.mark.parametrize(
    ("camps", "words"),
    [
        ([], "there is no run among nothing: name at least one"),
        (["random"], "there is no run among 'random': name at least one"),
        (["mixed", "forrager"], "neither a run nor a player of 'treasurehunt'.*forager"),
    ],
)
def test_mistakes_are_named(folder, monkeypatch, populations, words):
    monkeypatch.chdir(folder)

    with pytest.raises(rookery.ConfigError, match=words):
        rookery.crossplay(populations)


def test_the_command_prints_the_matrix(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)

    with pytest.raises(SystemExit) as ended:
        cli.main(["crossplay", "a", "random", "evaluate.episodes=4", "--json"])

    told = json.loads(capsys.readouterr().out)
    assert ended.value.code == 0
    assert told["camps"] == ["a", "random"]
    assert np.shape(told["mean"]) == (2, 2)
    assert len(told["meetings"]) == 9


def test_the_command_names_what_cannot_be_chosen(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)

    with pytest.raises(SystemExit) as ended:
        cli.main(["crossplay", "a", "rounds=4"])

    assert ended.value.code == 2
    assert "evaluate.episodes=50 and seed=0 can" in capsys.readouterr().err
