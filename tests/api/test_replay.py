"""`rookery.replay` and `rookery.record`: which players, which round, which episode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import rookery
from rookery.config.parse import nested
from rookery.errors import ConfigError
from rookery.evaluation.recordings import Recording
from rookery.rng import Purpose, keyed_seed
from tests.paths import GAME_FILES
from tests.small import HUNT

SEED = keyed_seed(0, Purpose.AFTER_TRAINING)
"""The seed with which the agents of a run with seed 0 play."""
LIGHTS = f"gymnasium:{GAME_FILES / 'gym.py'}:Lights"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> rookery.Run:
    settings = {
        **HUNT,
        "workers": 0,
        "learning_rate": 0.01,
        "checkpoints.weights_every_rounds": 2,
        "record.every_rounds": 6,
    }
    folder = tmp_path_factory.mktemp("replay") / "hunt"
    return rookery.train("treasurehunt", run=folder, **nested(settings))


def same(left: Recording, right: Recording) -> bool:
    return all(map(np.array_equal, left.arrays.values(), right.arrays.values()))


def played(players: Any, **options: Any) -> Recording:
    options = {"episodes": 1, "worlds": 1, "seed": SEED, "record": True} | options
    match = rookery.play("treasurehunt", players, game={"turns": 15}, **options)
    return match.recordings[-1]


# Who plays.


def test_the_trained_agents_of_a_run_play(run: rookery.Run) -> None:
    shown = rookery.replay(run.path)

    assert shown.players == ("trained",) * 3
    assert same(shown, played(run.players()))
    assert same(shown, rookery.replay(run))
    assert len(shown.film()) == 15


def test_agents_of_an_earlier_round_play(run: rookery.Run) -> None:
    early, late = rookery.replay(run, round=2), rookery.replay(run)

    assert same(early, played(run.players(round=2)))
    assert same(early, rookery.replay(f"{run.path}@2"))
    assert not same(early, late)


def test_the_round_that_was_asked_for_is_part_of_the_players_names(
    run: rookery.Run,
) -> None:
    names = ("trained@2",) * 3

    assert rookery.replay(run, round=2).players == names
    assert rookery.replay(f"{run.path}@2").players == names
    assert rookery.replay(run, "as_trained", round=2).players == ("as_trained@2",) * 3


def test_trained_scripted_and_earlier_agents_are_mixed(run: rookery.Run) -> None:
    shown = rookery.replay(run, "trained@2,forager,trained")

    assert shown.players == ("trained@2", "forager", "trained")
    early, late = run.players(round=2), run.players()
    assert same(shown, played([early[0], "forager", late[2]]))


def test_agents_of_other_runs_can_be_named(run: rookery.Run) -> None:
    players = f"{run.path}@2,{run.path}:0@4,{run.path}:2"
    seats = [run.players(2)[0], run.players(4)[0], run.players()[2]]

    shown = rookery.replay(run, players)

    assert shown.players == ("hunt@2", "hunt:0@4", "hunt:2@6")
    assert same(shown, played(seats))
    in_a_game = rookery.replay("treasurehunt", players, seed=SEED, game={"turns": 15})
    assert same(in_a_game, played(seats))


def test_a_run_for_all_seats_gives_each_agent_its_own_weights(run: rookery.Run) -> None:
    shown = rookery.replay("treasurehunt", f"{run.path}@2", seed=SEED, game={"turns": 15})

    assert same(shown, played(run.players(2)))


def test_scripted_players_play_a_game() -> None:
    shown = rookery.replay("treasurehunt", "forager", seed=7, game={"turns": 15})

    assert shown.players == ("forager",) * 3
    assert same(shown, played("forager", seed=7))


# Which episode.


def test_a_later_episode_is_the_one_that_many_worlds_play(run: rookery.Run) -> None:
    many = rookery.play(
        "treasurehunt",
        run.players(),
        episodes=9,
        worlds=3,
        seed=SEED,
        record=True,
        game={"turns": 15},
    )
    (third,) = [r for r in many.recordings if (r.world, r.episode) == (0, 2)]

    shown = rookery.replay(run, episode=2)

    assert (shown.world, shown.episode) == (0, 2)
    assert same(shown, third)
    assert shown.pictures is not None
    assert third.pictures is not None
    assert all(map(np.array_equal, shown.pictures, third.pictures))


def test_another_seed_gives_another_episode(run: rookery.Run) -> None:
    assert not same(rookery.replay(run, seed=1), rookery.replay(run, seed=2))


def test_an_episode_after_one_that_does_not_end_is_refused() -> None:
    with (
        pytest.warns(UserWarning, match="1 episode had not ended after 5 turns"),
        pytest.raises(
            ConfigError, match="there is no episode 1: episode 0 had not ended af"
        ),
    ):
        rookery.replay(LIGHTS, episode=1, evaluate={"turns": 5})


# What is written.


def test_a_film_is_written(run: rookery.Run, tmp_path: Path) -> None:
    shown = rookery.replay(run, out=tmp_path / "late.gif", fps=20, size=240)

    with Image.open(tmp_path / "late.gif") as gif:
        assert gif.n_frames == 15
        assert gif.info["duration"] == 50
        assert gif.width == shown.film(size=240)[0].shape[1] <= 240
    assert [path.name for path in tmp_path.iterdir()] == ["late.gif"]


def test_recordings_of_training_can_be_drawn(run: rookery.Run, tmp_path: Path) -> None:
    recorded = Recording.load(run.path / "recordings" / "round-6.safetensors")

    recorded.write_gif(tmp_path / "episode.gif")

    with Image.open(tmp_path / "episode.gif") as gif:
        assert gif.n_frames == 15
    columns = set(run.recordings().columns)
    assert {"round", "turn", "agent", "action", "reward"} <= columns
    assert not [name for name in columns if name.startswith(("scene", "frames"))]


# What is refused.

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a round": ({"round": 3}, "has no weights of round 3; it has those of 2, 4, 6"),
    "a round of a seat": ({"players": "trained@3"}, "has no weights of round 3"),
    "a player": ({"players": "trainedd"}, "unknown player 'trainedd' for"),
    "too few": ({"players": "trained,random"}, "got 2 players for the 3 agents of"),
    "an episode": ({"episode": -1}, "episode is -1, expected a whole number from 0"),
    "half an episode": ({"episode": 0.5}, "episode is 0.5, expected a whole number"),
    "a size": ({"size": 0}, "size is 0, expected the width in pixels"),
    "a rate without a file": ({"fps": 10}, "fps is for a film in a file: name the file"),
    "a format": ({"out": "film.webm"}, "'film.webm' does not end in .gif, .mp4, .png or"),
    "a setting": ({"rounds": 9}, "'rounds=9' cannot be changed after training"),
}


@pytest.mark.parametrize(("options", "words"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_shown_is_refused_in_one_line(
    run: rookery.Run, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        rookery.replay(run, **options)

    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_agents_of_other_runs_that_do_not_exist_are_refused(run: rookery.Run) -> None:
    with pytest.raises(ConfigError, match="no trained agent '7'"):
        rookery.replay("treasurehunt", f"{run.path}:7@2")
    with pytest.raises(ConfigError, match="has no weights of round 3; it has those of 2"):
        rookery.replay("treasurehunt", f"{run.path}@3")


def test_a_round_of_a_game_is_refused() -> None:
    with pytest.raises(
        ConfigError, match="round is 3, which is for runs, and 'tag' is a ga"
    ):
        rookery.replay("tag", round=3)


# Tables.


def test_a_table_of_every_turn_is_returned_and_written(
    run: rookery.Run, tmp_path: Path
) -> None:
    import pandas

    table = rookery.record(
        run, tmp_path / "turns.parquet", "trained@2,random,forager", episodes=4
    )

    assert len(table) == 4 * 15 * 3
    assert set(table["player"]) == {"trained@2", "random", "forager"}
    assert pandas.read_parquet(tmp_path / "turns.parquet").equals(table)


def test_a_table_of_a_game_is_returned() -> None:
    table = rookery.record("treasurehunt", episodes=2, game={"turns": 5})

    assert len(table) == 2 * 5 * 3
    assert set(table["player"]) == {"random"}


def test_a_function_wins_over_the_module_of_its_name() -> None:
    import rookery.replay.rows

    assert callable(rookery.replay)
